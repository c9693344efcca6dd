"""The signed record in a status: bound to its Stack, the key and all of its fields; and the record of suspending and
resuming.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.target import target_choice, target_status
from hearth.plan.target.target import SuspendTransition, Target, TargetCause
from hearth.plan.target.target_choice import TargetChoice, TargetContext

# ---------------------------------------------------------------- fields under the signature

HASHES = KeyedHasher(b"k" * 32)
STORED_TARGET = {"revision": 3, "cause": "Spec", "since": "2026-01-01T00:00:00Z"}
STATUS = target_status.sign(
    {"phase": "UpdateComplete", "target": STORED_TARGET, "lastCompletedRevision": 3, "handled": {"retry": "1"}},
    uid="u",
    hashes=HASHES,
)


def test_what_was_signed_is_read() -> None:
    assert target_status.read_memory(STATUS, uid="u", hashes=HASHES) == {
        "target": STORED_TARGET,
        "lastCompletedRevision": 3,
        "handled": {"retry": "1"},
    }


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"target": {**STORED_TARGET, "revision": 2}}, id="another target"),
        pytest.param({"target": {**STORED_TARGET, "completed": True}}, id="more in the target"),
        pytest.param({"lastCompletedRevision": 2}, id="another number"),
        pytest.param({"lastFailedRevision": 2}, id="another field"),
        pytest.param({"handled": {}}, id="less"),
        pytest.param({"historyUnknown": True}, id="a flag"),
        pytest.param({"check": {"found": 0}}, id="a check"),
        pytest.param({"signature": ""}, id="an empty signature"),
        pytest.param({"signature": 7}, id="no text"),
        pytest.param({"signature": HASHES.hash(["u", {}])}, id="a hash"),
        pytest.param({"handled": {1: 2}}, id="no JSON"),
        pytest.param({"target": float("nan")}, id="no number"),
        pytest.param({"target": 2**70}, id="a huge number"),
    ],
)
def test_what_was_changed_is_lost(changes: dict[str, Any]) -> None:
    assert target_status.read_memory({**STATUS, **changes}, uid="u", hashes=HASHES) is None


def test_another_stack_and_another_key_do_not_count() -> None:
    unsigned = {key: value for key, value in STATUS.items() if key != "signature"}
    assert target_status.read_memory(STATUS, uid="v", hashes=HASHES) is None
    assert target_status.read_memory(STATUS, uid="u", hashes=KeyedHasher(b"o" * 32)) is None
    assert target_status.read_memory(unsigned, uid="u", hashes=HASHES) is None


def test_other_fields_may_change() -> None:
    changed = {**STATUS, "phase": "forged", "outputs": {"a": 1}, "conditions": []}
    memory = target_status.read_memory(STATUS, uid="u", hashes=HASHES)
    assert target_status.read_memory(changed, uid="u", hashes=HASHES) == memory


# ---------------------------------------------------------------- suspending and resuming

TARGET = Target(revision=3, cause=TargetCause.SPEC, since=100.0, is_completed=True)
SUSPENDING = SuspendTransition(is_suspended=True, since=200.0)
SUSPENDED = dataclasses.replace(SUSPENDING, is_completed=True)
RESUMING = SuspendTransition(is_suspended=False, since=200.0)
RESUMED = dataclasses.replace(RESUMING, is_completed=True)


def having(transition: SuspendTransition | None, **more: object) -> Target:
    """The target with that transition."""
    return dataclasses.replace(TARGET, suspend=transition, **more)  # type: ignore[arg-type]  # mypy cannot type keyword arguments of several fields


@pytest.mark.parametrize(
    ("transition", "is_suspended", "expected"),
    [
        pytest.param(None, False, None, id="never suspended"),
        pytest.param(None, True, SUSPENDING, id="suspended now"),
        pytest.param(SUSPENDED, True, SUSPENDED, id="suspended before"),
        pytest.param(SUSPENDED, False, RESUMING, id="resumed now"),
        pytest.param(SUSPENDING, False, RESUMING, id="taken back half-way"),
        pytest.param(RESUMED, False, RESUMED, id="resumed before"),
        pytest.param(RESUMED, True, SUSPENDING, id="suspended again"),
    ],
)
def test_the_turn_follows_the_spec(
    transition: SuspendTransition | None, is_suspended: bool, expected: SuspendTransition | None
) -> None:
    assert target_choice.follow_suspend(having(transition), is_suspended=is_suspended, now=200.7).suspend == expected


def test_a_rollback_that_was_ordered_meanwhile_is_called_so() -> None:
    ordered = having(SUSPENDED, cause=TargetCause.ROLLBACK, is_completed=False)
    assert target_choice.follow_suspend(ordered, is_suspended=False, now=300.0).suspend is None
    assert target_choice.follow_suspend(ordered, is_suspended=False, now=300.0).since == 300.0
    reached = having(SUSPENDED, cause=TargetCause.ROLLBACK)
    assert target_choice.follow_suspend(reached, is_suspended=False, now=200.0).suspend == RESUMING


@pytest.mark.parametrize(
    ("transition", "is_completed", "expected"),
    [
        pytest.param(None, False, 100.0, id="the target itself"),
        pytest.param(None, True, None, id="nothing"),
        pytest.param(SUSPENDING, True, 200.0, id="suspending"),
        pytest.param(SUSPENDED, False, None, id="suspended: no time runs for what waits"),
        pytest.param(RESUMING, False, 200.0, id="resuming, the target with it"),
        pytest.param(RESUMED, True, None, id="resumed"),
    ],
)
def test_what_is_being_done_has_its_own_time(
    transition: SuspendTransition | None, is_completed: bool, expected: float | None
) -> None:
    assert having(transition, is_completed=is_completed).started_at == expected


@pytest.mark.parametrize(
    ("transition", "cause", "expected"),
    [
        pytest.param(SUSPENDED, TargetCause.SPEC, SUSPENDED, id="an edit while suspended"),
        pytest.param(SUSPENDED, TargetCause.ROLLBACK, SUSPENDED, id="an order while suspended"),
        pytest.param(RESUMING, TargetCause.SPEC, RESUMING, id="an edit while it is resumed"),
        pytest.param(RESUMING, TargetCause.AUTOMATIC, None, id="a rollback while it is resumed"),
        pytest.param(RESUMED, TargetCause.SPEC, None, id="an edit later"),
    ],
)
def test_what_another_target_keeps_of_it(
    transition: SuspendTransition, cause: TargetCause, expected: SuspendTransition | None
) -> None:
    begun = target_choice.start_target(
        TargetChoice(cause=cause), revision=4, before=having(transition), context=TargetContext(now=300.0)
    )
    assert begun.suspend == expected


@pytest.mark.parametrize("transition", [None, SUSPENDING, SUSPENDED, RESUMED])
def test_the_status_tells_all_of_it(transition: SuspendTransition | None) -> None:
    assert target_status.decode(target_status.encode(having(transition))) == having(transition)


def test_time_starts_again_for_what_is_being_done_alone() -> None:
    restarted = target_choice.restart_timeout(having(SUSPENDING), now=500.0)
    assert (restarted.since, restarted.suspend) == (100.0, dataclasses.replace(SUSPENDING, since=500.0))
    assert target_choice.restart_timeout(having(SUSPENDED), now=500.0) == having(SUSPENDED)
    assert target_choice.restart_timeout(having(None, is_completed=False), now=500.0).since == 500.0
