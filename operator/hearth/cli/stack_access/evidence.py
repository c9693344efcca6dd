"""Reads objects that help to explain a Stack: Pods and other descendants of its children, claims, Events and logs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from hearth.cli.stack_access import revisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.causes import advice, explanation, object_causes
from hearth.cli.stack_views.causes.explanation import Evidence
from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.lists.event_timeline import TimelineEntry
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import errors, object_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import EVENT, POD, SERVICE_ACCOUNT, VOLUME_CLAIM
from hearth.plan.health import object_reports

EXTERNAL_AT_MOST: Final = 5
"""External objects that an explanation examines: one request each."""
ACCOUNTS_AT_MOST: Final = 5
"""Stacks whose ServiceAccount an explanation checks: one request each."""
LOGS_AT_MOST: Final = 5
"""Logs that an explanation reads: one request each."""
NODES_AT_MOST: Final = 5
"""Nodes that an explanation reads: one request each."""
NODE: Final = Kind(group="", version="v1", name="Node", plural="nodes", namespaced=False)
REPLICA_SET: Final = Kind(group="apps", version="v1", name="ReplicaSet", plural="replicasets", namespaced=True)
JOB: Final = Kind(group="batch", version="v1", name="Job", plural="jobs", namespaced=True)
OWNED: Final = (REPLICA_SET, JOB, POD)
"""In the order of ownership: a CronJob owns Jobs, a Deployment owns ReplicaSets, and these own Pods."""


async def collect(session: Session, objects: StackObjects) -> Evidence:
    """Return the pods and Events of a Stack that is not ready; empty for a ready one."""
    if objects.stack.is_ready and not objects.stack.problems:
        return Evidence()
    return await collect_all(session, objects)


async def collect_all(session: Session, objects: StackObjects) -> Evidence:
    """Return the Pods, claims and Events of a Stack, and the objects that block the deletion of its Namespaces."""
    external = await read_external(session, objects)
    namespaces = list_namespaces(objects) | {each.namespace for each in external.values()} - {""}
    uids = [*event_timeline.list_uids(objects), *(each.uid for each in external.values())]
    owned, claims, events, remaining, missing_accounts = await asyncio.gather(
        list_owned(session, namespaces, uids),
        list_claims(session, namespaces),
        list_events(session, namespaces),
        list_remaining(session, objects),
        find_missing_accounts(session, objects),
    )
    pods = [
        each for each in (*owned, *(child for each in walk(objects) for child in each.children)) if each.kind == POD
    ]
    return dataclasses.replace(
        explanation.make_evidence(owned, events),
        logs=await read_logs(session, pods),
        nodes=await read_nodes(session, pods),
        claims={(claim.namespace, claim.name): claim for claim in claims},
        claim_users=await list_claim_users(session, claims),
        remaining=remaining,
        missing_accounts=missing_accounts,
        external=external,
    )


async def find_missing_accounts(session: Session, objects: StackObjects) -> frozenset[str]:
    """Return the UIDs of the Stacks whose ServiceAccount does not exist, if the user is allowed to check."""
    missing: set[str] = set()
    for stack in [each.stack for each in walk(objects)][:ACCOUNTS_AT_MOST]:
        if account := object_fields.text(stack.spec, "serviceAccountName"):
            with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
                if await session.find(SERVICE_ACCOUNT, stack.namespace, account) is None:
                    missing.add(stack.uid)
    return frozenset(missing)


async def read_external(session: Session, objects: StackObjects) -> dict[tuple[str, str], FoundChild]:
    """Return the external objects that are not ready and that the user may read."""
    wanted = [
        (each, problem)
        for each in walk(objects)
        for problem in each.stack.problems
        if object_fields.text(problem, "reason") == advice.NOT_READY
    ]
    found = {}
    for each, problem in wanted[:EXTERNAL_AT_MOST]:
        resource, namespace, name = (object_fields.text(problem, word) for word in ("resource", "namespace", "name"))
        stated = object_fields.mapping(each.resources, resource, "externalRef")
        kind = session.kinds.find(object_fields.text(stated, "apiVersion"), object_fields.text(stated, "kind"))
        if kind is None or not name:
            continue
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            found[each.stack.uid, resource] = FoundChild(kind, await session.get(kind, namespace, name))
    return found


async def read_logs(session: Session, pods: Sequence[FoundChild]) -> dict[tuple[str, str], str]:
    """Return the end of each readable log of a failed container in the newest failed Pods."""
    newest = sorted(pods, key=lambda pod: (pod.created, pod.name), reverse=True)
    wanted = [(pod, name) for pod in newest if (name := find_container_to_read(pod))][:LOGS_AT_MOST]
    found = {}
    for pod, name in wanted:
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            found[(pod.uid, name)] = await session.get_log(
                pod.namespace, pod.name, name, limit=object_reports.LOG_BYTES
            )
    return found


def find_container_to_read(pod: FoundChild) -> str:
    """Return the container whose log explains the state of the pod: one that failed, or a running init container."""
    if (end := object_reports.find_run_end([dict(pod.raw)])) is not None:
        return end.container
    inits = object_fields.entries(pod.raw, "status", "initContainerStatuses")
    running = (each for each in inits if "running" in object_fields.mapping(each, "state"))
    return object_fields.text(next(running, None), "name") if not object_causes.is_ready(pod) else ""


async def read_nodes(session: Session, pods: Sequence[FoundChild]) -> dict[str, FoundChild]:
    """Return the nodes of Pods that are not ready, if the user may read them."""
    names = dict.fromkeys(
        object_fields.text(pod.raw, "spec", "nodeName") for pod in pods if not object_causes.is_ready(pod)
    )
    found = {}
    for name in [each for each in names if each][:NODES_AT_MOST]:
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            found[name] = FoundChild(NODE, await session.get(NODE, "", name))
    return found


async def collect_timeline(
    session: Session, objects: StackObjects, *, object_session: Session | None = None
) -> list[TimelineEntry]:
    """Return all timeline entries of a Stack, unsorted.

    object_session: the session with the cluster of its objects, if that is another one.
    """
    object_session = object_session or session
    namespaces = list_namespaces(objects)
    uids = event_timeline.list_uids(objects)
    owned = await list_owned(object_session, namespaces, uids, only_metadata=True)
    uids |= {each.uid: each.name for each in owned}
    events = await list_events(object_session, namespaces)
    if object_session is not session:
        # Events about the Stack itself.
        events = [*events, *await list_events(session, [objects.stack.namespace])]
    entries = list(event_timeline.describe_events(events, uids, objects))
    for each in walk(objects):
        stored = await revisions.list_revisions(session, each.stack)
        entries += event_timeline.describe_revisions(stored.by_number, each.stack.reference)
        entries += event_timeline.describe_deletions(each)
    return entries


def walk(objects: StackObjects) -> Iterator[StackObjects]:
    """Yield the Stack and all nested ones."""
    yield objects
    for nested in objects.nested.values():
        yield from walk(nested)


# Objects that explain the children, if the user is allowed to list them.


def list_namespaces(objects: StackObjects) -> set[str]:
    """Return the namespaces of a Stack, its children and the children of nested Stacks."""
    found = {objects.stack.namespace, *(child.namespace for child in objects.children if child.namespace)}
    return found.union(*(list_namespaces(nested) for nested in objects.nested.values()))


async def list_owned(
    session: Session, namespaces: Iterable[str], owners: Collection[str], *, only_metadata: bool = False
) -> list[FoundChild]:
    """Return the objects that these objects own, directly or indirectly. owners: UIDs."""
    pairs = [(kind, namespace) for namespace in namespaces for kind in OWNED]
    lists = await asyncio.gather(
        *(session.list_allowed(kind, namespace, only_metadata=only_metadata) for kind, namespace in pairs)
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
    """Return the claims of these namespaces that the user may list."""
    lists = await asyncio.gather(*(session.list_allowed(VOLUME_CLAIM, namespace) for namespace in namespaces))
    return [FoundChild(VOLUME_CLAIM, raw) for found in lists for raw in found]


async def list_claim_users(session: Session, claims: Iterable[FoundChild]) -> list[FoundChild]:
    """Return the pods that keep claims whose deletion was requested."""
    namespaces = sorted({claim.namespace for claim in claims if claim.is_deleting})
    lists = await asyncio.gather(*(session.list_allowed(POD, namespace) for namespace in namespaces))
    return [FoundChild(POD, raw) for found in lists for raw in found]


async def list_remaining(session: Session, stack_objects: StackObjects) -> list[FoundChild]:
    """Return the objects that block the deletion of the Stack's Namespaces, by the kinds that the Namespaces report."""
    wanted = [
        (plural, group, child.name)
        for child in stack_objects.children
        if child.is_deleting and child.kind.key == object_reports.NAMESPACE
        for plural, group in object_causes.find_remaining(child)
    ]
    kinds = {(kind.plural, kind.group): kind for kind in session.kinds.all()} if wanted else {}
    pairs = [(kinds[plural, group], namespace) for plural, group, namespace in wanted if (plural, group) in kinds]
    lists = await asyncio.gather(
        *(session.list_allowed(kind, namespace, only_metadata=True) for kind, namespace in pairs)
    )
    found = [FoundChild(kind, raw) for (kind, _), objects in zip(pairs, lists, strict=True) for raw in objects]
    nested = [each for inner in stack_objects.nested.values() for each in await list_remaining(session, inner)]
    return [*found, *nested]


async def list_events(session: Session, namespaces: Iterable[str]) -> list[Object]:
    """Return the Events of these namespaces that the user may list."""
    lists = await asyncio.gather(*(session.list_allowed(EVENT, namespace) for namespace in namespaces))
    return [event for events in lists for event in events]
