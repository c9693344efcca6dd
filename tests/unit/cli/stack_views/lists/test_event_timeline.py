"""The timeline of a Stack: Events, revisions and deletions in one order."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.lists.event_timeline import TimelineEntry
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model.kinds import Kind

CONFIG = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)


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
    """The API has two kinds of Events."""
    (entry,) = event_timeline.describe_events([make_event("u-1", **fields)], {"u-1": ""})

    assert entry.time == time
    assert (entry.object, entry.message) == ("pod/web-1", "a b")


def test_events_about_other_objects_are_left_out() -> None:
    """A name is not enough: an earlier object may have had it."""
    event = make_event("u-2", lastTimestamp="1970-01-01T00:00:05Z")

    assert list(event_timeline.describe_events([event], {"u-1": ""})) == []


def test_objects_of_nested_stacks_belong_to_it() -> None:
    """With their path."""
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
    """As a log."""

    def at(time: float, type_: str = "Normal") -> TimelineEntry:
        return TimelineEntry(time=time, type=type_, reason="R", object="pod/a", message="m")

    entries = [at(3.0), at(1.0), at(2.0, "Warning")]

    assert [each.time for each in event_timeline.sort(entries, since=2.0, only_warnings=False)] == [2.0, 3.0]
    assert [each.time for each in event_timeline.sort(entries, since=None, only_warnings=True)] == [2.0]


def test_a_revision_is_an_entry_with_its_author() -> None:
    """So that a change stands beside its effects."""
    metadata = {"creationTimestamp": "1970-01-01T00:00:09Z", "annotations": {"hearth.dev/author": "ci"}}

    (entry,) = event_timeline.describe_revisions({4: {"metadata": metadata}}, "stack/shop")

    assert (entry.time, entry.message) == (9.0, "revision 4 stored by ci")
