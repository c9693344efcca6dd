"""The kinds that a cluster serves, and the kinds and namespaces that the operator watches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from hearth.model import value_class
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.template.blueprint import ExternalBlueprint, ResourceBlueprint


@value_class.dataclass(frozen=True, slots=True)
class Denial:
    """Reason why the operator is not allowed to watch the objects of a kind."""

    message: str


@value_class.dataclass(frozen=True, slots=True)
class KindUnavailable:
    """Reason why a kind is not served, or not watched yet."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WatchedKinds:
    """The kinds that the cluster serves, with the limits of the operator's watches."""

    served: Kinds
    unsynced: Collection[Kind] = ()
    """The kinds with incomplete caches, where a missing entry does not mean a missing object. The caller may remove kinds
    later, because each use reads the collection."""
    denied: Mapping[Kind, str] = field(default_factory=dict[Kind, str])
    """The kinds that the operator is not allowed to watch, with the API server's message; also read at each use."""
    only_namespace: str = ""
    """The only namespace with objects, in addition to cluster scope; "" for any."""
    in_namespace_of_stack: Collection[str] = ()
    """The kinds (`Kind.group`) that are watched only in the namespaces of Stacks."""

    def find_unlisted(self) -> Kind | None:
        """Return a kind whose first list is in progress, so that its objects may be missing; otherwise None.

        Denied kinds do not count, because their objects are never shown.
        """
        return next((kind for kind in self.unsynced if kind not in self.denied), None)

    def find(self, resource: ResourceBlueprint, *, namespace: str) -> Kind | Denial | KindUnavailable:
        """Return the kind of a resource, or why its objects cannot be planned. namespace: of the Stack."""
        kind = self.served.find(resource.api_version, resource.kind)
        if kind is None:
            return KindUnavailable(
                f"the cluster does not serve kind {resource.kind} in {resource.api_version}; the resource continues when it does"
            )
        if self.denied and kind in self.denied:
            return self._explain_denied(kind, namespace)
        if kind in self.unsynced:
            return KindUnavailable(f"{kind.key} objects cannot be watched yet; the resource continues when they can")
        return kind

    def find_unwatched_place(self, kind: Kind, ref: ObjectRef, *, namespace: str) -> str:
        """Return why the operator does not see an object at this place, or "" if it does. namespace: of the Stack."""
        if self.only_namespace and ref.namespace not in ("", self.only_namespace):
            return f"is in namespace {ref.namespace}, but this operator serves only {self.only_namespace}"
        if kind.key in self.in_namespace_of_stack and ref.namespace != namespace:
            return (
                f"is in namespace {ref.namespace}, but this operator watches {kind.key} objects only in the "
                f"namespace of their Stack (--namespaced-watches); create the Stack in namespace {ref.namespace}"
            )
        return ""

    def lacks_any(self, resources: Iterable[ResourceBlueprint | ExternalBlueprint]) -> bool:
        """Return whether the cluster does not serve the kind of any of these resources. Checks all resources."""
        return any(self.served.find(resource.api_version, resource.kind) is None for resource in resources)

    def _explain_denied(self, kind: Kind, namespace: str) -> Denial:
        """Return that the operator is not allowed to watch a kind, with advice."""
        way_out = "grant this permission, or remove the resource"
        if kind.key in self.in_namespace_of_stack:
            way_out = (
                f"let it list and watch them in namespace {namespace} by a RoleBinding, for Secrets to the "
                f"ClusterRole hearth-watch-secrets"
            )
        return Denial(f"the operator is not allowed to watch {kind.key} objects: {self.denied[kind]}; {way_out}")
