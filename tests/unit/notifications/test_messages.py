"""The content of notifications: what receivers read, what hostile texts cannot do, and how the signature is made."""

from __future__ import annotations

import base64
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from hearth.engine.cluster_objects import StackObject
from hearth.notifications import messages
from hearth.notifications.messages import Message
from hearth.plan.status.stack_notices import NoticeType, StackNotice
from support import console_blocks, repository
from support.units import stack_objects

NOW = 1_800_000_000.0
STACK = stack_objects.make_stack()
FAILED = StackNotice(
    type=NoticeType.FAILED, reason="Denied", message="web: quota is exhausted", phase="CreateFailed", revision=3
)


def make_notice(message: str) -> StackNotice:
    return StackNotice(
        type=NoticeType.DRIFTED, reason="Drifted", message=message, phase="UpdateComplete", revision=None
    )


def make_message(notice: StackNotice = FAILED, *, stack: StackObject = STACK, is_slack: bool = False) -> Message:
    return messages.make_message(stack, notice, is_slack=is_slack, source="/hearth", now=NOW)


def read(message: Message) -> Any:
    return orjson.loads(message.content)


def test_a_cloud_event_names_the_stack_and_what_happened() -> None:
    message = make_message()

    assert message.content_type == "application/cloudevents+json; charset=utf-8"
    assert read(message) == {
        "specversion": "1.0",
        "id": message.id,
        "source": "/hearth",
        "type": "dev.hearth.stack.failed",
        "subject": "a/shop",
        "time": "2027-01-15T08:00:00Z",
        "datacontenttype": "application/json",
        "data": {
            "namespace": "a",
            "name": "shop",
            "kind": "Stack",
            "uid": "u",
            "phase": "CreateFailed",
            "reason": "Denied",
            "message": "web: quota is exhausted",
            "revision": 3,
        },
    }


def test_another_occurrence_has_another_id() -> None:
    again = stack_objects.make_stack(resource_version=8)

    assert make_message().id == make_message().id
    assert len({make_message().id, make_message(stack=again).id, make_message(make_notice("web")).id}) == 3


def test_a_long_message_is_cut() -> None:
    assert len(make_message(make_notice("ä" * 100_000)).content) < 2000


@pytest.mark.parametrize("text", ["<!channel>", "<https://evil.example|our page>", "a & b", "&lt;!here&gt;"])
def test_a_text_for_slack_contains_no_mention_and_no_link(text: str) -> None:
    content = read(make_message(make_notice(text), is_slack=True))

    assert not {"<", ">"} & set(content["text"])
    assert content["text"].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").endswith(f"Drifted: {text}")
    assert content["mrkdwn"] is False


def test_a_text_for_slack_has_two_lines_whatever_the_message_contains() -> None:
    content = read(make_message(make_notice("one\ntwo\u2028three\rfour\u202efive"), is_slack=True))

    assert content["text"].splitlines() == [
        "Stack a/shop has drift that is not repaired (UpdateComplete) in /hearth",
        "Drifted: one two three four five",
    ]


def test_the_signature_is_that_of_the_published_example() -> None:
    """The example of the documentation of Svix, who wrote the specification."""
    message = Message(
        id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        namespace="a",
        type="",
        content=b'{"test": 2432232314}',
        content_type="application/json",
    )
    key = messages.parse_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    headers = messages.make_headers(message, key=key, now=1_614_265_330.9)

    assert headers == {
        "Content-Type": "application/json",
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def find_documented_check() -> Callable[[Mapping[str, str], bytes, str], bool]:
    """The function that the documentation shows to authors of receivers."""
    page = (repository.DOCS / "notifications.md").read_text()
    (code,) = [block.text for block in console_blocks.read_blocks(page) if block.kind == "python"]
    scope: dict[str, Any] = {}
    exec(code, scope)  # noqa: S102 -- our own documentation
    verify: Callable[[Mapping[str, str], bytes, str], bool] = scope["verify"]
    return verify


@pytest.mark.parametrize(
    ("content", "age", "is_valid"),
    [
        pytest.param(b"{}", 0, True, id="as sent"),
        pytest.param(b"{ }", 0, False, id="another body"),
        pytest.param(b"{}", 400, False, id="sent again by an attacker"),
    ],
)
def test_the_documented_check_accepts_only_what_was_signed(content: bytes, age: float, *, is_valid: bool) -> None:
    verify, key = find_documented_check(), f"whsec_{base64.b64encode(b'k' * 32).decode()}"
    message = dataclasses.replace(make_message(), content=b"{}")
    headers = messages.make_headers(message, key=messages.parse_key(key), now=time.time() - age)

    assert verify(headers, content, key) is is_valid
    assert not verify(headers, content, f"whsec_{base64.b64encode(b'x' * 32).decode()}")


def test_without_a_key_nothing_is_signed() -> None:
    assert messages.make_headers(make_message(is_slack=True), key=None, now=NOW) == {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("whsec_", id="only the prefix"),
        pytest.param("whsec_secret password!", id="no base64"),
        pytest.param("whsec_" + base64.b64encode(b"k" * 23).decode(), id="too short"),
        pytest.param("whsec_" + base64.b64encode(b"k" * 65).decode(), id="too long"),
    ],
)
def test_an_invalid_key_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="must be whsec_ and 24 to 64 bytes in base64") as caught:
        messages.parse_key(text)

    assert "password" not in str(caught.value)
