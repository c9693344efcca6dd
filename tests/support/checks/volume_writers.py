"""Watches every change of a fake cluster and records Pods that must not run: two of a resource on one volume, or one
whose dependency was deleted.

A Pod runs until its kubelet has ended it. Uses only stored objects, never the state of the operator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import invariants
from support.server import fake_kinds
from support.server.fake_server import is_finished


class VolumeWriters:
    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._children: dict[str, Object] = {}
        """The last state of all children by UID, including deleted ones."""
        self._running: dict[str, Object] = {}
        """The running Pods by UID."""
        self._stacks: dict[str, Object] = {}

    def on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """The server's watcher."""
        raw = after if after is not None else before
        if raw is None:
            return
        uid = raw["metadata"]["uid"]
        if kind == fake_kinds.STACK.kind:
            self._stacks[uid] = raw
        if names.LABEL_RESOURCE in invariants.labels_of(raw):
            if is_deleted_now(before, after):
                self.wrong += self._find_dependent_pods(raw)
            self._children[uid] = raw
        if kind == fake_kinds.POD.kind:
            self._running.pop(uid, None)
            if after is not None and not is_finished(after):
                if before is None:
                    self.wrong += self._find_other_writers(after)
                self._running[uid] = after

    def _find_owner(self, pod: Object) -> Object | None:
        """The child that a Pod belongs to: the Pod itself, or its owner."""
        owners = [each["uid"] for each in pod["metadata"].get("ownerReferences") or ()]
        found = (self._children.get(uid) for uid in [pod["metadata"]["uid"], *owners])
        return next((each for each in found if each is not None), None)

    def _find_other_writers(self, pod: Object) -> Iterator[str]:
        """Pods of the same resource that mount a claim of a new Pod, unless the user chose CreateFirst."""
        owner = self._find_owner(pod)
        if owner is None:
            return
        whose = invariants.whose(owner)
        template = (self._stacks.get(whose[0], {}).get("spec") or {}).get("template") or {}
        resource = (template.get("resources") or {}).get(whose[1]) or {}
        if (resource.get("updatePolicy") or {}).get("replace") == "CreateFirst":
            return
        for other in self._running.values():
            of = self._find_owner(other)
            shared = find_claims(pod) & find_claims(other)
            if of is not None and invariants.whose(of) == whose and shared:
                yield f"{pod['metadata']['name']} and {other['metadata']['name']} both run on claim {min(shared)}"

    def _find_dependent_pods(self, raw: Object) -> Iterator[str]:
        """Pods of a deleted Stack, at the moment when the deletion of their object begins."""
        uid, resource = invariants.whose(raw)
        if "deletionTimestamp" not in self._stacks.get(uid, {"metadata": {}})["metadata"]:
            return
        for pod in self._running.values():
            owner = self._find_owner(pod)
            if owner is None or invariants.whose(owner)[0] != uid or invariants.whose(owner)[1] == resource:
                continue
            required = invariants.annotations_of(owner).get(names.ANNOTATION_REQUIRES, "")
            if resource in {each.partition("/")[0] for each in required.split(",")}:
                yield f"{resource} was deleted while {pod['metadata']['name']}, which requires it, still runs"


def is_deleted_now(before: Object | None, after: Object | None) -> bool:
    """Whether the deletion of an object begins."""
    is_leaving = after is None or "deletionTimestamp" in after["metadata"]
    return before is not None and is_leaving and "deletionTimestamp" not in before["metadata"]


def find_claims(pod: Mapping[str, Any]) -> set[str]:
    """The claims that a Pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}


def stops_first(manifest: Mapping[str, Any]) -> bool:
    """Whether the Pods of a manifest must not run at the same time as Pods of an earlier object."""
    text = json.dumps(manifest)
    return '"claimName"' in text or '"Recreate"' in text
