"""Progress of the rolling updates of one Stack: records the ends of batches, and lets a group grow meanwhile.

Must not choose members: see `hearth.plan.state.rolling_updates`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.services import Services
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.rolling_updates import BatchEnd, RollingUpdates
from hearth.plan.target.target import LastBatch
from hearth.template.blueprint import Blueprint

ROUNDING = 1.0
"""Seconds by which a recorded time may differ, because a status has whole seconds."""


@dataclass(slots=True)
class RollingProgress:
    """The rolling updates of one Stack, checked after each reconcile."""

    services: Services
    definition_sync: DefinitionSync

    def make_updates(self, blueprint: Blueprint, *, before: StackPlanner | None) -> RollingUpdates:
        """Return the rolling updates of a blueprint, with the ends of batches that the status recorded.

        before: the planner until now, whose batches continue.
        """
        target, clock = self.definition_sync.targets.current, self.services.clock
        now = clock.monotonic()
        offset = clock.now() - now
        ends = [
            # A clock that was set back since must not extend the pause by as much.
            BatchEnd(collection=each.collection, since=min(each.since - offset, now), updated=each.updated)
            for each in (target.batches if target is not None else ())
        ]
        return RollingUpdates(
            blueprint.rolling,
            ends=ends,
            is_resumed=self.definition_sync.targets.is_restored,
            was_at_rest=self.definition_sync.was_at_rest,
            before=before.rolling if before is not None and not before.blueprint.is_unknown else None,
        )

    def update(self, planner: StackPlanner, *, is_group: bool) -> None:
        """Record what ended; grow or shrink a group as its members need it."""
        if not (planner.blueprint.rolling or planner.blueprint.surge):
            return
        targets, clock = self.definition_sync.targets, self.services.clock
        if targets.current is not None and (ends := planner.rolling.ends()):
            known = {each.collection: each for each in targets.current.batches}
            offset = clock.now() - clock.monotonic()
            targets.record_batches(keep_close(make_record(each, offset=offset), known) for each in ends)
        if is_group and self._may_resize(planner):
            self._resize(planner)

    def _may_resize(self, planner: StackPlanner) -> bool:
        sync = self.definition_sync
        return not (planner.is_suspended or sync.is_deleting or sync.options.is_paused or sync.rejection is not None)

    def _resize(self, planner: StackPlanner) -> None:
        present, wanted = self.definition_sync.targets.surge, planner.rolling.find_surge()
        if not present and not wanted:
            return
        # A member beyond the size may wait for its change itself, if a larger size created it. It needs no others: to
        # grow for it would take back the end of the growth, again and again.
        self.definition_sync.set_surge(0 if are_own_members_ready(planner) else max(present, wanted))


def are_own_members_ready(planner: StackPlanner) -> bool:
    """Return whether all members within the size of a group are ready, so that it needs no others.

    Those beyond may not be: what they were created from may have been changed back.
    """
    resources, beyond = planner.blueprint.resources, planner.blueprint.surge
    ready = len(planner.by_state[ResourceState.READY])
    if ready < len(resources) - beyond:
        return False
    others = tuple(resources)[len(resources) - beyond :]
    return ready - sum(planner.statuses[name].is_ready for name in others) == len(resources) - beyond


def make_record(end: BatchEnd, *, offset: float) -> LastBatch:
    """Return the end of a batch as the status records it. offset: of seconds since the epoch to monotonic seconds."""
    return LastBatch(collection=end.collection, since=float(math.ceil(end.since + offset)), updated=end.updated)


def keep_close(found: LastBatch, known: dict[str, LastBatch]) -> LastBatch:
    """Return the known record if it differs by rounding only, so that nothing is written again."""
    before = known.get(found.collection)
    is_same = before is not None and before.updated == found.updated and abs(before.since - found.since) <= ROUNDING
    return before if is_same and before is not None else found
