"""The decisions about a StackSnapshot, step by step, without a cluster."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.plan import snapshot_decision
from hearth.plan.snapshot_decision import (
    ObservedStack,
    ObservedVolume,
    ParsedSnapshot,
    SnapshotDecision,
    SnapshotMemory,
    SnapshotPhase,
    SnapshotProblem,
    SnapshotVolume,
    VolumeState,
)
from hearth.plan.status import conditions

NOW = 1_000.0
VOLUME = SnapshotVolume(claim="shop-data", namespace="default", resource="data", snapshot="before-x")
READY = dataclasses.replace(VOLUME, uid="v1", is_ready=True)
BOUND = SnapshotMemory(phase=SnapshotPhase.IN_PROGRESS, stack_uid="u1", revision=3, volumes=(VOLUME,))
STACK = ObservedStack(uid="u1", revision=3, claims=(VOLUME,))


def make(memory: SnapshotMemory | None = None, **more: Any) -> ParsedSnapshot:
    """A StackSnapshot of Stack shop."""
    snapshot = ParsedSnapshot(
        name="before",
        owner="Stack shop",
        generation=1,
        is_deleting=False,
        has_finalizer=True,
        retains=False,
        status={},
        memory=memory or SnapshotMemory(),
    )
    return dataclasses.replace(snapshot, **more)


def summarize(decision: SnapshotDecision) -> tuple[str, str]:
    """The phase and the reason that are written."""
    assert decision.status is not None
    return decision.status["phase"], conditions.find(decision.status, "Ready")["reason"]


def progress(
    state: VolumeState, *, memory: SnapshotMemory = BOUND, stack: ObservedStack = STACK, volume: SnapshotVolume = VOLUME
) -> SnapshotDecision:
    """The decision on a bound snapshot of one volume in that state."""
    observed = (ObservedVolume(volume=volume, state=state, message="why"),)
    return snapshot_decision.decide_progress(make(memory), stack, observed, now=NOW)


def test_a_snapshot_waits_until_it_can_be_bound() -> None:
    problem = ObservedStack(problem=SnapshotProblem(reason="StackNotComplete", message="later"))
    decision = snapshot_decision.decide_binding(make(), problem, now=NOW)
    assert summarize(decision) == ("InProgress", "StackNotComplete")
    assert "revision" not in (decision.status or {})


def test_the_finalizer_comes_before_the_binding() -> None:
    snapshot = make(has_finalizer=False)
    assert snapshot_decision.decide_binding(snapshot, STACK, now=NOW) == SnapshotDecision(add_finalizer=True)
    without = dataclasses.replace(STACK, claims=())
    assert summarize(snapshot_decision.decide_binding(snapshot, without, now=NOW)) == ("Complete", "Complete")


def test_the_binding_names_all_before_anything_is_created() -> None:
    decision = snapshot_decision.decide_binding(make(), STACK, now=NOW)
    assert (decision.create, decision.status is not None) == ((), True)
    assert snapshot_decision.decode(decision.status or {}) == BOUND


@pytest.mark.parametrize(
    ("state", "volume", "expected"),
    [
        (VolumeState.PENDING, VOLUME, ("InProgress", "VolumeSnapshotsNotReady")),
        (VolumeState.UNKNOWN, VOLUME, ("InProgress", "VolumeSnapshotsNotReady")),
        (VolumeState.READY, READY, ("Complete", "Complete")),
        (VolumeState.FAILED, VOLUME, ("Failed", "VolumeSnapshotFailed")),
        (VolumeState.OTHER, VOLUME, ("Failed", "NameTaken")),
        (VolumeState.OTHER, READY, ("Failed", "VolumeSnapshotLost")),
        (VolumeState.ABSENT, READY, ("Failed", "VolumeSnapshotLost")),
    ],
)
def test_the_phase_follows_from_the_volumes(
    state: VolumeState, volume: SnapshotVolume, expected: tuple[str, str]
) -> None:
    assert summarize(progress(state, volume=volume)) == expected


def test_a_volume_that_never_existed_is_created() -> None:
    assert progress(VolumeState.ABSENT) == SnapshotDecision(create=(VOLUME,))
    gone = ObservedStack(is_gone=True)
    assert summarize(progress(VolumeState.ABSENT, stack=gone)) == ("Failed", "StackDeleted")
    trimmed = ObservedStack(has_revision=False)
    assert summarize(progress(VolumeState.ABSENT, stack=trimmed)) == ("Failed", "RevisionNotFound")


def test_a_complete_snapshot_stays_complete() -> None:
    memory = dataclasses.replace(BOUND, phase=SnapshotPhase.COMPLETE, volumes=(READY,))
    decision = snapshot_decision.decide_progress(make(memory), ObservedStack(is_gone=True), (), now=NOW)
    assert summarize(decision) == ("Complete", "Complete")
    assert snapshot_decision.decode(decision.status or {}) == memory


@pytest.mark.parametrize(
    ("state", "volume", "expected"),
    [
        (VolumeState.READY, READY, ("Complete", "Complete")),
        (VolumeState.PENDING, READY, ("Complete", "Complete")),
        (VolumeState.FAILED, READY, ("Complete", "Complete")),
        (VolumeState.ABSENT, VOLUME, ("InProgress", "VolumeSnapshotsNotFound")),
        (VolumeState.OTHER, VOLUME, ("InProgress", "VolumeSnapshotsNotFound")),
        (VolumeState.UNKNOWN, VOLUME, ("InProgress", "VolumeSnapshotsNotFound")),
        (VolumeState.FAILED, VOLUME, ("InProgress", "VolumeSnapshotsNotFound")),
    ],
)
def test_a_restored_snapshot_is_complete_once_its_volumes_exist(
    state: VolumeState, volume: SnapshotVolume, expected: tuple[str, str]
) -> None:
    memory = dataclasses.replace(BOUND, phase=SnapshotPhase.COMPLETE)
    observed = (ObservedVolume(volume=volume, state=state, message="why"),)
    decision = snapshot_decision.decide_restored(make(memory, is_restored=True), STACK, observed, now=NOW)
    assert summarize(decision) == expected
    assert ("revision" in (decision.status or {})) == (expected[0] == "Complete")


def test_what_is_missing_is_said() -> None:
    stack = dataclasses.replace(STACK, claims=(), warnings=("the data of shop-data is not included",))
    decision = snapshot_decision.decide_binding(make(), stack, now=NOW)
    message = conditions.find(decision.status or {}, "Ready")["message"]
    assert "no volumes; the data of shop-data is not included" in message


def test_a_deletion_takes_its_own_volumes_first() -> None:
    ours = ObservedVolume(volume=READY, state=VolumeState.READY)
    going = dataclasses.replace(ours, is_deleting=True)
    unknown = ObservedVolume(volume=READY, state=VolumeState.UNKNOWN, message="forbidden")
    other = ObservedVolume(volume=READY, state=VolumeState.OTHER)
    free = SnapshotDecision(remove_finalizer=True)
    snapshot = make(BOUND, is_deleting=True)

    def decide(snapshot: ParsedSnapshot, *volumes: ObservedVolume, is_end: bool = False) -> SnapshotDecision:
        return snapshot_decision.decide_deletion(snapshot, volumes, is_namespace_terminating=is_end, now=NOW)

    assert decide(snapshot, ours, other) == SnapshotDecision(delete=(READY,))
    assert decide(snapshot, other) == decide(snapshot) == free
    assert decide(dataclasses.replace(snapshot, retains=True), ours) == free
    assert decide(snapshot, unknown, is_end=True) == free
    for blocked in (going, unknown):
        assert summarize(decide(snapshot, blocked)) == ("InProgress", "Deleting")
    assert "forbidden" in conditions.find(decide(snapshot, unknown).status or {}, "Ready")["message"]


@pytest.mark.parametrize("phase", list(SnapshotPhase))
def test_what_is_read_back_is_what_was_written(phase: SnapshotPhase) -> None:
    of_set = dataclasses.replace(READY, is_of_stateful_set=True)
    memory = dataclasses.replace(BOUND, phase=phase, account="deployer", volumes=(READY, of_set), warnings=("x",))
    assert snapshot_decision.decode({"phase": str(phase), **snapshot_decision.encode(memory)}) == memory
