"""Lookup of the PersistentVolumeClaims of a Stack: its children, and those that its StatefulSets make.

Reads as the account of the Stack; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import WorkloadCluster
from hearth.engine.services import Services
from hearth.engine.snapshot_ports import StackSnapshotObject
from hearth.model import limits, names, value_class
from hearth.model.child import Child
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.snapshot_decision import SnapshotVolume
from hearth.plan.target import claim_replacement

CLAIM = ("", "PersistentVolumeClaim")
STATEFUL_SET = ("apps", "StatefulSet")
STACK, GROUP = (names.GROUP, names.STACK), (names.GROUP, names.GROUP_KIND)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackClaims:
    """The claims of one Stack, for one StackSnapshot."""

    snapshot: StackSnapshotObject
    stack: StackObject
    services: Services
    foreign: list[str] = field(default_factory=list)
    """The claims with names of a StatefulSet that it did not make, once `find` has returned. They are not included."""

    async def find(self) -> tuple[SnapshotVolume, ...]:
        """Return all claims, at most one more than a snapshot may have. Raises `ApiStatusError` or `Unreachable`."""
        found = [
            self._make(child.namespace, child.name, resource=child.resource) for child in self.list_children(CLAIM)
        ]
        known = {(each.namespace, each.claim) for each in found}
        cluster = self.services.find_cluster(self.stack)
        kind = cluster.kinds.find("v1", CLAIM[1])
        for child in self.list_children(STATEFUL_SET):
            live = await find_live(cluster, child.ref, kind=child.kind)
            if live is None or kind is None:
                continue
            for template in list_templates(live):
                of_set, others = await find_claims(cluster, live, template, kind=kind)
                self.foreign.extend(name for name in others if (child.namespace, name) not in known)
                for name in of_set:
                    if len(found) > limits.SNAPSHOT_VOLUMES:
                        return tuple(found)
                    if (child.namespace, name) not in known:
                        found.append(self._make(child.namespace, name, resource=child.resource, is_of_set=True))
        return tuple(found)

    def list_children(self, wanted: tuple[str, str]) -> Iterator[Child]:
        """List the children of a group and kind, in a stable order."""
        by_resource = self.services.find_children_cluster(self.stack.uid).children(self.stack.uid)
        for _resource, children in sorted(by_resource.items()):
            for child in children:
                if (child.kind.group, child.kind.name) == wanted and child.is_identified and not child.deleting:
                    yield child

    def _make(self, namespace: str, claim: str, *, resource: str, is_of_set: bool = False) -> SnapshotVolume:
        name = names.volume_snapshot_name(
            snapshot=self.snapshot.name, snapshot_uid=self.snapshot.uid, namespace=namespace, claim=claim
        )
        return SnapshotVolume(
            claim=claim, namespace=namespace, resource=resource, snapshot=name, is_of_stateful_set=is_of_set
        )


def list_templates(stateful_set: Mapping[str, Any]) -> list[str]:
    """Return the names of the claim templates of a StatefulSet."""
    templates = (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or ()
    return [str(each["metadata"]["name"]) for each in templates]


async def find_claims(
    cluster: WorkloadCluster, stateful_set: Mapping[str, Any], template: str, *, kind: Kind
) -> tuple[list[str], list[str]]:
    """Find the claims of one template by their names, and those with such a name that the StatefulSet did not make.

    They are those of all replicas, and of earlier ones, which were scaled down, or had lower ordinals. Some of their
    claims may be deleted, so the search ends after a few that are missing in a row.
    """
    first = (stateful_set["spec"].get("ordinals") or {}).get("start") or 0
    end = first + (stateful_set["spec"].get("replicas", 1) or 0)
    found: list[str] = []
    foreign: list[str] = []
    for ordinals in (range(first, first + limits.CLAIMS_BEYOND_REPLICAS), range(first)[::-1]):
        misses = 0
        for ordinal in ordinals:
            name = f"{template}-{stateful_set['metadata']['name']}-{ordinal}"
            is_own = await is_made_by(cluster, stateful_set, name, kind=kind)
            if is_own is not None:
                (found if is_own else foreign).append(name)
            misses = 0 if is_own else misses + (not first <= ordinal < end)
            if misses > limits.CLAIM_GAP or len(found) > limits.SNAPSHOT_VOLUMES:
                break
    return found, foreign


async def is_made_by(
    cluster: WorkloadCluster, stateful_set: Mapping[str, Any], name: str, *, kind: Kind
) -> bool | None:
    """Return whether the StatefulSet made the claim of that name; None if there is none, or it is being deleted."""
    ref = ObjectRef(group=CLAIM[0], kind=CLAIM[1], namespace=stateful_set["metadata"]["namespace"], name=name)
    live = await find_live(cluster, ref, kind=kind)
    if live is None or "deletionTimestamp" in live["metadata"]:
        return None
    return not claim_replacement.find_foreign(live, stateful_set)


async def find_live(cluster: WorkloadCluster, ref: ObjectRef, *, kind: Kind) -> Mapping[str, Any] | None:
    """Return the live object; None if there is none."""
    try:
        return await cluster.get(ref, kind=kind)
    except ApiStatusError as error:
        if not error.is_not_found:
            raise
        return None
