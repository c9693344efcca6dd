"""What explains a Stack beyond its snapshot: pods, Events, revisions. Must not know how an explanation is shown."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from hearth.cli.stack_access import owned_objects, revisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.causes import cause
from hearth.cli.stack_views.causes.cause import Evidence
from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.lists.event_timeline import TimelineEntry
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.kube.well_known_kinds import POD
from hearth.model import errors
from hearth.plan.health import run_end

LOGS_AT_MOST: Final = 5
"""Logs that an explanation reads: one request each."""


async def collect(session: Session, snapshot: StackObjects) -> Evidence:
    """Return the pods and Events of a Stack that is not ready; nothing of one that is."""
    if snapshot.stack.is_ready and not snapshot.stack.problems:
        return Evidence()
    return await collect_all(session, snapshot)


async def collect_all(session: Session, snapshot: StackObjects) -> Evidence:
    """Return the pods, claims and Events of a Stack, and what keeps its Namespaces."""
    namespaces = owned_objects.list_namespaces(snapshot)
    owned, claims, events, remaining = await asyncio.gather(
        owned_objects.list_owned(session, namespaces, event_timeline.list_uids(snapshot)),
        owned_objects.list_claims(session, namespaces),
        owned_objects.list_events(session, namespaces),
        owned_objects.list_remaining(session, snapshot),
    )
    pods = [*owned, *(child for each in walk(snapshot) for child in each.children)]
    logs = await read_logs(session, [pod for pod in pods if pod.kind == POD])
    users = await owned_objects.list_claim_users(session, claims)
    return cause.make_evidence(owned, events, logs=logs, claims=claims, claim_users=users, remaining=remaining)


async def read_logs(session: Session, pods: Sequence[FoundChild]) -> dict[tuple[str, str], str]:
    """Return the end of the log of each container that failed, in the newest pods that failed; what may be read."""
    newest = sorted(pods, key=lambda pod: (pod.created, pod.name), reverse=True)
    failed = [(pod, end) for pod in newest if (end := run_end.find([dict(pod.raw)])) is not None][:LOGS_AT_MOST]
    found = {}
    for pod, end in failed:
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            found[(pod.uid, end.container)] = await session.get_log_end(
                end.namespace, end.pod, end.container, limit=run_end.LOG_BYTES
            )
    return found


async def collect_timeline(session: Session, snapshot: StackObjects) -> list[TimelineEntry]:
    """Return everything with a time that belongs to a Stack, unsorted."""
    namespaces = owned_objects.list_namespaces(snapshot)
    uids = event_timeline.list_uids(snapshot)
    owned = await owned_objects.list_owned(session, namespaces, uids, only_metadata=True)
    uids |= {each.uid: each.name for each in owned}
    entries = list(event_timeline.describe_events(await owned_objects.list_events(session, namespaces), uids))
    for each in walk(snapshot):
        stored = await revisions.list_revisions(session, each.stack)
        entries += event_timeline.describe_revisions(
            stored.by_number, f"{each.stack.resource_type}.hearth.dev/{each.stack.name}"
        )
        entries += event_timeline.describe_deletions(each)
    return entries


def walk(snapshot: StackObjects) -> Iterator[StackObjects]:
    """Yield the Stack and all nested ones."""
    yield snapshot
    for nested in snapshot.nested.values():
        yield from walk(nested)
