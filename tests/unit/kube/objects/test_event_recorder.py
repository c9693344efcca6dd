"""Events about a Stack: equal messages are combined, and a lost Event does no harm."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.kube.client.api_requests import ApiClient
from hearth.kube.objects import event_recorder
from hearth.kube.objects.event_recorder import EventContent, EventRecorder
from hearth.model import errors, well_known_kinds
from hearth.model.child import Object
from support.server import api_errors
from support.units import stack_objects
from support.units.scripted_api.scripted_connection import ScriptedConnection, Sent, exists, missing
from support.virtual_time import in_virtual_time

EVENTS = "/api/v1/namespaces/a/events"
READY = EventContent(type_="Normal", reason="Ready", message="all 3 resources are ready")
STACK = stack_objects.make_stack()
NAME = event_recorder.event_name(STACK, READY)


def make(connection: ScriptedConnection) -> EventRecorder:
    """A recorder at noon."""
    return EventRecorder(ApiClient(connection, None), now=lambda: 1_767_268_800.0)  # type: ignore[arg-type]  # the same methods


def body_of(sent: Sent) -> Object:
    """The body of the sent request."""
    assert sent.body is not None
    return sent.body


@in_virtual_time
async def test_the_first_event_is_posted() -> None:
    connection = ScriptedConnection({f"POST {EVENTS}": {}})
    await make(connection).emit(STACK, READY)
    (sent,) = connection.sent
    assert body_of(sent)["involvedObject"] == {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "name": "shop",
        "namespace": "a",
        "uid": "u",
        "resourceVersion": "7",
    }
    reported = {key: body_of(sent)[key] for key in ("type", "reason", "message", "count", "lastTimestamp")}
    assert reported == {
        "type": "Normal",
        "reason": "Ready",
        "message": "all 3 resources are ready",
        "count": 1,
        "lastTimestamp": "2026-01-01T12:00:00Z",
    }


@in_virtual_time
async def test_in_a_namespace_being_deleted_the_event_is_about_that() -> None:
    terminating = api_errors.namespace_terminating(well_known_kinds.EVENT, "x", "a")
    connection = ScriptedConnection({f"POST {EVENTS}": terminating, "POST /api/v1/namespaces/default/events": {}})
    await make(connection).emit(STACK, READY)
    assert body_of(connection.sent[-1])["involvedObject"] == {"apiVersion": "v1", "kind": "Namespace", "name": "a"}
    assert body_of(connection.sent[-1])["metadata"] == {"name": NAME, "namespace": "default"}


@in_virtual_time
async def test_the_same_words_again_are_counted() -> None:
    connection = ScriptedConnection({f"POST {EVENTS}": {}, f"PATCH {EVENTS}/{NAME}": {}})
    recorder = make(connection)
    for _ in range(3):
        await recorder.emit(STACK, READY)
    assert connection.asked == [f"POST {EVENTS}"] + [f"PATCH {EVENTS}/{NAME}"] * 2
    assert [body_of(sent)["count"] for sent in connection.sent] == [1, 2, 3]


def test_other_words_are_another_event() -> None:
    failed = EventContent(type_="Warning", reason="Failed", message="no")
    again = dataclasses.replace(STACK, uid="v")
    assert len({NAME, event_recorder.event_name(STACK, failed), event_recorder.event_name(again, READY)}) == 3


@in_virtual_time
async def test_an_event_of_an_earlier_process_is_counted_on() -> None:
    connection = ScriptedConnection(
        {f"POST {EVENTS}": exists(), f"GET {EVENTS}/{NAME}": {"count": 4}, f"PATCH {EVENTS}/{NAME}": {}}
    )
    recorder = make(connection)
    await recorder.emit(STACK, READY)
    await recorder.emit(STACK, READY)
    assert [body_of(sent)["count"] for sent in connection.sent if sent.method == "PATCH"] == [5, 6]
    assert len(connection.sent) == 4


@in_virtual_time
async def test_an_event_that_the_server_forgot_starts_again() -> None:
    connection = ScriptedConnection({f"POST {EVENTS}": {}, f"PATCH {EVENTS}/{NAME}": [missing(), {}]})
    recorder = make(connection)
    for _ in range(3):
        await recorder.emit(STACK, READY)
    assert [(sent.method, body_of(sent)["count"]) for sent in connection.sent] == [
        ("POST", 1),
        ("PATCH", 2),
        ("POST", 1),
        ("PATCH", 2),
    ]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(api_errors.unavailable(), id="refused"),
        pytest.param(errors.Unreachable("down"), id="no answer"),
        pytest.param(api_errors.namespace_missing("a"), id="its namespace is gone"),
    ],
)
@in_virtual_time
async def test_an_event_that_cannot_be_posted_does_no_harm(error: Exception) -> None:
    connection = ScriptedConnection({f"POST {EVENTS}": [error, {}]})
    recorder = make(connection)
    await recorder.emit(STACK, READY)
    await recorder.emit(STACK, READY)
    assert connection.asked == [f"POST {EVENTS}"] * 2


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("short", "short", id="short"),
        pytest.param("x" * 1024, "x" * 1024, id="as long as may be"),
        pytest.param("x" * 1025, "x" * 1021 + "…", id="too long"),
        pytest.param("ä" * 600, "ä" * 510 + "…", id="never half a character"),
    ],
)
def test_long_messages_are_cut(message: str, expected: str) -> None:
    assert event_recorder.cut(message) == expected
    assert len(event_recorder.cut(message).encode()) <= 1024


@in_virtual_time
async def test_what_is_remembered_is_bounded() -> None:
    connection = ScriptedConnection({f"POST {EVENTS}": {}})
    recorder = make(connection)
    for number in range(event_recorder.REMEMBERED + 10):
        await recorder.emit(STACK, EventContent(type_="Normal", reason="Ready", message=str(number)))
    assert len(recorder._counts) == event_recorder.REMEMBERED
