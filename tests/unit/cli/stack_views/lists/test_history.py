"""The history of a Stack: Events, revisions and deletions in one order, revisions in rows, and differences
between two.
"""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views.lists import event_timeline, revision_history
from hearth.cli.stack_views.lists.event_timeline import TimelineEntry
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model.kinds import Kind

CONFIG = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
SHOP = StackObjects(stack=StackState({}), template={}, children=[])


def make_event(uid: str, **fields: Any) -> dict[str, Any]:
    about = {"uid": uid, "kind": "Pod", "name": "web-1", "apiVersion": "v1"}
    return {"involvedObject": about, "type": "Warning", "reason": "BackOff", "message": "a\nb"} | fields


@pytest.mark.parametrize(
    ("fields", "time"),
    [
        pytest.param({"lastTimestamp": "1970-01-01T00:00:05Z"}, 5.0, id="old form"),
        pytest.param({"lastTimestamp": None, "eventTime": "1970-01-01T00:00:06.5Z"}, 6.5, id="new form"),
        pytest.param({"series": {"lastObservedTime": "1970-01-01T00:00:07Z", "count": 3}}, 7.0, id="a series"),
    ],
)
def test_an_event_of_any_form_has_its_time(fields: dict[str, Any], time: float) -> None:
    (entry,) = event_timeline.describe_events([make_event("u-1", **fields)], {"u-1": ""}, SHOP)

    assert entry.time == time
    assert (entry.object, entry.message) == ("pod/web-1", "a b")


def test_events_about_other_objects_are_left_out() -> None:
    event = make_event("u-2", lastTimestamp="1970-01-01T00:00:05Z")

    assert list(event_timeline.describe_events([event], {"u-1": ""}, SHOP)) == []


def test_objects_of_nested_stacks_belong_to_it() -> None:
    inner = StackObjects(
        stack=StackState({"metadata": {"uid": "u-2"}}),
        template={},
        children=[FoundChild(CONFIG, {"metadata": {"uid": "u-3", "labels": {"hearth.dev/resource": "db"}}})],
    )
    cache = FoundChild(CONFIG, {"metadata": {"uid": "u-2", "labels": {"hearth.dev/resource": "cache"}}})
    stack = StackState({"metadata": {"uid": "u-1"}})
    snapshot = StackObjects(stack=stack, template={}, children=[cache], nested={"u-2": inner})

    assert event_timeline.list_uids(snapshot) == {"u-1": "", "u-2": "cache", "u-3": "cache/db"}


def test_the_latest_is_last_and_older_ones_are_left_out() -> None:
    def at(time: float, type_: str = "Normal") -> TimelineEntry:
        return TimelineEntry(time=time, type=type_, reason="R", object="pod/a", message="m")

    entries = [at(3.0), at(1.0), at(2.0, "Warning")]

    assert [each.time for each in event_timeline.sort(entries, since=2.0, only_warnings=False)] == [2.0, 3.0]
    assert [each.time for each in event_timeline.sort(entries, since=None, only_warnings=True)] == [2.0]


def test_a_revision_is_an_entry_with_its_author() -> None:
    metadata = {"creationTimestamp": "1970-01-01T00:00:09Z", "annotations": {"hearth.dev/author": "ci"}}

    (entry,) = event_timeline.describe_revisions({4: {"metadata": metadata}}, "stack/shop")

    assert (entry.time, entry.message) == (9.0, "revision 4 stored by ci")


# ---------------------------------------------------------------- revisions

STATUS = {
    "target": {"revision": 3, "cause": "Rollback"},
    "lastCompletedRevision": 4,
    "previousCompletedRevision": 3,
    "lastFailedRevision": 2,
}


@pytest.mark.parametrize(
    ("number", "state"), [(1, ""), (2, "failed"), (3, "active, rolled back to, completed"), (4, "completed")]
)
def test_what_became_of_a_revision(number: int, state: str) -> None:
    assert revision_history.describe_state(number, StackState({"status": STATUS}))[0] == state


def test_a_row_names_author_and_commit() -> None:
    annotations = {"hearth.dev/author": "ci\x1b[2J", "hearth.dev/commit": "0123456789abcdef0123"}
    metadata = {"name": "shop-x", "annotations": annotations, "creationTimestamp": "1970-01-01T00:00:00Z"}

    row = revision_history.make_row(1, {"metadata": metadata}, ("", ""), now=60.0)

    assert [text for text, _ in row] == ["1", "", "ci\\x1b[2J", "0123456789ab", "60s", "shop-x"]


def make(password: str, *, image: str = "web:1") -> dict[str, Any]:
    rules = {"password": {"type": "string", "sensitive": True}, "pin": {"sensitive": True, "default": "geheim-2"}}
    return {
        "template": {"parameters": rules, "resources": {"web": {"manifest": {"image": image, "env": "pin geheim-2"}}}},
        "parameters": {"size": "m"},
        "sensitive": {"password": {"from": "Secret/db", "key": "password", "hash": f"v1:{password}"}},
    }


def test_the_difference_of_two_revisions_is_a_unified_diff() -> None:
    lines = list(
        revision_history.compare(make("aaaaaaaa"), make("aaaaaaaa", image="web:2"), titles=("revision 1", "revision 2"))
    )

    assert lines[:2] == [("--- revision 1", "bold"), ("+++ revision 2", "bold")]
    changed = [(line.strip("+- "), color) for line, color in lines if color in ("green", "red")]
    assert changed == [("image: web:1", "red"), ("image: web:2", "green")]


def test_a_sensitive_value_is_only_said_to_have_changed() -> None:
    lines = list(revision_history.compare(make("aaaaaaaa"), make("bbbbbbbb"), titles=("a", "b")))

    assert [line for line, _ in lines if line.startswith(("+ ", "- "))] == [
        "-  password: (sensitive, from Secret/db, hash aaaaaaaa)",
        "+  password: (sensitive, from Secret/db, hash bbbbbbbb)",
    ]
    assert "geheim" not in repr(revision_history.show_definition(make("aaaaaaaa")))


def test_equal_definitions_have_no_difference() -> None:
    assert list(revision_history.compare(make("a"), make("a"), titles=("a", "b"))) == []


def test_a_revision_is_compared_with_what_was_active_before() -> None:
    def make(previous: str = "") -> dict[str, Any]:
        annotations = {"hearth.dev/previous-revision": previous} if previous else {}
        return {"metadata": {"annotations": annotations}}

    stored = {1: make(), 2: make("1"), 3: make("1"), 4: make(), 5: make("9"), 6: make("x")}

    assert [revision_history.find_previous(number, stored) for number in stored] == [None, 1, 1, 3, None, None]


def test_a_revision_that_failed_and_completed_after_that_is_described_by_its_end() -> None:
    status = {"lastCompletedRevision": 2, "lastFailedRevision": 2, "target": {"revision": 2, "cause": "Spec"}}
    ready = [{"type": "Ready", "status": "True"}]
    stack = StackState(
        {"metadata": {"generation": 1}, "status": status | {"observedGeneration": 1, "conditions": ready}}
    )

    assert revision_history.describe_state(2, stack) == ("active, completed", "green")
