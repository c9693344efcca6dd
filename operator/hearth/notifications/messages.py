"""The content of notifications: CloudEvents, texts for Slack, and signatures. Pure.

Names and texts come from tenants. They are data in each format: they cannot add a field, a mention or a link.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

import orjson

from hearth.engine.cluster_objects import StackObject
from hearth.kube.objects import event_recorder
from hearth.model import value_class
from hearth.model.text import hidden_texts, times
from hearth.plan.status.stack_notices import NoticeType, StackNotice

TYPE_PREFIX: Final = "dev.hearth.stack."
KEY_PREFIX: Final = "whsec_"
"""The beginning of a key in the Standard Webhooks specification, which also sets its length."""
KEY_BYTES: Final = range(24, 65)
ID_LENGTH: Final = 32
CLOUD_EVENT: Final = "application/cloudevents+json; charset=utf-8"
SLACK_WORDS: Final = {
    NoticeType.FAILED: "failed",
    NoticeType.ROLLED_BACK: "was rolled back",
    NoticeType.STOPPED: "stopped at a breakpoint",
    NoticeType.DRIFTED: "has drift that is not repaired",
    NoticeType.UNAPPROVED: "has a change that waits for an approval",
}
SLACK_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""Without these characters, a text contains no mention and no link with another title."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One notification, ready to send."""

    id: str
    """The same for each attempt. Another occurrence has another one."""
    namespace: str
    """The namespace of the Stack, for fair shares."""
    type: str
    content: bytes
    content_type: str


def make_message(stack: StackObject, notice: StackNotice, *, is_slack: bool, source: str, now: float) -> Message:
    """Return the notification in the format of the installation. now: seconds since the epoch."""
    message = event_recorder.cut(hidden_texts.redact(notice.message, stack.uid))
    # A version of a Stack has one status write, so this identifies the change.
    key = (stack.uid, str(stack.resource_version), notice.type, notice.reason)
    id_ = hashlib.sha256("\0".join(key).encode()).hexdigest()[:ID_LENGTH]
    if is_slack:
        content = make_slack_text(stack, notice, message, source=source)
    else:
        content = make_cloud_event(stack, notice, message, id_=id_, source=source, now=now)
    return Message(
        id=id_,
        namespace=stack.namespace,
        type=TYPE_PREFIX + notice.type,
        content=content,
        content_type="application/json" if is_slack else CLOUD_EVENT,
    )


def make_cloud_event(
    stack: StackObject, notice: StackNotice, message: str, *, id_: str, source: str, now: float
) -> bytes:
    """Return a CloudEvent in structured mode."""
    return orjson.dumps(
        {
            "specversion": "1.0",
            "id": id_,
            "source": source,
            "type": TYPE_PREFIX + notice.type,
            "subject": f"{stack.namespace}/{stack.name}",
            "time": times.format_time(now),
            "datacontenttype": "application/json",
            "data": {
                "namespace": stack.namespace,
                "name": stack.name,
                "kind": stack.kind,
                "uid": stack.uid,
                "phase": notice.phase,
                "reason": notice.reason,
                "message": message,
                "revision": notice.revision,
            },
        }
    )


def make_slack_text(stack: StackObject, notice: StackNotice, message: str, *, source: str) -> bytes:
    """Return the body of a request to an incoming webhook of Slack: two lines of plain text."""
    revision = f", revision {notice.revision}" if notice.revision is not None else ""
    headline = f"{stack.kind} {stack.namespace}/{stack.name} {SLACK_WORDS[notice.type]} ({notice.phase}{revision})"
    lines = (f"{headline} in {source}", f"{notice.reason}: {message}")
    text = "\n".join(escape_for_slack(line) for line in lines)
    return orjson.dumps({"text": text, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False})


def escape_for_slack(text: str) -> str:
    """Return one line of printable characters without markup: an added line would look like another notification."""
    return "".join(each if each.isprintable() else " " for each in text).translate(SLACK_ESCAPES)


def parse_key(text: str) -> bytes:
    """Return the bytes of a signing key, e.g. `whsec_` and 32 bytes in base64. Raises ValueError."""
    try:
        key = base64.b64decode(text.strip().removeprefix(KEY_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if len(key) not in KEY_BYTES:
        raise ValueError(f"must be {KEY_PREFIX} and {KEY_BYTES[0]} to {KEY_BYTES[-1]} bytes in base64")
    return key


def make_headers(message: Message, *, key: bytes | None, now: float) -> dict[str, str]:
    """Return the headers of one attempt, with the signature of the Standard Webhooks specification if there is a key.

    now: seconds since the epoch. A receiver rejects old attempts, so each attempt has its own time.
    """
    headers = {"Content-Type": message.content_type}
    if key is None:
        return headers
    timestamp = str(int(now))
    signed = b".".join((message.id.encode(), timestamp.encode(), message.content))
    signature = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return {
        **headers,
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{signature}",
    }
