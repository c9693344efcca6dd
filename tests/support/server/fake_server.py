"""An in-memory API server: raw objects, field ownership, preconditions, finalizers, and watchers.

Implements the verbs and errors of a real server. Time is an argument and UIDs are counted, so the same calls give the
same objects. Faults are in `request_faults`.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.server import api_errors, fake_kinds, fake_objects, managed_fields
from support.server.fake_kinds import ServedKind

Watcher: TypeAlias = Callable[[Kind, Object | None, Object | None], None]
"""Notified of every change: the kind, the object before (None: created) and after (None: deleted)."""
Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

SPREAD = 0x9E3779B1
"""An odd factor, so that all numbers give different results."""


class FakeServer:
    """One cluster. Stored objects are never changed, only replaced, so they may be shared."""

    def __init__(self, now: Callable[[], float], *, first_uid: int = 0) -> None:
        """first_uid: UIDs are counted from here."""
        self._now = now
        self._version = 0
        self._uids = first_uid
        self._objects: dict[tuple[str, str], dict[Key, Object]] = {}
        self._owned: dict[str, dict[tuple[Kind, Key], None]] = {}
        """By UID: the objects that this object owns, or owned when they were created."""
        self.is_collector_refused = False
        """Whether the garbage collector cannot change the dependents of an object that is deleted without them."""
        self.kinds = fake_kinds.KindTable()
        self.watchers: list[Watcher] = []
        for served in fake_kinds.BUILT_IN:
            self.kinds.serve(served)
        for namespace in ("default", "hearth"):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, manager="test")

    # ------------------------------------------------------------ reading

    @property
    def version(self) -> int:
        """The resourceVersion of the newest change."""
        return self._version

    def find_kind(self, raw: Mapping[str, Any]) -> Kind:
        """The kind of a manifest; raises an error if it is not served."""
        kind = self.kinds.find(raw["apiVersion"], raw["kind"])
        if kind is None:
            raise api_errors.unknown_kind()
        return kind

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The stored object, or None."""
        return self._objects.get((kind.group, kind.name), {}).get((namespace, name))

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        self._served(kind)
        found = self.find(kind, namespace, name)
        if found is None:
            raise api_errors.not_found(kind, name)
        return found

    def list_all(self, kind: Kind) -> list[Object]:
        """Every object of that kind."""
        self._served(kind)
        return list(self._objects.get((kind.group, kind.name), {}).values())

    def everything(self) -> Iterator[tuple[Kind, Object]]:
        """Every object of every kind that is served."""
        for served in list(self.kinds):
            for raw in self.list_all(served.kind):
                yield served.kind, raw

    # ------------------------------------------------------------ writing

    def restore(self, raw: Object) -> None:
        """Store an object of an earlier server unchanged, including its UID and field managers."""
        kind = self.find_kind(raw)
        self._uids += 1
        self._tell(kind, None, self._put(kind, raw))

    def create(self, raw: Object, *, manager: str, dry_run: bool = False) -> Object:
        """POST; a name is generated if only `generateName` is set."""
        kind = self.find_kind(raw)
        served = self._served(kind)
        metadata = dict(raw["metadata"])
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{self._uids:05d}"
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        self._admit_new(kind, namespace, name)
        wanted = {**raw, "metadata": metadata}
        fake_objects.check(served, None, wanted)
        existing = self.find(kind, namespace, name)
        if existing is not None:
            raise api_errors.exists(kind, name, deleting="deletionTimestamp" in existing["metadata"])
        if dry_run:
            return fake_objects.fill(wanted, served)
        return self._store_new(served, self._record_update(served, None, wanted, manager=manager))

    def replace(self, raw: Object, *, manager: str) -> Object:
        """PUT of everything but the status, regardless of its version."""
        kind = self.find_kind(raw)
        served = self._served(kind)
        live = self.get(kind, raw["metadata"].get("namespace", ""), raw["metadata"]["name"])
        stated = raw["metadata"].get("resourceVersion")
        if stated is not None and stated != live["metadata"]["resourceVersion"]:
            raise api_errors.stale(kind, raw["metadata"]["name"])
        return self._change(served, live, fake_objects.keep_system_fields(live, raw, served), manager=manager)

    def patch(self, kind: Kind, namespace: str, name: str, patch: Object, *, manager: str) -> Object:
        """A JSON merge patch; a resourceVersion in it must match the object's."""
        served = self._served(kind)
        live = self.get(kind, namespace, name)
        stated = patch.get("metadata", {})
        if stated.get("resourceVersion") not in (None, live["metadata"]["resourceVersion"]):
            raise api_errors.stale(kind, name)
        fake_objects.check_preconditions(kind, live, {"name": name, **stated})
        wanted = fake_objects.keep_system_fields(live, fake_objects.merge_patch(live, patch), served)
        fake_objects.check(served, live, fake_objects.fill(wanted, served, live))
        entries = stated.get("managedFields")
        owned = live if entries is None else fake_objects.with_managed_fields(live, entries)
        wanted = wanted if entries is None else fake_objects.with_managed_fields(wanted, entries)
        return self._finish_change(served, live, self._record_update(served, owned, wanted, manager=manager))

    def check_change(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        """A dry-run merge patch: refused as the patch itself would be, and nothing is stored."""
        served = self._served(kind)
        live = self.get(kind, namespace, name)
        wanted = fake_objects.keep_system_fields(live, fake_objects.merge_patch(live, patch), served)
        wanted = fake_objects.fill(wanted, served, live)
        fake_objects.check(served, live, wanted)
        return wanted

    def patch_status(self, kind: Kind, namespace: str, name: str, status: Object, *, manager: str) -> Object:
        """A JSON merge patch of the subresource `status`."""
        served = self._served(kind)
        live = self.get(kind, namespace, name)
        wanted = {**live, "status": fake_objects.merge_patch(live.get("status", {}), status)}
        if wanted["status"] == live.get("status", {}):
            return live
        if served.is_tracked:
            wanted = managed_fields.record_status(live, wanted, served.shape, manager=manager, time=self._time())
        return self._store_changed(served, live, wanted)

    def patch_scale(self, kind: Kind, namespace: str, name: str, replicas: int, *, manager: str) -> Object:
        """A JSON merge patch of the subresource `scale`."""
        served = self._served(kind)
        live = self.get(kind, namespace, name)
        wanted = fake_objects.merge_patch(live, {"spec": {"replicas": replicas}})
        recorded = managed_fields.record_scale(live, wanted, served.shape, manager=manager, time=self._time())
        return self._finish_change(served, live, recorded)

    def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool, dry_run: bool = False) -> Object:
        """Server-side apply; with dry run, returns the resulting object."""
        served = self._served(kind)
        metadata = manifest["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        fake_objects.check_patch(served, manifest, namespace, name)
        live = self.find(kind, namespace, name)
        fake_objects.check_preconditions(kind, live, metadata)
        wanted = managed_fields.apply(live, manifest, served.shape, manager=manager, force=force, time=self._time())
        fake_objects.check_nulls(served, manifest, wanted, live=live, manager=manager)
        wanted = fake_objects.fill(wanted, served, live)
        if live is None:
            self._admit_new(kind, namespace, name)
            fake_objects.check(served, None, wanted)
            return wanted if dry_run else self._store_new(served, wanted)
        fake_objects.check(served, live, wanted)
        return wanted if dry_run else self._finish_change(served, live, wanted)

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        policy: str = "Background",
    ) -> bool:
        """DELETE; True if the object is deleted now, False while finalizers, its grace period or its dependents hold
        it.

                policy: the propagation; Orphan takes a moment and a finalizer on a real server.
        """
        self._served(kind)
        live = self.get(kind, namespace, name)
        found = live["metadata"]
        if uid is not None and uid != found["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found['uid']}"
            raise api_errors.conflict(kind, name, why)
        if version is not None and version != found["resourceVersion"]:
            raise api_errors.stale(kind, name)
        is_orphaning = policy == "Orphan"
        grace = find_grace(kind, live)
        is_held = found.get("finalizers") or grace or kind in (fake_kinds.NAMESPACE.kind, _DEFINITIONS)
        if is_orphaning and not is_held:
            self._orphan(found["uid"])
        kept = [each for each in found.get("finalizers", ()) if each != names.FINALIZER_ORPHAN]
        if policy == "Foreground" and self._find_dependents(found["uid"]):
            kept = list(dict.fromkeys([*kept, FOREGROUND]))
        finalizers = [*kept, names.FINALIZER_ORPHAN] if is_orphaning and is_held else kept
        if not finalizers and not is_held:
            self._remove(kind, live)
            return True
        since = {"deletionTimestamp": self._time(), "deletionGracePeriodSeconds": grace}
        stated = {"finalizers": finalizers} if finalizers or found.get("finalizers") else {}
        self._finish_change(self._served(kind), live, {**live, "metadata": {**since, **found, **stated}})
        if is_orphaning:
            if not self.is_collector_refused:
                self._orphan(found["uid"])
            self._finish_orphaning(kind, namespace, name)
        if FOREGROUND in finalizers:
            for dependent, key in self._find_dependents(found["uid"]):
                self.delete(dependent, *key, policy=policy)
        self._empty(kind, name)
        return self.find(kind, namespace, name) is None

    def end_pod(self, pod: Object) -> None:
        """Remove exactly this Pod, whose containers have ended, as its kubelet does."""
        kind, metadata = self.find_kind(pod), pod["metadata"]
        live = self.find(kind, metadata["namespace"], metadata["name"])
        if live is not None and live["metadata"]["uid"] == metadata["uid"]:
            self._remove(kind, live)

    # ------------------------------------------------------------ inside

    def _served(self, kind: Kind) -> ServedKind:
        served = self.kinds.find_served(kind)
        if served is None:
            raise api_errors.unknown_kind()
        return served

    def _time(self) -> str:
        moment = datetime.datetime.fromtimestamp(self._now(), tz=datetime.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _admit_new(self, kind: Kind, namespace: str, name: str) -> None:
        """Reject objects that cannot be created in that place."""
        if not kind.namespaced:
            return
        found = self.find(fake_kinds.NAMESPACE.kind, "", namespace)
        if found is None:
            raise api_errors.namespace_missing(namespace)
        if "deletionTimestamp" in found["metadata"]:
            raise api_errors.namespace_terminating(kind, name, namespace)
        if quotas := self._quotas(namespace):
            used = sum(fake_objects.is_in(raw, namespace=namespace) for raw in self.list_all(kind))
            fake_objects.check_quotas(quotas, kind, name, used=used)

    def _quotas(self, namespace: str) -> list[Object]:
        quotas = self._objects.get(("", fake_kinds.RESOURCE_QUOTA.kind.name), {}).values()
        return [quota for quota in quotas if fake_objects.is_in(quota, namespace=namespace)]

    def _count(self, namespace: str) -> None:
        """Update the usage in the quotas of a namespace."""
        for quota in self._quotas(namespace):
            used = Counter(
                fake_objects.find_quota_key(kind)
                for kind, raw in self.everything()
                if fake_objects.is_in(raw, namespace=namespace)
            )
            kind, name = fake_kinds.RESOURCE_QUOTA.kind, quota["metadata"]["name"]
            self.patch_status(
                kind, namespace, name, fake_objects.count_quota(quota, used), manager="kube-controller-manager"
            )

    def _store_new(self, served: ServedKind, wanted: Object) -> Object:
        self._uids += 1
        kind = served.kind
        kept = {key: value for key, value in wanted.items() if key != "status" or not served.shape.has_status}
        metadata = {key: value for key, value in wanted["metadata"].items() if key != "generateName"}
        metadata |= {"uid": make_uid(self._uids), "creationTimestamp": self._time()}
        # Built-in kinds without a status have no generation.
        metadata |= {"generation": 1} if served.shape.has_status or served.shape.is_custom else {}
        stored = self._put(kind, fake_objects.fill({**kept, **served.defaults, "metadata": metadata}, served))
        self._tell(kind, None, stored)
        if owners := metadata.get("ownerReferences"):
            self._collect_orphan(kind, stored, owners)
        if kind == _DEFINITIONS:
            self.kinds.serve(fake_kinds.custom_kind(stored))
            established = [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]
            name = metadata["name"]
            return self.patch_status(kind, "", name, {"conditions": established}, manager="kube-apiserver")
        return stored

    def _change(self, served: ServedKind, live: Object, wanted: Object, *, manager: str) -> Object:
        """Store a user's update or patch of `live`."""
        fake_objects.check(served, live, fake_objects.fill(wanted, served, live))
        return self._finish_change(served, live, self._record_update(served, live, wanted, manager=manager))

    def _record_update(self, served: ServedKind, live: Object | None, wanted: Object, *, manager: str) -> Object:
        """`wanted` with the ownership after an update, if ownership is tracked."""
        if not served.is_tracked:
            return wanted
        return managed_fields.record_update(live, wanted, served.shape, manager=manager, time=self._time())

    def _finish_change(self, served: ServedKind, live: Object, wanted: Object) -> Object:
        """Store a change, if any; delete an object that was only held by its finalizers."""
        wanted = fake_objects.fill(wanted, served, live)
        if fake_objects.is_same(live, wanted):
            return live
        if "deletionTimestamp" in live["metadata"] and not wanted["metadata"].get("finalizers"):
            self._remove(served.kind, live)
            return wanted
        return self._store_changed(served, live, wanted)

    def _store_changed(self, served: ServedKind, live: Object, wanted: Object) -> Object:
        metadata = dict(wanted["metadata"])
        if "generation" in metadata and fake_objects.has_new_generation(live, wanted, served):
            metadata["generation"] += 1
        stored = self._put(served.kind, {**wanted, "metadata": metadata})
        if served.kind == _DEFINITIONS and stored["spec"] != live["spec"]:
            self.kinds.serve(fake_kinds.custom_kind(stored))
        self._tell(served.kind, live, stored)
        return stored

    def _put(self, kind: Kind, raw: Object) -> Object:
        self._version += 1
        metadata = {**raw["metadata"], "resourceVersion": str(self._version)}
        stored = fake_objects.copy({**raw, "metadata": metadata})
        table = self._objects.setdefault((kind.group, kind.name), {})
        key = (metadata.get("namespace", ""), metadata["name"])
        table[key] = stored
        for owner in metadata.get("ownerReferences", ()):
            self._owned.setdefault(owner["uid"], {})[(kind, key)] = None
        return dict(stored)

    def _remove(self, kind: Kind, live: Object) -> None:
        """Remove the object, then everything that it owned or held."""
        self._version += 1
        metadata = live["metadata"]
        namespace = metadata.get("namespace", "")
        del self._objects[(kind.group, kind.name)][(namespace, metadata["name"])]
        gone = {**live, "metadata": {**metadata, "resourceVersion": str(self._version)}}
        self._tell(kind, gone, None)
        self._collect_garbage(metadata["uid"])
        self._free_owners(live)
        for owner in metadata.get("ownerReferences", ()):
            owned = self._owned.get(owner["uid"], {})
            owned.pop((kind, (namespace, metadata["name"])), None)
            if (owning := self.kinds.find(owner["apiVersion"], owner["kind"])) is not None:
                self._finish_orphaning(owning, namespace if owning.namespaced else "", owner["name"])
        if namespace:
            self._finish_namespace(namespace)
        self._finish_definition(kind)

    def _find_dependents(self, uid: str) -> list[tuple[Kind, Key]]:
        """Objects with that object as an owner whose deletion they block."""
        found = [(kind, key, self.find(kind, *key)) for kind, key in self._owned.get(uid, ())]
        return [
            (kind, key)
            for kind, key, raw in found
            for owner in (raw or {"metadata": {}})["metadata"].get("ownerReferences", ())
            if owner["uid"] == uid and owner.get("blockOwnerDeletion")
        ]

    def _free_owners(self, gone: Object) -> None:
        """Delete the owners that only waited for this object."""
        for owner in gone["metadata"].get("ownerReferences", ()):
            kind = self.kinds.find(owner["apiVersion"], owner["kind"])
            raw = self.find(kind, gone["metadata"].get("namespace", ""), owner["name"]) if kind else None
            if kind is None or raw is None or raw["metadata"]["uid"] != owner["uid"]:
                continue
            held = raw["metadata"].get("finalizers", ())
            if FOREGROUND in held and not self._find_dependents(owner["uid"]):
                left = [each for each in held if each != FOREGROUND]
                key = (raw["metadata"].get("namespace", ""), raw["metadata"]["name"])
                self.patch(kind, *key, {"metadata": {"finalizers": left or None}}, manager="garbage-collector")

    def _orphan(self, uid: str) -> None:
        """Remove the owner reference from all owned objects."""
        for kind, key in list(self._owned.pop(uid, ())):
            raw = self.find(kind, *key)
            if raw is not None:
                kept = [owner for owner in raw["metadata"].get("ownerReferences", ()) if owner["uid"] != uid]
                self.patch(kind, *key, {"metadata": {"ownerReferences": kept or None}}, manager="garbage-collector")

    def _finish_orphaning(self, kind: Kind, namespace: str, name: str) -> None:
        """Remove the finalizer `orphan` from an object in deletion that no longer owns anything."""
        live = self.find(kind, namespace, name)
        if live is None or "deletionTimestamp" not in live["metadata"] or self._owned.get(live["metadata"]["uid"]):
            return
        finalizers = live["metadata"].get("finalizers", ())
        kept = [each for each in finalizers if each != names.FINALIZER_ORPHAN]
        self._finish_change(self._served(kind), live, {**live, "metadata": {**live["metadata"], "finalizers": kept}})

    def _collect_garbage(self, uid: str) -> None:
        """Delete objects that had no other owner than the client."""
        for kind, key in self._owned.pop(uid, ()):
            raw = self.find(kind, *key)
            owners = raw["metadata"].get("ownerReferences", ()) if raw is not None else ()
            if owners and all(owner["uid"] == uid for owner in owners):
                self.delete(kind, *key)

    def _collect_orphan(self, kind: Kind, raw: Object, owners: list[Object]) -> None:
        """Delete a new object none of whose owners exists."""
        namespace = raw["metadata"].get("namespace", "")
        for owner in owners:
            owning = self.kinds.find(owner["apiVersion"], owner["kind"])
            found = self.find(owning, namespace if owning.namespaced else "", owner["name"]) if owning else None
            if owning is None or (found is not None and found["metadata"]["uid"] == owner["uid"]):
                return
        self.delete(kind, namespace, raw["metadata"]["name"])

    def _empty(self, kind: Kind, name: str) -> None:
        """Delete the content of a namespace or kind in deletion."""
        if kind == fake_kinds.NAMESPACE.kind:
            self._delete_all(
                [(each, raw) for each, raw in self.everything() if fake_objects.is_in(raw, namespace=name)]
            )
            self._finish_namespace(name)
        elif kind == _DEFINITIONS:
            going = fake_kinds.custom_kind(self.get(kind, "", name)).kind
            self._delete_all([(going, raw) for raw in self.list_all(going)])
            self._finish_definition(going)

    def _delete_all(self, doomed: list[tuple[Kind, Object]]) -> None:
        """Delete all of these that are still there."""
        for kind, raw in doomed:
            namespace, name = raw["metadata"].get("namespace", ""), raw["metadata"]["name"]
            if self.find(kind, namespace, name) is not None:
                self.delete(kind, namespace, name)

    def _finish_namespace(self, name: str) -> None:
        """Remove a namespace in deletion once it is empty."""
        found = self.find(fake_kinds.NAMESPACE.kind, "", name)
        if found is None or "deletionTimestamp" not in found["metadata"]:
            return
        if not any(fake_objects.is_in(raw, namespace=name) for _, raw in self.everything()):
            self._remove(fake_kinds.NAMESPACE.kind, found)

    def _finish_definition(self, kind: Kind) -> None:
        """Stop serving a kind whose definition waited for its last object, and remove the definition."""
        found = self.find(_DEFINITIONS, "", f"{kind.plural}.{kind.group}")
        if found is None or "deletionTimestamp" not in found["metadata"] or self.list_all(kind):
            return
        self.kinds.withdraw(kind.group, kind.name)
        self._remove(_DEFINITIONS, found)

    def _tell(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        for watcher in list(self.watchers):
            watcher(kind, before, after)
        # Count afterward, so that the status of a new quota causes no event before its creation.
        raw = after or before or {}
        if before is None or after is None or kind == fake_kinds.RESOURCE_QUOTA.kind:
            self._count(raw["metadata"].get("namespace", ""))


_DEFINITIONS = fake_kinds.CUSTOM_RESOURCE_DEFINITION.kind
FOREGROUND = "foregroundDeletion"


def find_grace(kind: Kind, raw: Object) -> int:
    """The grace period of a Pod in seconds; 0 for Pods without a node, and for other kinds."""
    is_running = kind.key == "Pod" and "nodeName" in raw["spec"] and not is_finished(raw)
    return int(raw["spec"].get("terminationGracePeriodSeconds", GRACE)) if is_running else 0


GRACE = 30
"""Default grace period of a Pod in Kubernetes, in seconds."""


def is_finished(pod: Object) -> bool:
    """Whether all of its containers have stopped."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def make_uid(number: int) -> str:
    """The uid of the object with that index: counted, and spread like the uids of real servers."""
    return f"{number * SPREAD & 0xFFFFFFFF:08x}-0000-4000-8000-{number:012x}"
