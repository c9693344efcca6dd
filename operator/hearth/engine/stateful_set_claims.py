"""Finds the PersistentVolumeClaims of StatefulSets by name, like the StatefulSet controller.

Reads as the account of the caller's cluster; writes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from hearth.engine.ports import ClusterRequests
from hearth.model import limits
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.well_known_kinds import VOLUME_CLAIM
from hearth.plan.target import volume_restore


class TooManyMissing(Exception):
    """So many claims are missing that the search for further ones would take too long."""

    def __init__(self) -> None:
        """Set a message that recommends the next step."""
        super().__init__(
            f"more than {limits.CLAIMS_MISSING} PersistentVolumeClaims of StatefulSets are missing, which is the limit of "
            f"the search for the others; reduce spec.replicas or spec.volumeClaimTemplates, or divide the Stack"
        )


@dataclass(slots=True)
class Misses:
    """Counts the claims that one search did not find. A tenant controls their number."""

    left: int = limits.CLAIMS_MISSING

    def count(self) -> None:
        """Count one. Raises TooManyMissing."""
        self.left -= 1
        if self.left < 0:
            raise TooManyMissing


def list_templates(stateful_set: Mapping[str, Any]) -> list[str]:
    """Return the names of the claim templates of a StatefulSet."""
    templates = (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or ()
    return [str(each["metadata"]["name"]) for each in templates]


async def find_claims(
    cluster: ClusterRequests, stateful_set: Mapping[str, Any], template: str, *, kind: Kind, misses: Misses
) -> tuple[list[str], list[str]]:
    """Find the claims of one template by name, and claims with these names that the StatefulSet did not create.

    misses: of the whole search. Raises TooManyMissing.
    """
    found: list[str] = []
    foreign: list[str] = []
    async for live in list_live(cluster, stateful_set, template, kind=kind, misses=misses):
        is_foreign = bool(volume_restore.explain_foreign_claim(live, stateful_set))
        (foreign if is_foreign else found).append(live["metadata"]["name"])
        if len(found) > limits.SNAPSHOT_VOLUMES:
            break
    return found, foreign


async def list_live(
    cluster: ClusterRequests, stateful_set: Mapping[str, Any], template: str, *, kind: Kind, misses: Misses
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the live claims with the names of one template, also those of other clients, unless they are being deleted.

    The claims belong to current replicas, and to former ones that were scaled down or had lower ordinals. Some former
    claims may be deleted, so the search ends after a few consecutive misses. misses: of the whole search. Raises
    TooManyMissing.
    """
    namespace, name = stateful_set["metadata"]["namespace"], stateful_set["metadata"]["name"]
    first = (stateful_set["spec"].get("ordinals") or {}).get("start") or 0
    end = first + (stateful_set["spec"].get("replicas", 1) or 0)
    for ordinals in (range(first, first + limits.CLAIMS_BEYOND_REPLICAS), range(first)[::-1]):
        in_a_row = 0
        for ordinal in ordinals:
            claim = f"{template}-{name}-{ordinal}"
            ref = ObjectRef(group=VOLUME_CLAIM.group, kind=VOLUME_CLAIM.name, namespace=namespace, name=claim)
            live = await find_live(cluster, ref, kind=kind)
            is_there = live is not None and "deletionTimestamp" not in live["metadata"]
            if live is not None and is_there:
                yield live
            else:
                misses.count()
            in_a_row = 0 if is_there else in_a_row + (not first <= ordinal < end)
            if in_a_row > limits.CLAIM_GAP:
                break


async def find_live(cluster: ClusterRequests, ref: ObjectRef, *, kind: Kind) -> Mapping[str, Any] | None:
    """Return the live object, or None if it does not exist."""
    try:
        return await cluster.get(ref, kind=kind)
    except ApiStatusError as error:
        if not error.is_not_found:
            raise
        return None
