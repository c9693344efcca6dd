"""The newest state of each object wins, whether it comes from an event, a list or the response to Hearth's own write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from hearth.kube.cache.object_store import ObjectStore
from hearth.model.child import Object
from support.units.scripted_api.scripted_watch import make_object


@dataclass(frozen=True, slots=True)
class Entry:
    """A minimal record."""

    uid: str
    resource_version: int


class Keeper:
    """An owner that counts and records changes."""

    def __init__(self) -> None:
        self.store: ObjectStore[Entry] = ObjectStore(self)
        self.parsed = 0
        self.heard: list[str] = []

    def parse(self, raw: Object) -> Entry:
        """Its uid and version."""
        self.parsed += 1
        return Entry(raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"]))

    def replace(self, old: Entry | None, new: Entry | None, *, is_ours: bool) -> None:
        """Record `a: 1 → 2`."""
        before, after = (None if entry is None else entry.resource_version for entry in (old, new))
        uid = next(entry.uid for entry in (old, new) if entry is not None)
        self.heard.append(f"{uid}: {before} → {after}{' (ours)' if is_ours else ''}")

    def complete(self) -> None:
        """Record the completion."""
        self.heard.append("complete")

    @property
    def versions(self) -> dict[str, int]:
        """The versions of the cached objects."""
        return {uid: entry.resource_version for uid, entry in self.store.records.items()}

    def list(self, version: int | None, *raws: Object) -> None:
        """Feed a full set."""
        self.store.on_list_started()
        for raw in raws:
            self.store.on_object(raw)
        self.store.on_synced(version)


@pytest.fixture
def keeper() -> Keeper:
    """A store with `a` at version 10 and `b` at 20, from a list at 30."""
    keeper = Keeper()
    keeper.list(30, make_object("a", 10), make_object("b", 20))
    keeper.heard.clear()
    keeper.parsed = 0
    return keeper


def test_events_bring_new_states(keeper: Keeper) -> None:
    keeper.store.on_object(make_object("a", 31))
    keeper.store.on_object(make_object("c", 32))
    keeper.store.on_deleted(make_object("b", 33))
    assert keeper.heard == ["a: 10 → 31", "c: None → 32", "b: 20 → None"]


@pytest.mark.parametrize("version", [9, 10], ids=["older", "the same"])
def test_a_state_that_is_not_newer_is_not_even_parsed(keeper: Keeper, version: int) -> None:
    keeper.store.on_object(make_object("a", version))
    assert (keeper.parsed, keeper.heard) == (0, [])


def test_the_answer_to_our_write_is_taken_in_and_its_event_is_not(keeper: Keeper) -> None:
    keeper.store.record_write(make_object("a", 31), passed=30)
    keeper.store.on_object(make_object("a", 31))
    assert keeper.heard == ["a: 10 → 31 (ours)"]


def test_an_answer_that_comes_after_a_newer_event_changes_nothing(keeper: Keeper) -> None:
    keeper.store.on_object(make_object("a", 32))
    entry = keeper.store.record_write(make_object("a", 31), passed=32)
    assert (entry.resource_version, keeper.versions["a"]) == (31, 32)


def test_an_answer_that_comes_after_its_objects_deletion_does_not_bring_it_back(keeper: Keeper) -> None:
    keeper.store.on_object(make_object("c", 31))
    keeper.store.on_deleted(make_object("c", 32))
    keeper.store.record_write(make_object("c", 31), passed=32)
    assert "c" not in keeper.versions


def test_a_deletion_of_ours_is_done_at_once_and_late_events_do_not_undo_it(keeper: Keeper) -> None:
    keeper.store.forget("a")
    keeper.store.on_object(make_object("a", 31))
    keeper.store.record_write(make_object("a", 31), passed=30)
    keeper.store.on_deleted(make_object("a", 32))
    assert keeper.heard == ["a: 10 → None (ours)"]


def test_what_was_forgotten_is_remembered_no_longer_than_needed(keeper: Keeper) -> None:
    for uid in ("a", "b"):
        keeper.store.forget(uid)
    keeper.store.on_deleted(make_object("a", 31))
    keeper.store.on_object(make_object("a", 32))
    assert keeper.versions == {"a": 32}
    keeper.list(33)
    keeper.store.on_object(make_object("b", 34))
    assert keeper.versions == {"b": 34}


def test_a_list_from_before_our_deletion_does_not_undo_it(keeper: Keeper) -> None:
    keeper.store.forget("a")
    keeper.list(31, make_object("a", 10), make_object("b", 20))
    keeper.store.on_object(make_object("a", 32))
    assert keeper.versions == {"b": 20}


def test_what_was_deleted_before_we_forgot_it_leaves_nothing_behind(keeper: Keeper) -> None:
    keeper.store.on_deleted(make_object("a", 31))
    keeper.store.forget("a")
    keeper.store.on_object(make_object("a", 32))
    assert keeper.versions["a"] == 32


def test_a_list_shows_what_went_while_unobserved(keeper: Keeper) -> None:
    keeper.list(40, make_object("b", 20))
    assert keeper.heard == ["a: 10 → None", "complete"]


def test_a_list_that_is_broken_off_takes_nothing_away(keeper: Keeper) -> None:
    keeper.store.on_list_started()
    keeper.store.on_object(make_object("b", 20))
    keeper.list(40, make_object("a", 10), make_object("b", 20))
    assert keeper.versions == {"a": 10, "b": 20}


def test_a_list_says_nothing_about_what_we_wrote_after_it(keeper: Keeper) -> None:
    keeper.store.on_list_started()
    keeper.store.record_write(make_object("c", 45), passed=0)
    keeper.store.record_write(make_object("b", 44), passed=0)
    keeper.store.on_object(make_object("b", 20))
    keeper.store.on_synced(40)
    assert keeper.versions == {"b": 44, "c": 45}


def test_what_is_deleted_during_a_list_is_gone_after_it(keeper: Keeper) -> None:
    keeper.store.on_list_started()
    for raw in (make_object("a", 10), make_object("b", 20)):
        keeper.store.on_object(raw)
    keeper.store.on_deleted(make_object("a", 39))
    keeper.store.on_synced(40)
    assert keeper.versions == {"b": 20}


def test_a_label_that_went_and_came_back_leaves_the_object_here(keeper: Keeper) -> None:
    keeper.store.record_write(make_object("a", 32), passed=30)
    keeper.store.on_deleted(make_object("a", 31))
    keeper.store.on_object(make_object("a", 32))
    assert keeper.heard == ["a: 10 → 32 (ours)"]


RESTORED: list[tuple[int | None, Iterable[Object], dict[str, int]]] = [
    (None, [make_object("a", 5)], {"a": 5}),
    (25, [make_object("a", 5), make_object("b", 20)], {"a": 5, "b": 20}),
]


@pytest.mark.parametrize(("version", "shown", "expected"), RESTORED, ids=["noticed at once", "noticed by the object"])
def test_a_restored_store_is_believed(
    keeper: Keeper, version: int | None, shown: Iterable[Object], expected: dict[str, int]
) -> None:
    keeper.list(version, *shown)
    assert keeper.versions == expected


def test_a_restored_store_may_hold_what_we_deleted(keeper: Keeper) -> None:
    keeper.store.forget("a")
    keeper.list(None, make_object("a", 5))
    assert keeper.versions == {"a": 5}


def test_outdated_records_are_made_again_from_the_same_version(keeper: Keeper) -> None:
    keeper.store.invalidate()
    keeper.list(40, make_object("a", 10), make_object("b", 20))
    keeper.list(41, make_object("a", 10), make_object("b", 20))
    assert keeper.parsed == 2


def test_an_event_of_a_known_state_needs_no_parsing(keeper: Keeper) -> None:
    keeper.store.record_write(make_object("a", 31), passed=30)
    keeper.store.forget("b")
    assert keeper.store.is_known((b"MODIFIED", "a", 31))
    assert keeper.store.is_known((b"MODIFIED", "a", 10))
    assert keeper.store.is_known((b"DELETED", "b", 32))
    # The deletion was processed. No other object can have that UID.
    assert not keeper.store.is_known((b"DELETED", "b", 32))


@pytest.mark.parametrize(
    "event", [(b"MODIFIED", "a", 32), (b"ADDED", "c", 33), (b"DELETED", "a", 34), (b"DELETED", "c", 35)]
)
def test_an_event_that_may_be_news_is_parsed(keeper: Keeper, event: tuple[bytes, str, int]) -> None:
    assert not keeper.store.is_known(event)


def test_every_event_is_parsed_where_records_are_made_anew(keeper: Keeper) -> None:
    keeper.store.on_list_started()
    assert not keeper.store.is_known((b"ADDED", "a", 10))
    keeper.store.on_object(make_object("a", 10))
    keeper.store.on_synced(40)
    assert keeper.store.is_known((b"MODIFIED", "a", 10))
    keeper.store.invalidate()
    assert not keeper.store.is_known((b"MODIFIED", "a", 10))
