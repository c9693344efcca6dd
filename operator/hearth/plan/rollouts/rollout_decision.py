"""Which instances get which revision now. A function of the policy, the instances, and what the status remembers.

An instance that is not well before it is moved follows last and counts for nothing. One that is held stays as it is and
does not count at all. What a rollout knows of an instance is read from its status, which may have any shape.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hearth.model import object_fields, rolling_batches, value_class
from hearth.model.phases import Phase
from hearth.plan.rollouts import rollout_policy
from hearth.plan.rollouts.rollout_policy import REST, RolloutPolicy
from hearth.plan.status import conditions
from hearth.plan.target.target import TargetCause

UNWELL = "unwell"
"""The wave of the instances that are not well before they are moved, after all others."""
COMPLETE = frozenset({Phase.CREATE_COMPLETE, Phase.UPDATE_COMPLETE, Phase.RESUME_COMPLETE, Phase.CHECK_COMPLETE})
FAILED = frozenset({Phase.CREATE_FAILED, Phase.UPDATE_FAILED, Phase.RESUME_FAILED})
SELF_ROLLBACK = frozenset({Phase.ROLLBACK_IN_PROGRESS, Phase.ROLLBACK_COMPLETE, Phase.ROLLBACK_FAILED})


class Health(enum.Enum):
    """How an instance is at its own revision."""

    WELL = "Well"
    WORKING = "Working"
    """In progress."""
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    """It failed, and went back by itself: it runs, but not with its revision."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """One instance, by its status."""

    uid: str
    namespace: str
    name: str
    revision: int
    """The revision that it is given; it may not have reached it."""
    health: Health
    pin: int | None = None
    is_held: bool = False
    """Whether it stays as it is, although the definition changes: paused, suspended, stopped, or rolled back by its user."""
    labels: Mapping[str, str] = field(default_factory=dict)
    promoted: int = 0
    """The revision that its user promoted it to; 0 for none."""
    message: str = ""
    """Why it is not well."""

    @property
    def is_well(self) -> bool:
        """Return whether it runs: at its own revision, or at the one that it went back to by itself."""
        return self.health in (Health.WELL, Health.ROLLED_BACK)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def find_health(status: Mapping[str, Any], *, generation: int, revision: int) -> Health:
    """Return how an instance is, by its status. generation: of its spec; revision: that it is given."""
    phase = status.get("phase")
    is_current = status.get("observedGeneration") == generation and status.get("definitionRevision") == revision
    if phase in SELF_ROLLBACK and is_current:
        return Health.ROLLED_BACK if phase == Phase.ROLLBACK_COMPLETE else Health.FAILED
    if conditions.find(status, "Stalled").get("status") == "True" or phase in FAILED:
        # A definition that does not fit is never reached.
        is_judged = is_current or status.get("observedGeneration") == generation
        return Health.FAILED if is_judged else Health.WORKING
    return Health.WELL if is_current and phase in COMPLETE else Health.WORKING


def find_message(status: Mapping[str, Any]) -> str:
    """Return why an instance is as it is: what made it go back by itself, else what its condition `Ready` says."""
    target = status.get("target")
    if isinstance(target, dict) and target.get("cause") == TargetCause.AUTOMATIC and target.get("message"):
        return str(target["message"])
    return str(conditions.find(status, "Ready").get("message") or "")


def is_held(settings: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Return whether an instance stays as it is. settings: its options, in the form of a Stack's spec."""
    asked = object_fields.mapping(settings, "rollback")
    requested = asked.get("toRevision", asked.get("toSnapshot"))
    target = status.get("target")
    cause = target.get("cause") if isinstance(target, dict) else ""
    is_stopped = str(status.get("phase", "")).endswith("Stopped")
    is_rolled_back = requested is not None and cause == TargetCause.ROLLBACK
    return bool(settings.get("paused") or settings.get("suspended") or is_stopped or is_rolled_back)


class RolloutPhase(enum.StrEnum):
    """How a rollout stands."""

    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    """More instances failed than may."""
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    COMPLETE = "Complete"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRecord:
    """What the status remembers of a rollout."""

    revision: int = 0
    completed: int = 0
    """The last revision that completed its rollout; 0 for none. New instances have it."""
    phase: RolloutPhase = RolloutPhase.PROGRESSING
    wave: int = 0
    ready_since: float | None = None
    """When all instances of the wave were ready, in seconds since the epoch; None while one is not."""
    restart: str = ""
    """The token of the last request to begin again."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequests:
    """What users ask of a rollout."""

    is_paused: bool = False
    undo: int = 0
    """The revision that is taken back; 0 for none."""
    restart: str = ""
    """A token: what was stopped or taken back begins again."""
    promote: str = ""
    """`REVISION/WAVE`: the pause after that wave is over."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDecision:
    """What to do, and how far it is."""

    record: RolloutRecord
    wave: str = ""
    """The name of the present wave; "" for none."""
    moves: Mapping[str, int] = field(default_factory=dict)
    """By UID of an instance, the revision to give it."""
    instances: int = 0
    updated: int = 0
    """Instances that have the newest revision."""
    ready: int = 0
    """Those of them that are well."""
    failed: tuple[InstanceState, ...] = ()
    """Those of them that failed."""
    waiting: int = 0
    """Instances that have another revision and are moved later."""
    held: tuple[InstanceState, ...] = ()
    """Instances that stay as they are."""
    due: float = math.inf
    """Seconds until time alone changes the decision."""
    is_window_closed: bool = False

    @property
    def is_settled(self) -> bool:
        """Return whether nothing changes until an instance or the definition does."""
        ends = (RolloutPhase.COMPLETE, RolloutPhase.ROLLED_BACK, RolloutPhase.STOPPED, RolloutPhase.PAUSED)
        return not self.moves and self.record.phase in ends


@dataclass(slots=True)
class Movable:
    """The instances that follow the definition, by wave."""

    newest: int
    waves: list[list[InstanceState]]
    names: list[str]

    def all(self) -> Iterable[InstanceState]:
        """Return all of them."""
        return (each for wave in self.waves for each in wave)

    def find_failed(self) -> list[InstanceState]:
        """Return those that failed with the newest revision. Those that were unwell before count for nothing."""
        return [each for wave in self.waves[:-1] for each in wave if is_failed(each, self.newest)]


def decide(  # noqa: PLR0913 -- each is a separate input of the decision
    policy: RolloutPolicy,
    instances: Iterable[InstanceState],
    *,
    newest: int,
    known: Collection[int],
    before: RolloutRecord,
    requests: RolloutRequests = RolloutRequests(),
    now: float,
) -> RolloutDecision:
    """Decide for all instances.

    newest: the revision that they get; known: those that exist; before: what the status remembers; now: seconds since the
    epoch.
    """
    found = sorted(instances, key=lambda each: (each.namespace, each.name))
    held = [each for each in found if each.is_held or each.pin in known]
    pinned = ((each, each.pin) for each in held if each.pin is not None and each.pin in known and not each.is_held)
    free = [each for each in found if not (each.is_held or each.pin in known)]
    movable = divide(policy, free, newest)
    record = begin(before, newest, requests)
    decision = RolloutDecision(
        record=record,
        moves={each.uid: pin for each, pin in pinned if each.revision != pin},
        instances=len(found),
        updated=sum(each.revision == newest for each in found),
        ready=sum(each.revision == newest and each.health is Health.WELL for each in found),
        failed=tuple(each for each in free if is_failed(each, newest)),
        held=tuple(held),
    )
    decided = advance(decision, policy, movable, requests=requests, now=now)
    waiting = sum(each.revision != newest and each.uid not in decided.moves for each in free)
    return dataclasses.replace(decided, waiting=waiting)


def begin(before: RolloutRecord, newest: int, requests: RolloutRequests) -> RolloutRecord:
    """Return the record to go on with: a newer revision begins with the first wave, and so does what a user restarts."""
    is_asked = requests.restart and requests.restart != before.restart
    if before.revision == newest and not is_asked:
        return before
    return RolloutRecord(revision=newest, completed=before.completed, restart=requests.restart)


def divide(policy: RolloutPolicy, free: Sequence[InstanceState], newest: int) -> Movable:
    """Divide the instances that follow among the waves; those that are not well come last."""
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
    return Movable(newest, [*waves, left, unwell], [*(wave.name for wave in wanted), REST, UNWELL])


def is_failed(instance: InstanceState, newest: int) -> bool:
    """Return whether an instance failed with the newest revision."""
    return instance.revision == newest and instance.health in (Health.FAILED, Health.ROLLED_BACK)


def advance(
    decision: RolloutDecision, policy: RolloutPolicy, movable: Movable, *, requests: RolloutRequests, now: float
) -> RolloutDecision:
    """Add what the rollout does now."""
    record = decision.record
    is_counted = record.wave < len(movable.waves) - 1
    can_go_back = record.completed not in (0, record.revision)
    if record.phase is RolloutPhase.PAUSED:
        record = dataclasses.replace(record, phase=RolloutPhase.PROGRESSING)
    is_undone = requests.undo == record.revision and record.phase in (RolloutPhase.PROGRESSING, RolloutPhase.STOPPED)
    is_in_wave = record.phase is RolloutPhase.PROGRESSING and is_counted
    has_failed = is_in_wave and len(movable.find_failed()) > policy.max_failed
    if can_go_back and (is_undone or (has_failed and policy.goes_back)):
        record = dataclasses.replace(record, phase=RolloutPhase.ROLLING_BACK, wave=0, ready_since=None)
    elif has_failed:
        record = dataclasses.replace(record, phase=RolloutPhase.STOPPED, ready_since=None)
    match record.phase:
        case RolloutPhase.ROLLING_BACK:
            return go_back(decision, record, policy, movable)
        case RolloutPhase.STOPPED | RolloutPhase.ROLLED_BACK:
            return dataclasses.replace(decision, record=record, wave=find_name(movable, record))
        case RolloutPhase.COMPLETE:
            return follow(decision, record, policy, movable)
        case RolloutPhase.PROGRESSING | RolloutPhase.PAUSED:
            if requests.is_paused:
                paused = dataclasses.replace(record, phase=RolloutPhase.PAUSED)
                return dataclasses.replace(decision, record=paused, wave=find_name(movable, record))
            return go_on(decision, record, policy, movable, requests=requests, now=now)


def go_on(
    decision: RolloutDecision,
    record: RolloutRecord,
    policy: RolloutPolicy,
    movable: Movable,
    *,
    requests: RolloutRequests,
    now: float,
) -> RolloutDecision:
    """Move what may move in the present wave, or begin the next one."""
    while record.wave < len(movable.waves):
        wave = movable.waves[record.wave]
        pending = [each for each in wave if each.revision != movable.newest]
        is_done = not pending and all(each.health is Health.WELL or is_failed(each, movable.newest) for each in wave)
        name = movable.names[record.wave]
        if not is_done:
            record = dataclasses.replace(record, ready_since=None)
            has_begun = len(pending) < len(wave)
            if pending and not has_begun and policy.window is not None and not policy.window.is_open(now):
                return dataclasses.replace(decision, record=record, wave=name, is_window_closed=True, due=60.0)
            moves = choose_moves(policy, wave, pending, movable.newest)
            return dataclasses.replace(decision, record=record, wave=name, moves={**decision.moves, **moves})
        has_successor = any(movable.waves[record.wave + 1 :])
        if wave and has_successor and policy.pause and requests.promote != f"{record.revision}/{name}":
            since = record.ready_since if record.ready_since is not None else now
            if (left := since + policy.pause - now) > 0:
                record = dataclasses.replace(record, ready_since=since)
                return dataclasses.replace(decision, record=record, wave=name, due=left)
        record = dataclasses.replace(record, wave=record.wave + 1, ready_since=None)
    complete = dataclasses.replace(record, phase=RolloutPhase.COMPLETE, completed=record.revision)
    return dataclasses.replace(decision, record=complete)


def choose_moves(
    policy: RolloutPolicy, wave: Sequence[InstanceState], pending: Sequence[InstanceState], newest: int
) -> dict[str, int]:
    """Return which instances of a wave are moved now."""
    if policy.strategy == rollout_policy.MANUAL:
        return {each.uid: newest for each in pending if each.promoted == newest}
    if policy.strategy == rollout_policy.ALL_AT_ONCE:
        return dict.fromkeys((each.uid for each in pending), newest)
    limit = rolling_batches.find_batch_size(policy.max_unavailable, members=len(wave))
    # Those that failed and may fail would keep all others waiting for ever.
    busy = sum(each.revision == newest and each.health is Health.WORKING for each in wave)
    return dict.fromkeys((each.uid for each in pending[: max(0, limit - busy)]), newest)


def go_back(
    decision: RolloutDecision, record: RolloutRecord, policy: RolloutPolicy, movable: Movable
) -> RolloutDecision:
    """Move back what has the newest revision, no more at a time than forward; those that failed first."""
    moved = [each for each in movable.all() if each.revision == movable.newest]
    back = [each for each in movable.all() if each.revision == record.completed]
    if not moved:
        is_done = all(each.health is not Health.WORKING for each in back)
        phase = RolloutPhase.ROLLED_BACK if is_done else RolloutPhase.ROLLING_BACK
        return dataclasses.replace(decision, record=dataclasses.replace(record, phase=phase))
    moved.sort(key=lambda each: each.health is Health.WELL)
    limit = rolling_batches.find_batch_size(policy.max_unavailable, members=len(moved) + len(back))
    busy = sum(each.health is Health.WORKING for each in back)
    moves = dict.fromkeys((each.uid for each in moved[: max(0, limit - busy)]), record.completed)
    return dataclasses.replace(decision, record=record, moves={**decision.moves, **moves})


def follow(
    decision: RolloutDecision, record: RolloutRecord, policy: RolloutPolicy, movable: Movable
) -> RolloutDecision:
    """Move what was held until now, after the rollout completed."""
    late = [each for each in movable.all() if each.revision != movable.newest]
    if policy.strategy == rollout_policy.MANUAL:
        late = [each for each in late if each.promoted == movable.newest]
    moves = dict.fromkeys((each.uid for each in late), movable.newest)
    return dataclasses.replace(decision, record=record, moves={**decision.moves, **moves})


def find_name(movable: Movable, record: RolloutRecord) -> str:
    """Return the name of the present wave."""
    return movable.names[record.wave] if record.wave < len(movable.names) else ""
