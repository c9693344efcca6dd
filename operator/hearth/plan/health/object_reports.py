"""Describes why an object is not deleted yet, and how its containers failed, for messages.

In addition to finalizers, the conditions of a Namespace or CustomResourceDefinition explain a pending deletion.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from hearth.model import value_class
from hearth.model.child import Object
from hearth.model.text import redaction
from hearth.plan.health import health_result
from hearth.plan.health.health_result import Fields

NAMESPACE: Final = "Namespace"
HOLDING: Final[Mapping[str, tuple[str, ...]]] = {
    NAMESPACE: (
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceFinalizersRemaining",
    ),
    "CustomResourceDefinition.apiextensions.k8s.io": ("Terminating",),
}
"""By `Kind.key`: condition types that are True only if the deletion needs more than time."""
REMAINING: Final = "NamespaceContentRemaining"
"""The condition that lists the remaining objects. It is also True while their deletion only needs time."""


def find_deletion_messages(kind: str, fields: Fields) -> dict[str, str]:
    """Return, by type, the messages of the conditions that block the deletion. kind: `Kind.key`."""
    found = {
        type_: " ".join(health_result.read_text(each, "message").split())
        for each in health_result.read_items(fields, "status.conditions")
        for type_ in [health_result.read_text(each, "type")]
        if type_ in (*HOLDING.get(kind, ()), REMAINING) and each.get("status") == "True"
    }
    # Remaining content explains another obstacle, but is not an obstacle itself.
    return found if found.keys() - {REMAINING} else {}


def explain_deletion(kind: str, fields: Fields) -> str:
    """Return the obstacle to the deletion in one sentence, or "" if the object does not report it. kind: `Kind.key`."""
    return "; ".join(message.rstrip(".") for message in find_deletion_messages(kind, fields).values() if message)


# The end of failed work: the container, its exit code, and the last line of its log. The line is untrusted text: it is
# shortened, and control characters and sensitive values are removed.

LOG_BYTES = 2_048
"""Bytes of a log to read. A longer line is not shown, because a sensitive value in it may be cut in two."""
LINE_LENGTH = 240
"""Characters of the line to show."""
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufffd]+")
STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of containers that only need time."""
STATUSES = ("initContainerStatuses", "containerStatuses")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of the container that failed."""

    namespace: str
    pod: str
    container: str
    exit_code: int
    reason: str = ""
    finished_at: str = ""
    """RFC 3339, or "" if unknown."""


def find_run_end(pods: Iterable[Object]) -> RunEnd | None:
    """Return the end of the container that failed last, in any of the pods, or None if none did."""
    ends = [end for pod in pods for end in _find_ends(pod)]
    return max(ends, key=lambda end: end.finished_at, default=None)


def _find_ends(pod: Mapping[str, Any]) -> Iterable[RunEnd]:
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    for key in STATUSES:
        found = status.get(key)
        for each in found if isinstance(found, list) else ():
            ended = health_result.read(each, "state.terminated") or health_result.read(each, "lastState.terminated")
            if not isinstance(ended, Mapping):
                continue
            code = ended.get("exitCode")
            if isinstance(code, int) and code != 0:
                yield RunEnd(
                    namespace=str(metadata.get("namespace", "")),
                    pod=str(metadata.get("name", "")),
                    container=str(each.get("name", "")),
                    exit_code=code,
                    reason=str(ended.get("reason") or ""),
                    finished_at=str(ended.get("finishedAt") or ""),
                )


def describe_run_end(end: RunEnd, log: str, *, hidden: Collection[str] = ()) -> str:
    """Return `container m of pod/x ended with exit code 1: last line`. hidden: texts that must not be shown."""
    text = f"container {end.container} of pod/{end.pod} ended with exit code {end.exit_code}"
    line = find_last_line(log, hidden=hidden)
    return f"{text}: {line}" if line else text


def find_last_line(log: str, *, hidden: Collection[str] = ()) -> str:
    """Return the last line of a log, safe to show; "" for an empty log or a line that cannot be shown."""
    lines = [line for line in log.splitlines() if line.strip()]
    if not lines or len(log.encode(errors="replace")) >= LOG_BYTES or _hides(lines[-1], hidden):
        return ""
    line = redaction.redact(" ".join(UNSAFE.sub(" ", lines[-1]).split()), hidden)
    return line if len(line) <= LINE_LENGTH else f"{line[:LINE_LENGTH]}{redaction.ELLIPSIS}"


def _hides(line: str, hidden: Collection[str]) -> bool:
    """Return whether the line contains a sensitive value in base 64."""
    encoded = (base64.b64encode(value.encode(errors="replace")).decode().rstrip("=")[:-1] for value in hidden)
    return any(len(each) >= redaction.MIN_REDACTED_LENGTH and each in line for each in encoded)


# The reason why the Pods of a workload are not ready, in one sentence, from the newest Pod that reports one. Like a
# log, these texts are untrusted.


def explain_pods(pods: Iterable[Object]) -> str:
    """Return `container app of pod/web-1: ErrImagePull: not found`, or "" if no Pod reports a cause."""
    newest = sorted(pods, key=lambda pod: health_result.read_text(pod, "metadata.creationTimestamp"), reverse=True)
    return next(filter(None, map(_explain_pod, newest)), "")


def _explain_pod(pod: Object) -> str:
    name = f"pod/{health_result.read_text(pod, 'metadata.name')}"
    for path in STATUSES:
        for each in health_result.read_items(pod, f"status.{path}"):
            reason = health_result.read_text(each, "state.waiting.reason")
            if reason and reason not in STARTING:
                message = health_result.read_text(each, "state.waiting.message")
                end = describe_run_end(found, "") if (found := find_run_end([pod])) is not None else ""
                named = f"container {health_result.read_text(each, 'name')} of {name}: {reason}"
                return shorten_line("; ".join(filter(None, (f"{named}: {message}" if message else named, end))))
    if (found := find_run_end([pod])) is not None:
        return describe_run_end(found, "")
    for condition in health_result.read_items(pod, "status.conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return shorten_line(f"{name} cannot be scheduled: {health_result.read_text(condition, 'message')}")
    return ""


def shorten_line(text: str) -> str:
    """Return text of another program as one line, without control characters and cut to the displayed length."""
    line = " ".join(UNSAFE.sub(" ", text).split())
    return line if len(line) <= LINE_LENGTH else f"{line[:LINE_LENGTH]}{redaction.ELLIPSIS}"
