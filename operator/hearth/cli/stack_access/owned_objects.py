"""Objects that explain the children of a Stack: what controllers made for them, claims, what a Namespace still holds, Events."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final

from hearth.cli import object_fields
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.causes import object_causes
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import EVENT, POD, VOLUME_CLAIM
from hearth.plan.health import deletion_reports

REPLICA_SET: Final = Kind(group="apps", version="v1", name="ReplicaSet", plural="replicasets", namespaced=True)
JOB: Final = Kind(group="batch", version="v1", name="Job", plural="jobs", namespaced=True)
OWNED: Final = (REPLICA_SET, JOB, POD)
"""In the order of ownership: a CronJob owns Jobs, a Deployment ReplicaSets, these own Pods."""
MAY_BE_ABSENT: Final = frozenset({403, 404})


def list_namespaces(objects: StackObjects) -> set[str]:
    """Return the namespaces of a Stack, its children and those of nested Stacks."""
    found = {objects.stack.namespace, *(child.namespace for child in objects.children if child.namespace)}
    return found.union(*(list_namespaces(nested) for nested in objects.nested.values()))


async def list_allowed(
    session: Session, kind: Kind, namespace: str, *, selector: str = "", only_metadata: bool = False
) -> list[Object]:
    """Return the objects of a namespace; none if the user may not list them, or the kind is not served."""
    try:
        return await session.list(kind, namespace, selector=selector, only_metadata=only_metadata)
    except errors.ApiStatusError as refused:
        if refused.code not in MAY_BE_ABSENT:
            raise
        return []


async def list_owned(
    session: Session, namespaces: Iterable[str], owners: Collection[str], *, only_metadata: bool = False
) -> list[FoundChild]:
    """Return the objects that these objects own, directly or not. owners: UIDs."""
    pairs = [(kind, namespace) for namespace in namespaces for kind in OWNED]
    lists = await asyncio.gather(
        *(list_allowed(session, kind, namespace, only_metadata=only_metadata) for kind, namespace in pairs)
    )
    known, found = set(owners), []
    for kind in OWNED:
        for (each, _), objects in zip(pairs, lists, strict=True):
            for raw in objects if each is kind else ():
                references = object_fields.entries(raw, "metadata", "ownerReferences")
                if any(reference.get("uid") in known for reference in references):
                    known.add(raw["metadata"]["uid"])
                    found.append(FoundChild(kind, raw))
    return found


async def list_claims(session: Session, namespaces: Iterable[str]) -> list[FoundChild]:
    """Return the claims of these namespaces, as far as the user may list them."""
    lists = await asyncio.gather(*(list_allowed(session, VOLUME_CLAIM, namespace) for namespace in namespaces))
    return [FoundChild(VOLUME_CLAIM, raw) for found in lists for raw in found]


async def list_claim_users(session: Session, claims: Iterable[FoundChild]) -> list[FoundChild]:
    """Return the pods that keep claims whose deletion was requested."""
    namespaces = sorted({claim.namespace for claim in claims if claim.is_deleting})
    lists = await asyncio.gather(*(list_allowed(session, POD, namespace) for namespace in namespaces))
    return [FoundChild(POD, raw) for found in lists for raw in found]


async def list_remaining(session: Session, stack_objects: StackObjects) -> list[FoundChild]:
    """Return the objects that keep Namespaces of the Stack whose deletion was requested, by what these report."""
    wanted = [
        (plural, group, child.name)
        for child in stack_objects.children
        if child.is_deleting and child.kind.key == deletion_reports.NAMESPACE
        for plural, group in object_causes.find_remaining(child)
    ]
    kinds = {(kind.plural, kind.group): kind for kind in session.kinds.all()} if wanted else {}
    pairs = [(kinds[plural, group], namespace) for plural, group, namespace in wanted if (plural, group) in kinds]
    lists = await asyncio.gather(
        *(list_allowed(session, kind, namespace, only_metadata=True) for kind, namespace in pairs)
    )
    found = [FoundChild(kind, raw) for (kind, _), objects in zip(pairs, lists, strict=True) for raw in objects]
    nested = [each for inner in stack_objects.nested.values() for each in await list_remaining(session, inner)]
    return [*found, *nested]


async def list_events(session: Session, namespaces: Iterable[str]) -> list[Object]:
    """Return the Events of these namespaces, as far as the user may list them."""
    lists = await asyncio.gather(*(list_allowed(session, EVENT, namespace) for namespace in namespaces))
    return [event for events in lists for event in events]
