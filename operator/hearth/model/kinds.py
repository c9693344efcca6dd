"""Kinds of the API server and references to objects, named as kubectl names them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from hearth.model import value_class


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind as the API server serves it."""

    group: str
    version: str
    name: str
    """The kind's name in manifests, e.g. `Deployment`."""
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """Return the `apiVersion` of manifests of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """Return `Kind.group`, as kubectl writes a kind without its version; the core group has no dot."""
        return make_key(self.group, self.name)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """The identity of one object: its kind without a version, its namespace ("" for cluster scope) and name."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def kind_key(self) -> str:
        """Return `Kind.group`, as `Kind.key`."""
        return make_key(self.group, self.kind)

    def __str__(self) -> str:
        """Return `deployment/web`, with the group for kinds that are not built in: `certificate.cert-manager.io/web`."""
        group = f".{self.group}" if "." in self.group and not self.group.endswith(".k8s.io") else ""
        return f"{self.kind.lower()}{group}/{self.name}"


def make_key(group: str, kind: str) -> str:
    """Return `Kind.group`; the core group has no dot."""
    return f"{kind}.{group}" if group else kind


class Kinds(Protocol):
    """The cached kinds that the cluster currently serves."""

    @property
    def generation(self) -> int:
        """Return a number that increases whenever a kind appears, disappears or changes its schema."""

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Find the kind; None if the cluster does not serve it."""

    def all(self) -> Collection[Kind]:
        """Return every kind whose objects can be listed, watched, written and deleted."""

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Find the OpenAPI v3 schema of a kind, or None if no schema was loaded.

        `find_definition` resolves its `$ref`s.
        """

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """Find the target of a `$ref` within a schema of `find_schema`."""
