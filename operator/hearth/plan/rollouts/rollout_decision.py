"""Decides which instances get which revision now, from the policy, the instances and the recorded rollout.

An instance that was unhealthy before its move is moved last, and its failure does not count. A held instance keeps its
revision and does not count either.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hearth.model import rolling_batches, value_class
from hearth.model.text import times
from hearth.plan.rollouts import rollout_policy
from hearth.plan.rollouts.instance_state import UNHEALTHY_BEFORE, Health, InstanceState
from hearth.plan.rollouts.rollout_gates import GateResult, GateState
from hearth.plan.rollouts.rollout_policy import RolloutPolicy

PATIENCE = 300.0
"""Seconds after which unfinished instances of one namespace no longer delay instances in other namespaces."""
FAILED = frozenset({Health.FAILED, Health.ROLLED_BACK})
BUSY = frozenset({Health.WORKING, Health.RETRYING})


class RolloutPhase(enum.StrEnum):
    """State of a rollout."""

    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    """More instances failed than the policy allows, or a gate failed."""
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    COMPLETE = "Complete"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRecord:
    """The record of a rollout in the status."""

    revision: int = 0
    completed: int = 0
    """The last revision that completed its rollout; 0 for none. New instances have it."""
    phase: RolloutPhase = RolloutPhase.PROGRESSING
    wave: int = 0
    ready_since: float | None = None
    """When all instances of the wave became ready, in seconds since the epoch; None while any instance is not ready."""
    started: str = ""
    """When the revision, or its restart, began, RFC 3339; "" if an earlier version of the operator began it."""
    restart: str = ""
    """The token of the last restart request."""
    forced: int = 0
    """The revision whose rollout continues even if instances fail; 0 for none."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequests:
    """Requests of users for a rollout."""

    is_paused: bool = False
    undo: int = 0
    """The revision to roll back; 0 for none."""
    restart: str = ""
    """A token: restarts a rollout that was stopped or rolled back."""
    promote: str = ""
    """`REVISION/WAVE`: ends the pause after that wave."""
    force: int = 0
    """The revision whose rollout continues even if instances fail; 0 for none."""


@value_class.dataclass(frozen=True, slots=True)
class HeldInstance:
    """An instance that stays unchanged, or that cannot follow."""

    instance: InstanceState
    reason: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDecision:
    """The next changes of a rollout, and its progress."""

    record: RolloutRecord
    wave: str = ""
    """The name of the current wave; "" for none."""
    wave_size: int = 0
    """Instances in that wave."""
    moves: Mapping[str, int] = field(default_factory=dict)
    """By UID of an instance, the revision to give it."""
    instances: int = 0
    updated: int = 0
    """Instances that have the newest revision."""
    ready: int = 0
    """Updated instances that are healthy."""
    failed: tuple[InstanceState, ...] = ()
    """Updated instances that failed."""
    waiting: int = 0
    """Instances that have another revision and are moved later."""
    held: tuple[HeldInstance, ...] = ()
    """Instances that keep their revision, or that cannot be moved."""
    due: float = math.inf
    """Seconds until the decision changes even without an event."""
    is_window_closed: bool = False
    is_manual: bool = False
    """Whether only users move instances."""
    is_moving: bool = False
    """Whether an instance is moving to the newest revision."""
    is_at_gate: bool = False
    """Whether the wave is ready, and waits for gates."""
    gates: tuple[GateResult, ...] = ()
    """The gates that have a result, and those that the wave waits for."""

    @property
    def waiting_gates(self) -> tuple[GateResult, ...]:
        """Return the gates that the wave waits for."""
        return tuple(each for each in self.gates if each.state is GateState.WAITING)

    @property
    def failed_gates(self) -> tuple[GateResult, ...]:
        """Return the gates that failed."""
        return tuple(each for each in self.gates if each.state is GateState.FAILED)

    @property
    def waits_for_users(self) -> bool:
        """Return whether nothing happens until a user moves an instance."""
        is_open = self.record.phase is RolloutPhase.PROGRESSING
        return self.is_manual and is_open and not self.moves and not self.is_moving

    @property
    def is_settled(self) -> bool:
        """Return whether nothing changes until an instance or the definition changes."""
        ends = (RolloutPhase.COMPLETE, RolloutPhase.ROLLED_BACK, RolloutPhase.STOPPED, RolloutPhase.PAUSED)
        return self.waits_for_users or (not self.moves and (self.is_at_gate or self.record.phase in ends))


@dataclass(slots=True)
class Waves:
    """The instances that follow the definition, by wave."""

    newest: int
    members: list[list[InstanceState]]
    names: list[str]

    def all(self) -> Iterable[InstanceState]:
        """Return the instances of all waves."""
        return (each for wave in self.members for each in wave)

    def count_failures(self) -> int:
        """Return how many failures count: one per namespace, unless only one namespace has instances.

        Instances that were unhealthy before do not count.
        """
        failed = [each for wave in self.members[:-1] for each in wave if is_failed(each, self.newest)]
        is_shared = len({each.namespace for each in self.all()}) > 1
        return len({each.namespace for each in failed}) if is_shared else len(failed)


def decide(  # noqa: PLR0913 -- each is a separate input of the decision
    policy: RolloutPolicy,
    instances: Iterable[InstanceState],
    *,
    newest: int,
    before: RolloutRecord,
    requests: RolloutRequests = RolloutRequests(),
    minimum: int = 0,
    gates: Sequence[GateResult] = (),
    now: float,
) -> RolloutDecision:
    """Decide for all instances.

    newest: the newest revision; before: the record in the status; minimum: the oldest revision that an instance may
    keep; gates: the result of each gate after each wave, in the attempt that `begin` returns; now: seconds since the
    epoch.
    """
    found = [
        limit_progress(each, policy, now=now)
        for each in sorted(instances, key=lambda each: (each.namespace, each.name))
    ]
    held: list[HeldInstance] = []
    free: list[InstanceState] = []
    moves: dict[str, int] = {}
    for each in found:
        reason = find_hold_cause(each, newest=newest, minimum=minimum)
        if reason:
            held.append(HeldInstance(each, reason))
        else:
            free.append(each)
        if each.pin is not None and not each.hold and not each.pin_mistake:
            moves[each.uid] = each.pin
    blocked = (HeldInstance(each, each.message) for each in free if is_blocked(each, newest))
    decision = RolloutDecision(
        record=begin(before, newest, requests, now=now),
        moves={each.uid: moves[each.uid] for each in found if moves.get(each.uid, each.revision) != each.revision},
        instances=len(found),
        updated=sum(has_newest(each, newest) for each in found),
        ready=sum(has_newest(each, newest) and each.health is Health.WELL for each in found),
        failed=tuple(each for each in free if is_failed(each, newest)),
        held=(*held, *blocked),
    )
    waves = divide(policy, free, newest)
    decided = advance(decision, policy, waves, requests=requests, minimum=minimum, gates=gates, now=now)
    movers = {each.uid: each for each in found}
    allowed = {uid: number for uid, number in decided.moves.items() if movers[uid].may_move(number)}
    waiting = sum(each.revision != newest and each.uid not in allowed for each in free)
    is_moving = len(allowed) < len(decided.moves) or any(has_begun(each, newest) for each in free)
    size = len(waves.members[waves.names.index(decided.wave)]) if decided.wave else 0
    reported = tuple(
        each
        for each in gates
        if each.state is not GateState.WAITING or (decided.is_at_gate and each.wave == decided.wave)
    )
    return dataclasses.replace(
        decided, moves=allowed, waiting=waiting, is_moving=is_moving, wave_size=size, gates=reported
    )


def limit_progress(instance: InstanceState, policy: RolloutPolicy, *, now: float) -> InstanceState:
    """Return the instance, as failed if it was in progress for too long."""
    if instance.health not in BUSY or instance.since is None or now - instance.since < policy.deadline:
        return instance
    health = Health.FAILED if instance.health is Health.WORKING else Health.BLOCKED
    message = f"is in progress for longer than {times.format_duration(policy.deadline)} (spec.rollout.progressDeadline)"
    if instance.message:
        message = f"{message}: {instance.message}"
    return dataclasses.replace(instance, health=health, message=message)


def find_hold_cause(instance: InstanceState, *, newest: int, minimum: int) -> str:
    """Return why an instance stays at its revision, or "" if it follows the definition."""
    if instance.revision < minimum:
        return ""
    if instance.hold:
        return instance.hold
    if instance.pin is not None:
        return instance.pin_mistake or f"is pinned to revision {instance.pin}"
    if instance.unfit and instance.revision != newest:
        return f"does not fit revision {newest}: {instance.unfit}"
    return ""


def has_newest(instance: InstanceState, newest: int) -> bool:
    """Return whether an instance has the newest revision, and its objects too."""
    return instance.revision == newest and instance.is_at_revision


def has_begun(instance: InstanceState, newest: int) -> bool:
    """Return whether an instance is moving to the newest revision."""
    return instance.revision == newest and instance.health in BUSY


def is_blocked(instance: InstanceState, newest: int) -> bool:
    """Return whether a cause that its user can fix keeps an instance from the newest revision."""
    return instance.revision == newest and instance.health is Health.BLOCKED


def begin(before: RolloutRecord, newest: int, requests: RolloutRequests, *, now: float) -> RolloutRecord:
    """Return the record to continue with: a newer revision, or a restart by the user, begins with the first wave.

    Beginning again with the result returns the same.
    """
    is_asked = requests.restart and requests.restart != before.restart
    forced = newest if requests.force == newest and requests.undo != newest else 0
    if before.revision == newest and not is_asked:
        is_over = before.phase is RolloutPhase.COMPLETE
        is_begun = before.forced == forced or not forced or is_over
        phase = before.phase if is_begun else RolloutPhase.PROGRESSING
        return dataclasses.replace(before, forced=forced, phase=phase)
    return RolloutRecord(
        revision=newest,
        completed=before.completed,
        started=times.format_time(now),
        restart=requests.restart,
        forced=forced,
    )


def divide(policy: RolloutPolicy, free: Sequence[InstanceState], newest: int) -> Waves:
    """Divide the instances that follow the definition among the waves. Unhealthy instances come last."""
    is_progressive = policy.strategy == rollout_policy.PROGRESSIVE
    wanted = policy.waves if is_progressive else ()
    left = [each for each in free if each.revision == newest or each.is_well]
    waves: list[list[InstanceState]] = []
    for wave in wanted:
        fitting = [each for each in left if wave.selector.accepts(each.labels)]
        size = len(fitting) if wave.size is None else rolling_batches.find_batch_size(wave.size, members=len(free))
        waves.append(fitting[:size])
        taken = {each.uid for each in waves[-1]}
        left = [each for each in left if each.uid not in taken]
    unwell = [each for each in free if not (each.revision == newest or each.is_well)]
    return Waves(newest, [*waves, left, unwell], [*policy.wave_names, UNHEALTHY_BEFORE])


def is_failed(instance: InstanceState, newest: int) -> bool:
    """Return whether an instance failed with the newest revision."""
    return instance.revision == newest and instance.health in FAILED


def advance(  # noqa: PLR0913 -- as `decide`
    decision: RolloutDecision,
    policy: RolloutPolicy,
    waves: Waves,
    *,
    requests: RolloutRequests,
    minimum: int,
    gates: Sequence[GateResult],
    now: float,
) -> RolloutDecision:
    """Decide the current moves and the phase of the rollout."""
    decision = dataclasses.replace(decision, is_manual=policy.strategy == rollout_policy.MANUAL)
    record = decision.record
    is_counted = record.wave < len(waves.members) - 1
    can_go_back = record.completed not in (0, record.revision) and record.completed >= minimum
    if record.phase is RolloutPhase.PAUSED:
        record = dataclasses.replace(record, phase=RolloutPhase.PROGRESSING)
    is_undone = requests.undo == record.revision and record.phase in (RolloutPhase.PROGRESSING, RolloutPhase.STOPPED)
    is_in_wave = record.phase is RolloutPhase.PROGRESSING and is_counted and not record.forced
    has_failed = is_in_wave and waves.count_failures() > policy.max_failed
    # Unlike failures of instances, a rejection stops a forced rollout too: forcing it needs no right to approve.
    is_rejected = any(each.state is GateState.FAILED for each in gates)
    has_failed = has_failed or (is_rejected and record.phase is RolloutPhase.PROGRESSING)
    if can_go_back and (is_undone or (has_failed and policy.goes_back)):
        record = dataclasses.replace(record, phase=RolloutPhase.ROLLING_BACK, wave=0, ready_since=None)
    elif has_failed:
        record = dataclasses.replace(record, phase=RolloutPhase.STOPPED, ready_since=None)
    match record.phase:
        case RolloutPhase.ROLLING_BACK | RolloutPhase.ROLLED_BACK:
            # An instance that was held until now is rolled back as well.
            return roll_back(decision, record, policy, waves)
        case RolloutPhase.STOPPED:
            return dataclasses.replace(decision, record=record, wave=find_name(waves, record))
        case RolloutPhase.COMPLETE:
            return move_stragglers(decision, record, policy, waves)
        case RolloutPhase.PROGRESSING | RolloutPhase.PAUSED:
            if requests.is_paused:
                paused = dataclasses.replace(record, phase=RolloutPhase.PAUSED)
                return dataclasses.replace(decision, record=paused, wave=find_name(waves, record))
            return advance_wave(decision, record, policy, waves, requests=requests, gates=gates, now=now)


def advance_wave(  # noqa: PLR0913 -- as `decide`
    decision: RolloutDecision,
    record: RolloutRecord,
    policy: RolloutPolicy,
    waves: Waves,
    *,
    requests: RolloutRequests,
    gates: Sequence[GateResult],
    now: float,
) -> RolloutDecision:
    """Move the next instances of the current wave, or begin the next wave."""
    while record.wave < len(waves.members):
        wave = waves.members[record.wave]
        pending = [each for each in wave if each.revision != waves.newest]
        is_done = not pending and all(each.health not in BUSY for each in wave)
        name = waves.names[record.wave]
        if not is_done:
            record = dataclasses.replace(record, ready_since=None)
            has_begun = len(pending) < len(wave)
            if pending and not has_begun and policy.window is not None and not policy.window.is_open(now):
                return dataclasses.replace(decision, record=record, wave=name, is_window_closed=True, due=60.0)
            moves = choose_moves(policy, wave, pending, waves.newest, now=now)
            return dataclasses.replace(decision, record=record, wave=name, moves={**decision.moves, **moves})
        has_successor = any(waves.members[record.wave + 1 :])
        if wave and has_successor and policy.pause and requests.promote != f"{record.revision}/{name}":
            since = record.ready_since if record.ready_since is not None else now
            if (left := since + policy.pause - now) > 0:
                record = dataclasses.replace(record, ready_since=since)
                return dataclasses.replace(decision, record=record, wave=name, due=left)
        if wave and any(each.wave == name and each.state is not GateState.PASSED for each in gates):
            return dataclasses.replace(decision, record=record, wave=name, is_at_gate=True)
        record = dataclasses.replace(record, wave=record.wave + 1, ready_since=None)
    complete = dataclasses.replace(record, phase=RolloutPhase.COMPLETE, completed=record.revision)
    return dataclasses.replace(decision, record=complete)


def choose_moves(
    policy: RolloutPolicy,
    wave: Sequence[InstanceState],
    pending: Sequence[InstanceState],
    newest: int,
    *,
    now: float,
) -> dict[str, int]:
    """Return which instances of a wave are moved now."""
    if policy.strategy == rollout_policy.MANUAL:
        return {each.uid: newest for each in pending if each.promoted == newest}
    if policy.strategy == rollout_policy.ALL_AT_ONCE:
        return dict.fromkeys((each.uid for each in pending), newest)
    limit = rolling_batches.find_batch_size(policy.max_unavailable, members=len(wave))
    busy = [each for each in wave if has_begun(each, newest)]
    # Instances of one namespace that have been in progress for a long time, or that cannot be written, must not delay
    # other namespaces.
    slow = Counter(
        each.namespace
        for each in busy
        if each.health is Health.RETRYING or (each.since is not None and now - each.since > PATIENCE)
    )
    left = limit - len(busy) + max(slow.values(), default=0)
    taken = Counter(each.namespace for each in busy)
    # While other namespaces wait, one namespace gets at most half.
    share = limit if len({each.namespace for each in pending}) == 1 else max(1, limit // 2)
    moves: dict[str, int] = {}
    for each in pending:
        if len(moves) >= left:
            break
        if taken[each.namespace] < share:
            taken[each.namespace] += 1
            moves[each.uid] = newest
    return moves


def roll_back(decision: RolloutDecision, record: RolloutRecord, policy: RolloutPolicy, waves: Waves) -> RolloutDecision:
    """Roll back instances with the newest revision, as many at a time as forward; failed ones first."""
    moved = [each for each in waves.all() if each.revision == waves.newest]
    back = [each for each in waves.all() if each.revision == record.completed]
    if not moved and record.phase is RolloutPhase.ROLLED_BACK:
        return dataclasses.replace(decision, record=record)
    if not moved:
        is_done = all(each.health not in BUSY for each in back)
        phase = RolloutPhase.ROLLED_BACK if is_done else RolloutPhase.ROLLING_BACK
        return dataclasses.replace(decision, record=dataclasses.replace(record, phase=phase))
    moved.sort(key=lambda each: each.health is Health.WELL)
    limit = rolling_batches.find_batch_size(policy.max_unavailable, members=len(moved) + len(back))
    busy = sum(each.health in BUSY for each in back)
    moves = dict.fromkeys((each.uid for each in moved[: max(0, limit - busy)]), record.completed)
    record = dataclasses.replace(record, phase=RolloutPhase.ROLLING_BACK)
    return dataclasses.replace(decision, record=record, moves={**decision.moves, **moves})


def move_stragglers(
    decision: RolloutDecision, record: RolloutRecord, policy: RolloutPolicy, waves: Waves
) -> RolloutDecision:
    """Move instances that were held, after the rollout completed."""
    late = [each for each in waves.all() if each.revision != waves.newest]
    if policy.strategy == rollout_policy.MANUAL:
        late = [each for each in late if each.promoted == waves.newest]
    moves = dict.fromkeys((each.uid for each in late), waves.newest)
    return dataclasses.replace(decision, record=record, moves={**decision.moves, **moves})


def find_name(waves: Waves, record: RolloutRecord) -> str:
    """Return the name of the current wave."""
    return waves.names[record.wave] if record.wave < len(waves.names) else ""
