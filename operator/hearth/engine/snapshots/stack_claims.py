"""Lookup of the PersistentVolumeClaims of a Stack: its children, and those that its StatefulSets make.

Reads as the account of the Stack; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from hearth.engine import stateful_set_claims
from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Services
from hearth.engine.snapshot_ports import StackSnapshotObject
from hearth.engine.stateful_set_claims import Misses
from hearth.model import limits, names, value_class
from hearth.model.child import Child
from hearth.plan.snapshot_decision import SnapshotVolume

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
        """Return all claims, at most one more than a snapshot may have.

        Raises `ApiStatusError` or `Unreachable`, and `TooManyMissing` if the search takes too long.
        """
        found = [
            self._make(child.namespace, child.name, resource=child.resource) for child in self.list_children(CLAIM)
        ]
        known = {(each.namespace, each.claim) for each in found}
        cluster = self.services.find_cluster(self.stack)
        kind, misses = cluster.kinds.find("v1", CLAIM[1]), Misses()
        for child in self.list_children(STATEFUL_SET):
            live = await stateful_set_claims.find_live(cluster, child.ref, kind=child.kind)
            if live is None or kind is None:
                continue
            for template in stateful_set_claims.list_templates(live):
                of_set, others = await stateful_set_claims.find_claims(
                    cluster, live, template, kind=kind, misses=misses
                )
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
