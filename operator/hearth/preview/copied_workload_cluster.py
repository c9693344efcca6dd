"""Implements `hearth.engine.ports.WorkloadCluster` on copied objects. A write is a dry run that updates the copy."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from hearth.engine.writes import step_execution
from hearth.kube.client import api_requests
from hearth.model import names
from hearth.model.child import Child, Object, Path, parse_child
from hearth.model.errors import ApiStatusError
from hearth.model.external_objects import UNKNOWN_VIEW, ExternalQuery, ExternalView
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.tenancy import Boundary
from hearth.plan.ownership import apply_obstacles, field_changes
from hearth.plan.retry.retry_triggers import RetryTrigger
from hearth.preview import object_copies
from hearth.preview.assumptions import UnknownValues
from hearth.preview.live_cluster import LiveCluster
from hearth.preview.object_copies import DryRunWrite, ObjectCopies, ObjectCopy, Place

CONFLICT, NOT_FOUND = 409, 404
REFUSED: Final = (400, 422)
NOT_PERMITTED = "you are not permitted to try it: {}"
NEW_NAMESPACE = "its namespace does not exist yet"
NEW_KIND = "its kind does not exist yet"
UNKNOWN_NAME = "its name or namespace is not known yet"
DEFINITION: Final = "CustomResourceDefinition.apiextensions.k8s.io"
"""`Kind.key` of CustomResourceDefinitions."""
Schema: TypeAlias = Mapping[str, Any]


class CopiedWorkloadCluster:
    """The cluster of the children, as the engine sees it in a preview."""

    def __init__(
        self,
        live: LiveCluster,
        copies: ObjectCopies,
        unknown: UnknownValues,
        *,
        accounts: Collection[str] = (),
        on_kinds: Callable[[], None] = lambda: None,
    ) -> None:
        """accounts: the users that the user of the preview may impersonate; on_kinds: called when a kind is added."""
        self.writes: dict[Place, list[DryRunWrite]] = {}
        """Writes since the caller last took them, by object."""
        self._live = live
        self._kinds = AssumedKinds(live.kinds)
        self._on_kinds = on_kinds
        self._copies = copies
        self._unknown = unknown
        self._accounts = accounts
        self._user = ""
        self._queries: dict[str, ExternalQuery] = {}
        self._views: dict[ExternalQuery, ExternalView] = {}
        self._prepared: set[Place] = set()
        """Live objects whose fields or field owners were changed only in the copy, usually before an apply."""

    @property
    def kinds(self) -> Kinds:
        """The kinds that the cluster serves, and kinds that a definition of the preview adds."""
        return self._kinds

    def acting_as(self, user: str) -> CopiedWorkloadCluster:
        """Return the same cluster as that user, if the user of the preview may impersonate it."""
        found = copy.copy(self)
        found._user = user if user in self._accounts else ""  # noqa: SLF001 -- its own class
        return found

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Load the schemas."""
        await self._live.load_schemas([kind for kind in kinds if not self._kinds.is_assumed(kind)])

    async def refresh_kinds(self) -> None:
        """Keep the kinds that were read."""

    def follow(self, kind: Kind, paths: Collection[Path], *, namespace: str = "") -> bool:  # noqa: ARG002 -- the port
        """Return True: everything was read before."""
        return True

    def find_denial(self, kind: Kind, *, namespace: str = "") -> str:  # noqa: ARG002 -- the port
        """Return "": the watch rights of the operator are not known."""
        return ""

    def is_failing(self, kind: Kind, *, namespace: str = "") -> bool:  # noqa: ARG002 -- the port
        """Return False: a copy of the world waits for nothing."""
        return False

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return the copied children by resource."""
        return self._copies.children(stack_uid)

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """Return the copied children of one resource."""
        return self._copies.children(stack_uid).get(resource, ())

    def follow_externals(self, stack_uid: str, queries: Mapping[str, ExternalQuery], *, namespace: str) -> None:  # noqa: ARG002 -- the port
        """Record the external objects that `read_externals` must read."""
        self._queries = dict(queries)

    def find_external(self, stack_uid: str, name: str) -> ExternalView:  # noqa: ARG002 -- the port
        """Return the objects that were read."""
        query = self._queries.get(name)
        return self._views.get(query, UNKNOWN_VIEW) if query is not None else UNKNOWN_VIEW

    async def read_externals(self, user: str) -> bool:
        """Read the objects that the Stack reads and that were not read yet; return whether there were any. user: the
        account's.
        """
        missing = [query for query in self._queries.values() if query not in self._views]
        for query in missing:
            self._views[query] = await self._read_external(query, user if user in self._accounts else "")
        return bool(missing)

    async def _read_external(self, query: ExternalQuery, user: str) -> ExternalView:
        ref = ObjectRef(group=query.kind.group, kind=query.kind.name, namespace=query.namespace, name=query.name)
        try:
            if query.selector is None:
                found = [await self._live.get(ref, kind=query.kind, user=user)]
            else:
                found = await self._live.list_objects(query.kind, query.namespace, selector=str(query.selector))
        except ApiStatusError as error:
            if error.is_not_found:
                return ExternalView(is_known=True)
            return ExternalView(denial=str(error))
        kept = [
            parse_child(raw, kind=query.kind, paths=query.paths)
            for raw in found
            if query.accepts_metadata(raw["metadata"])
        ]
        return ExternalView(objects=tuple(sorted(kept, key=lambda each: (each.namespace, each.name))), is_known=True)

    # ------------------------------------------------------------ writes

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Apply the manifest in a dry run, and store the result."""
        place = object_copies.find_place(kind, manifest)
        known = self._copies.find(place)
        self._check_preconditions(manifest, known)
        filled = without_version(self._unknown.fill(manifest, known.raw if known is not None else None))
        before = known.raw if known is not None else None
        if known is None and not self._copies.is_removed(place) and "uid" in manifest["metadata"]:
            # The engine takes over an object that was no child: it read the object a moment ago.
            before = await self.get(_refer(kind, manifest), kind=kind)
        result, unchecked = await self._try_apply(
            manifest, filled, kind=kind, manager=manager, force=force, before=before
        )
        result = self._unknown.restore(result, manifest) if self._unknown.is_within(manifest) else result
        result = self._complete(result, manifest, kind=kind, before=before)
        self._note(place, DryRunWrite(before=before, after=result, stated=manifest, unchecked=unchecked))
        is_live = (known.is_live if known is not None else before is not None) and not self._copies.is_removed(place)
        if kind.key == DEFINITION and self._kinds.add(result):
            self._on_kinds()
        return self._copies.put(result, kind=kind, is_live=is_live)

    async def _try_apply(
        self, manifest: Object, filled: Object, *, kind: Kind, manager: str, force: bool, before: Object | None
    ) -> tuple[Object, str]:
        """Return the object that the apply gives, and why the API server did not check it."""
        place = object_copies.find_place(kind, manifest)
        known = self._copies.find(place)
        is_made_here = known is not None and not known.is_live
        merged = object_copies.merge(before, filled)
        if self._is_in_new_namespace(place):
            return merged, NEW_NAMESPACE
        if self._kinds.is_assumed(kind):
            return merged, NEW_KIND
        if self._unknown.is_within(list(place)):
            return manifest, UNKNOWN_NAME
        try:
            if is_made_here or self._copies.is_removed(place):
                created = await self._live.try_create(api_requests.generated(filled), kind=kind, user=self._user)
                name = {"name": manifest["metadata"]["name"]}
                metadata = {key: value for key, value in created["metadata"].items() if key != "generateName"}
                return {**created, "metadata": {**metadata, **name}}, ""
            if place in self._prepared and before is not None:
                return await self._try_as_owner(filled, before, kind=kind), ""
            answer = await self._live.try_apply(filled, kind=kind, manager=manager, force=force, user=self._user)
        except ApiStatusError as error:
            if not error.is_forbidden or self._user:
                if self._unknown.is_within(manifest) and error.code in REFUSED:
                    # The result for the known part of the manifest does not apply to the whole manifest.
                    return merged, f"it depends on values that are only known at run time: {error}"
                raise
            return merged, NOT_PERMITTED.format(error)
        return answer, ""

    async def _try_as_owner(self, manifest: Object, before: Object, *, kind: Kind) -> Object:
        """Return the result of an apply to the copy, whose fields and field owners the API server does not know."""
        wanted, _ = apply_obstacles.predict_whole(manifest, before)
        ref = _refer(kind, before)
        live = await self._live.get(ref, kind=kind, user=self._user)
        _, present = apply_obstacles.predict_whole(manifest, live)
        return await self._live.try_change(ref, apply_obstacles.make_patch(wanted, present), kind=kind, user=self._user)

    async def changes_for_sure(self, manifest: Object, *, kind: Kind, manager: str) -> bool:
        """Return whether an apply changes its object, regardless of the unknown values. Stores nothing."""
        known = self._copies.find(object_copies.find_place(kind, manifest))
        if known is None or not self._unknown.is_within(manifest):
            return True
        filled = self._unknown.fill(manifest, known.raw)
        result, _ = await self._try_apply(manifest, filled, kind=kind, manager=manager, force=True, before=known.raw)
        return bool(field_changes.find_changes(known.raw, result))

    def _is_in_new_namespace(self, place: Place) -> bool:
        """Whether the namespace of an object exists only in the copy."""
        namespace = self._copies.find(("", "Namespace", "", place[2]))
        return bool(place[2]) and namespace is not None and not namespace.is_live

    def _check_preconditions(self, manifest: Object, known: ObjectCopy | None) -> None:
        """Reject writes that an API server with the objects of the copy would reject. Raises ApiStatusError."""
        metadata = manifest["metadata"]
        uid, is_new = metadata.get("uid"), metadata.get("resourceVersion") == step_execution.CREATE_ONLY
        if known is not None and (is_new or uid not in (None, known.child.uid)):
            status = {
                "code": CONFLICT,
                "reason": "Conflict",
                "message": "the object exists already",
                "details": {"name": known.child.name},
            }
            raise ApiStatusError(code=CONFLICT, status=status)

    def _complete(self, result: Object, manifest: Object, *, kind: Kind, before: Object | None) -> Object:
        """Return the result of a dry run as the final object: with its UID, and without the status of another state."""
        metadata = dict(result["metadata"])
        if before is None:
            metadata["uid"] = str(uuid.uuid4())
            metadata.setdefault("generation", 1)
        else:
            metadata["uid"] = before["metadata"]["uid"]
        result = {"apiVersion": kind.api_version, "kind": kind.name, **result, "metadata": metadata}
        is_changed = before is None or object_copies.is_changed(before, result)
        if is_changed:
            self._unknown.objects.add(metadata["uid"])
            result = {key: value for key, value in result.items() if key != "status"}
        elif "status" in (before or {}):
            result = {**result, "status": (before or {})["status"]}
        if self._unknown.is_within(manifest):
            self._unknown.objects.add(metadata["uid"])
        return result

    async def delete(
        self,
        child: Child,
        *,
        keeps_dependents: bool = False,  # noqa: ARG002 -- the copy has no dependents
    ) -> bool:
        """Delete exactly this object in a dry run, and remove it from the copy, as if nothing held it back."""
        place = object_copies.place_of(child.ref)
        known = self._copies.find(place)
        if known is None or known.child.uid != child.uid:
            return True
        unchecked = ""
        if known.is_live:
            unchecked = await self._unless_forbidden(
                lambda: self._live.try_delete(child.ref, kind=child.kind, uid=child.uid, user=self._user)
            )
        self._note(place, DryRunWrite(before=known.raw, after=None, unchecked=unchecked))
        self._copies.remove(place)
        return True

    async def _unless_forbidden(self, send: Callable[[], Awaitable[object]]) -> str:
        """Send a dry run; return why it was not checked. A missing object is not an error."""
        try:
            await send()
        except ApiStatusError as error:
            if error.is_not_found:
                return ""
            if not error.is_forbidden or self._user:
                raise
            return NOT_PERMITTED.format(error)
        return ""

    async def release(self, child: Child) -> None:
        """Remove the operator's labels and annotations in a dry run."""
        metadata = child.fields["metadata"]
        taken = {
            part: dict.fromkeys(key for key in metadata.get(part) or {} if names.is_ours(key))
            for part in ("labels", "annotations")
        }
        await self._change(child, {"metadata": taken})

    async def mark(self, child: Child, reason: str | None, *, mark_id: str = "") -> Child | None:
        """Write the unhealthy reason in a dry run."""
        patch = api_requests.mark_patch(reason, mark_id=mark_id, uid=child.uid, version=child.resource_version)
        return await self._change(child, {"metadata": {"annotations": patch["metadata"]["annotations"]}})

    async def _change(self, child: Child, patch: Object) -> Child | None:
        place = object_copies.place_of(child.ref)
        known = self._copies.find(place)
        if known is None or known.child.uid != child.uid:
            return None
        unchecked = ""
        if known.is_live:
            unchecked = await self._unless_forbidden(
                lambda: self._live.try_change(child.ref, patch, kind=child.kind, user=self._user)
            )
        after = apply_obstacles.patched(known.raw, patch)
        self._note(place, DryRunWrite(before=known.raw, after=after, unchecked=unchecked))
        return self._copies.put(after, kind=child.kind, is_live=known.is_live)

    async def change(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Child:
        """Write a merge patch in a dry run."""
        known = self._copies.find(object_copies.place_of(ref))
        before = known.raw if known is not None else await self._live.get(ref, kind=kind, user=self._user)
        if known is None or known.is_live:
            self._prepared.add(object_copies.place_of(ref))
        if patch.keys() == {"metadata"} and "managedFields" in patch["metadata"]:
            # A dry run would not show this. The next apply in the copy needs the owners.
            return self._copies.put(apply_obstacles.patched(before, patch), kind=kind, is_live=True)
        after = await self.change_dry_run(ref, patch, kind=kind)
        self._note(object_copies.place_of(ref), DryRunWrite(before=before, after=after))
        return self._copies.put(after, kind=kind, is_live=True)

    def _note(self, place: Place, write: DryRunWrite) -> None:
        self.writes.setdefault(place, []).append(write)

    # ------------------------------------------------------------ dry runs and reads of the engine

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """Return the result of a forced server-side apply."""
        known = self._copies.find(object_copies.find_place(kind, manifest))
        manifest = self._unknown.fill(manifest, known.raw if known is not None else None)
        return await self._live.try_apply(manifest, kind=kind, manager=manager, force=True, user=self._user)

    async def check_definition(self, manifest: Object, *, kind: Kind) -> None:
        """Try to create the object; one with that name may exist."""
        filled = self._unknown.fill(manifest, None)
        try:
            await self._live.try_create(api_requests.without_state(filled), kind=kind, user=self._user)
        except ApiStatusError as error:
            if not error.is_already_exists:
                raise

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> Object:
        """Return the object as it would be created under a generated name."""
        filled = self._unknown.fill(manifest, None)
        return await self._live.try_create(api_requests.generated(filled), kind=kind, user=self._user)

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Return the result of a merge patch, for any version of the object."""
        patch = api_requests.without_state(patch) if "metadata" in patch else patch
        answer = await self._live.try_change(ref, patch, kind=kind, user=self._user)
        known = self._copies.find(object_copies.place_of(ref))
        return object_copies.with_hash(answer, known.raw) if known is not None else answer

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """Return the object of the copy, otherwise the live one."""
        place = object_copies.place_of(ref)
        known = self._copies.find(place)
        if known is not None:
            return known.raw
        if self._copies.is_removed(place) or self._kinds.is_assumed(kind):
            raise ApiStatusError(code=NOT_FOUND, status={"code": NOT_FOUND, "reason": "NotFound"})
        return await self._live.get(ref, kind=kind, user=self._user)

    async def create_object(self, manifest: Object, *, kind: Kind) -> Object:
        """Try to create an object that is not a child."""
        return await self._live.try_create(manifest, kind=kind, user=self._user)

    async def change_object(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Try to change an object that is not a child."""
        return await self._live.try_change(ref, patch, kind=kind, user=self._user)

    async def delete_object(self, raw: Object, *, kind: Kind) -> None:
        """Try to delete an object that is not a child."""
        ref = _refer(kind, raw)
        await self._live.try_delete(ref, kind=kind, uid=raw["metadata"]["uid"], user=self._user)

    async def list_children(
        self,
        kind: Kind,
        stack_uid: str,
        *,
        namespace: str = "",  # noqa: ARG002 -- the port requires it
        whole: bool = False,
    ) -> list[Child]:
        """List the copied children."""
        del whole
        found = self._copies.children(stack_uid).values()
        return [child for children in found for child in children if child.kind.key == kind.key]

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Return whether the account has this permission; True if the user of the preview cannot ask as the account."""
        user = self._user
        return not user or await self._live.is_allowed(verb, kind=kind, namespace=namespace, name=name, user=user)

    async def may(self, verb: str, boundary: Boundary, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Return whether the account may do that; True if the user of the preview cannot ask as the account."""
        return await self.acting_as(boundary.user).is_allowed(verb, kind=kind, namespace=namespace, name=name)

    async def is_kind_going(self, kind: Kind) -> bool:  # noqa: ARG002 -- the port
        """Return False: no time passes in a preview."""
        return False

    async def list_pods(self, namespace: str, *, labels: str) -> list[Object]:  # noqa: ARG002 -- the port
        """Return none: a preview does not report failed Pods."""
        return []

    async def get_log_end(self, ref: ObjectRef, *, container: str, limit: int) -> str:  # noqa: ARG002 -- the port
        """Return nothing."""
        return ""

    def watch_trigger(self, trigger: RetryTrigger) -> None:
        """Watch nothing: the copy does not change on its own."""

    def retain_triggers(self, causes: Collection[RetryTrigger]) -> None:
        """Watch nothing."""


def without_version(manifest: Object) -> Object:
    """Return the manifest without the resource version: the copy has other versions than the cluster."""
    metadata = manifest["metadata"]
    if metadata.get("resourceVersion") in (None, step_execution.CREATE_ONLY):
        return manifest
    return {**manifest, "metadata": {key: value for key, value in metadata.items() if key != "resourceVersion"}}


def _refer(kind: Kind, raw: Object) -> ObjectRef:
    group, name, namespace, own = object_copies.find_place(kind, raw)
    return ObjectRef(group=group, kind=name, namespace=namespace, name=own)


class AssumedKinds:
    """The kinds that the cluster will serve once the preview is applied, as `hearth.model.kinds.Kinds`."""

    def __init__(self, live: Kinds) -> None:
        """live: the kinds that are served now. They take precedence: only their schemas are the API server's own."""
        self._live = live
        self._added: dict[tuple[str, str], Kind] = {}
        self._schemas: dict[Kind, Schema] = {}
        self._additions = 0

    @property
    def generation(self) -> int:
        """Return a number that increases with each change."""
        return self._live.generation + self._additions

    def add(self, definition: Object) -> bool:
        """Add the kinds that a CustomResourceDefinition defines; return whether one is new."""
        known = len(self._added)
        for kind, schema in list_kinds(definition):
            pair = (kind.api_version, kind.name)
            if self._live.find(*pair) is None and pair not in self._added:
                self._added[pair], self._schemas[kind] = kind, schema
        self._additions += len(self._added) - known
        return len(self._added) > known

    def is_assumed(self, kind: Kind) -> bool:
        """Return whether the cluster does not serve the kind yet."""
        return kind in self._schemas

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Find the kind, or None if neither the cluster nor a definition has it."""
        return self._live.find(api_version, kind) or self._added.get((api_version, kind))

    def all(self) -> Collection[Kind]:
        """Return every kind."""
        return [*self._live.all(), *self._added.values()]

    def find_schema(self, kind: Kind) -> Schema | None:
        """Find the schema of the kind."""
        return self._schemas.get(kind) or self._live.find_schema(kind)

    def find_definition(self, reference: str) -> Schema | None:
        """Find the target of a `$ref`, which the schema of a definition does not contain."""
        return self._live.find_definition(reference)


def list_kinds(definition: Object) -> list[tuple[Kind, Schema]]:
    """Return the kinds that a CustomResourceDefinition adds, with their schemas."""
    spec = definition["spec"]
    stated = spec["names"]
    return [
        (
            Kind(
                group=spec["group"],
                version=version["name"],
                name=stated["kind"],
                plural=stated["plural"],
                namespaced=spec["scope"] == "Namespaced",
            ),
            (version.get("schema") or {}).get("openAPIV3Schema") or {},
        )
        for version in spec["versions"]
        if version.get("served")
    ]
