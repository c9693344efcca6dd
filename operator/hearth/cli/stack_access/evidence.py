"""What explains a Stack beyond its snapshot: pods, Events, revisions. Must not know how an explanation is shown."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from hearth.cli import object_fields
from hearth.cli.stack_access import owned_objects, revisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.causes import advice, explanation
from hearth.cli.stack_views.causes.explanation import Evidence
from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.lists.event_timeline import TimelineEntry
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import errors
from hearth.model.well_known_kinds import POD, SERVICE_ACCOUNT
from hearth.plan.health import run_end

EXTERNAL_AT_MOST: Final = 5
"""Objects that Stacks only read of which an explanation looks for the cause: one request each."""
ACCOUNTS_AT_MOST: Final = 5
"""Stacks of which an explanation looks for the ServiceAccount: one request each."""
LOGS_AT_MOST: Final = 5
"""Logs that an explanation reads: one request each."""


async def collect(session: Session, objects: StackObjects) -> Evidence:
    """Return the pods and Events of a Stack that is not ready; nothing of one that is."""
    if objects.stack.is_ready and not objects.stack.problems:
        return Evidence()
    return await collect_all(session, objects)


async def collect_all(session: Session, objects: StackObjects) -> Evidence:
    """Return the pods, claims and Events of a Stack, and what keeps its Namespaces."""
    external = await read_external(session, objects)
    namespaces = owned_objects.list_namespaces(objects) | {each.namespace for each in external.values()} - {""}
    uids = [*event_timeline.list_uids(objects), *(each.uid for each in external.values())]
    owned, claims, events, remaining, missing_accounts = await asyncio.gather(
        owned_objects.list_owned(session, namespaces, uids),
        owned_objects.list_claims(session, namespaces),
        owned_objects.list_events(session, namespaces),
        owned_objects.list_remaining(session, objects),
        find_missing_accounts(session, objects),
    )
    pods = [*owned, *(child for each in walk(objects) for child in each.children)]
    return dataclasses.replace(
        explanation.make_evidence(owned, events),
        logs=await read_logs(session, [pod for pod in pods if pod.kind == POD]),
        claims={(claim.namespace, claim.name): claim for claim in claims},
        claim_users=await owned_objects.list_claim_users(session, claims),
        remaining=remaining,
        missing_accounts=missing_accounts,
        external=external,
    )


async def find_missing_accounts(session: Session, objects: StackObjects) -> frozenset[str]:
    """Return the UIDs of the Stacks whose ServiceAccount does not exist, as far as the user may ask."""
    missing: set[str] = set()
    for stack in [each.stack for each in walk(objects)][:ACCOUNTS_AT_MOST]:
        if account := object_fields.text(stack.spec, "serviceAccountName"):
            with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
                if await session.find(SERVICE_ACCOUNT, stack.namespace, account) is None:
                    missing.add(stack.uid)
    return frozenset(missing)


async def read_external(session: Session, objects: StackObjects) -> dict[tuple[str, str], FoundChild]:
    """Return the objects that the Stacks only read and that are not ready, as far as the user may read them."""
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
    """Return the end of the log of each container that failed, in the newest pods that failed; what may be read."""
    newest = sorted(pods, key=lambda pod: (pod.created, pod.name), reverse=True)
    failed = [(pod, end) for pod in newest if (end := run_end.find([dict(pod.raw)])) is not None][:LOGS_AT_MOST]
    found = {}
    for pod, end in failed:
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            found[(pod.uid, end.container)] = await session.get_log(
                end.namespace, end.pod, end.container, limit=run_end.LOG_BYTES
            )
    return found


async def collect_timeline(
    session: Session, objects: StackObjects, *, object_session: Session | None = None
) -> list[TimelineEntry]:
    """Return everything with a time that belongs to a Stack, unsorted.

    object_session: where its objects are, if that is elsewhere.
    """
    object_session = object_session or session
    namespaces = owned_objects.list_namespaces(objects)
    uids = event_timeline.list_uids(objects)
    owned = await owned_objects.list_owned(object_session, namespaces, uids, only_metadata=True)
    uids |= {each.uid: each.name for each in owned}
    events = await owned_objects.list_events(object_session, namespaces)
    if object_session is not session:
        # Those about the Stack itself.
        events = [*events, *await owned_objects.list_events(session, [objects.stack.namespace])]
    entries = list(event_timeline.describe_events(events, uids))
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
