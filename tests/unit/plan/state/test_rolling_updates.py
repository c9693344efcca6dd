"""The members of a collection that may change now: batches, the minimum in service, pauses, restarts."""

from __future__ import annotations

from hearth.plan.state.rolling_updates import BatchEnd, PendingChange, RollingUpdate, continue_update
from hearth.template.blueprint import RollingPolicy

IN_SERVICE = PendingChange(is_available=True, is_outdated=True)
BROKEN = PendingChange(is_available=False, is_outdated=True)
MARKED = PendingChange(is_available=False, is_outdated=False)


def make(members: int = 4, *, batch: int = 2, ready: int = 0, pause: float = 0.0, **known: object) -> RollingUpdate:
    """A rolling update of members `0`, `1` and so on; all of them wait for their change."""
    names = tuple(map(str, range(members)))
    policy = RollingPolicy(collection="member", members=names, max_batch=batch, min_ready=ready, pause=pause)
    update = RollingUpdate(policy=policy, **known)  # type: ignore[arg-type]
    for name in names:
        update.note_waiting(name, IN_SERVICE)
    return update


def test_a_batch_follows_when_the_last_one_is_ready() -> None:
    update = make()
    assert update.choose(now=0) == ["0", "1"]
    update.note_settled("0")
    assert update.choose(now=1) == []
    update.note_unsettled("1")
    assert update.choose(now=2) == []
    update.note_settled("1")
    assert update.choose(now=3) == ["2", "3"]


def test_a_member_of_the_batch_may_start_its_change() -> None:
    update = make()
    update.choose(now=0)
    assert update.note_waiting("0", IN_SERVICE)
    assert not update.note_waiting("2", IN_SERVICE)


def test_enough_members_stay_in_service() -> None:
    update = make(batch=4, ready=3)
    assert update.choose(now=0) == ["0"]
    update.note_settled("0")
    assert update.choose(now=1) == ["1"]


def test_a_member_out_of_service_does_not_count_and_goes_first() -> None:
    update = make(batch=2, ready=4)
    update.note_waiting("2", BROKEN)
    assert update.choose(now=0) == ["2"]
    update.note_settled("2")
    assert update.choose(now=1) == []
    assert update.needs_surge


def test_nothing_starts_before_all_members_are_known() -> None:
    policy = RollingPolicy(collection="member", members=("0", "1"), max_batch=1)
    update = RollingUpdate(policy=policy)
    update.note_waiting("1", IN_SERVICE)
    assert update.choose(now=0) == []
    update.note_waiting("0", IN_SERVICE)
    assert update.choose(now=0) == ["0"]


def test_a_member_that_is_not_ready_stops_the_update() -> None:
    update = make()
    update.note_unsettled("0")
    assert update.choose(now=0) == []
    update.note_settled("0")
    assert update.choose(now=1) == ["1", "2"]


def test_the_pause_counts_from_the_end_of_the_batch() -> None:
    update = make(batch=2, pause=30)
    update.choose(now=0)
    update.note_settled("0")
    update.note_settled("1")
    assert update.choose(now=10) == []
    assert update.find_due(now=10) == 40
    assert update.choose(now=39.9) == []
    assert update.choose(now=40) == ["2", "3"]
    assert update.find_due(now=40) is None


def test_a_marked_member_is_replaced_within_the_pause() -> None:
    update = make(batch=1, pause=30)
    update.choose(now=0)
    update.note_settled("0")
    update.note_waiting("3", MARKED)
    assert update.choose(now=1) == ["3"]


def test_a_restart_in_a_batch_takes_it_up() -> None:
    update = make(batch=2, pause=30, is_resumed=True)
    update.note_unsettled("0")
    update.note_settled("1")
    assert update.choose(now=5) == []
    update.note_settled("0")
    assert update.choose(now=6) == []
    assert update.find_due(now=6) == 36
    assert update.choose(now=36) == ["2", "3"]


def test_a_restart_in_a_pause_keeps_its_end() -> None:
    last = BatchEnd(collection="member", since=100, updated=2)
    update = make(batch=2, pause=30, is_resumed=True, last_end=last)
    update.note_settled("0")
    update.note_settled("1")
    assert update.choose(now=120) == []
    assert update.choose(now=130) == ["2", "3"]


def test_an_end_that_was_not_recorded_pauses_again() -> None:
    last = BatchEnd(collection="member", since=100, updated=1)
    update = make(batch=1, pause=30, is_resumed=True, last_end=last)
    update.note_settled("0")
    update.note_settled("1")
    assert update.choose(now=135) == []
    assert update.choose(now=165) == ["2"]


def test_an_update_starts_without_a_pause() -> None:
    update = make(batch=2, pause=30)
    update.note_settled("3")
    assert update.choose(now=0) == ["0", "1"]


def test_a_broken_member_that_must_not_change_is_not_in_service() -> None:
    update = make(batch=2, ready=2)
    update.note_settled("0", is_available=False)
    assert update.choose(now=0) == ["1"]
    update.note_settled("1")
    update.note_settled("0")
    assert update.choose(now=1) == ["2", "3"]


def proceed(before: RollingUpdate, *, settled: str, waiting: str, missing: str = "") -> RollingUpdate:
    """The update as the next planner of the process continues it, with the members at that time."""
    names = tuple(sorted(settled + waiting + missing))
    policy = RollingPolicy(collection="member", members=names, max_batch=2, pause=before.policy.pause)
    update = continue_update(policy, before, end=before.last_end, is_resumed=False)
    for name in settled:
        update.note_settled(name)
    for name in waiting:
        update.note_waiting(name, IN_SERVICE)
    for name in missing:
        update.note_unsettled(name)
    return update


def make_paused() -> RollingUpdate:
    """An update of four members whose first two are done, in the pause after that."""
    update = make(pause=60)
    update.choose(now=0)
    update.note_settled("0")
    update.note_settled("1")
    update.choose(now=5)
    return update


def test_a_template_that_is_changed_back_does_not_wait_for_the_pause() -> None:
    back = proceed(make_paused(), settled="23", waiting="01")
    assert back.choose(now=6) == ["0", "1"]


def test_a_template_that_is_changed_back_within_a_batch_starts_with_a_batch() -> None:
    update = make(pause=60, last_end=BatchEnd(collection="member", since=0, updated=4))
    update.choose(now=5)
    assert proceed(update, settled="23", waiting="01").choose(now=6) == ["0", "1"]


def test_another_size_keeps_the_pause() -> None:
    assert proceed(make_paused(), settled="01", waiting="23", missing="4").choose(now=6) == []
    removed = proceed(make_paused(), settled="45", waiting="23")
    assert removed.choose(now=6) == []
    assert removed.choose(now=65) == ["2", "3"]


def test_another_size_within_the_first_batch_keeps_the_pause_after_it() -> None:
    update = make(pause=60)
    update.choose(now=0)
    resized = proceed(update, settled="014", waiting="23")
    assert resized.choose(now=5) == []
    assert resized.choose(now=65) == ["2", "3"]
