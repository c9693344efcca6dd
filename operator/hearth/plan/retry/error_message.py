"""Messages for error responses: the API server's own text with every cause, shortened and redacted.

Must not decide anything. Shortening and redaction may depend on the text; error handling may not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hearth.model.kinds import ObjectRef
from hearth.model.text import redaction

LONGEST_MESSAGE = 1024
"""Characters: the limit that Kubernetes recommends for a condition's message and allows for an Event's note."""
LONGEST_CAUSE = 240
"""Characters. The API server may repeat a rejected value twice in full, in 200 KB."""
HEAD = 90
"""Characters to retain at the start of a long cause: the field and the start of the value. Its end holds the reason."""
GAP = redaction.ELLIPSIS
GUARDED_KIND = "Secret"
TOO_MANY = 429
QUOTED = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*(?:"|\Z)', re.DOTALL)
"""A match without a closing quote extends to the end of the text, for linear time."""
LONGEST_GUARDED = 16_384
"""Limit in characters for the search for unquoted values, which takes quadratic time."""
GO_VALUE = re.compile(r"\bValue:.*", re.DOTALL)
"""Format of a value that the API server cannot convert: `got &value.valueUnstructured{Value:123}`.

The value may contain any bracket, so redaction removes everything after `Value:`.
"""
BARE_VALUE = re.compile(
    r"(\b(?:Invalid|Unsupported|Duplicate) value: )(?:\{.*\}|\[.*\]|map\[.*\]|[^\s\":]+)", re.DOTALL
)
"""Format of a value that is not a string: `Invalid value: -1: must be …`."""


def explain(code: int, status: Mapping[str, Any] | None, *, ref: ObjectRef, hidden: Collection[str] = ()) -> str:
    """Describe every cause of an error, cut to 1,024 characters.

    Example: `deployment/web: spec.replicas: Invalid value: -1: must be …`. hidden: texts that must not be shown, for
    example the values of sensitive parameters.
    """
    return shorten(f"{ref}: {describe(code, status, kind=ref.kind, hidden=hidden)}", length=LONGEST_MESSAGE)


def describe(
    code: int,
    status: Mapping[str, Any] | None,
    *,
    kind: str,
    hidden: Collection[str] = (),
    is_guarded: bool = False,
) -> str:
    """Describe an error without the name of the object. kind: of the object; the values of a Secret are never shown.

    is_guarded: whether to redact the values of other kinds too, because some of them are sensitive.
    """
    is_guarded = is_guarded or kind == GUARDED_KIND
    if code == 404 and not read_details(status or {}).get("kind"):
        return f"the server does not serve the kind {kind}; is its CustomResourceDefinition installed?"
    if status is None and code == TOO_MANY:
        return "the API server is throttling requests (too many requests)"
    if status is None:
        return f"the server answered {code} without a message"
    causes = [cause for cause in read_causes(status) if cause.get("message")]
    # The message repeats the causes after the object's name. It says more if a cause names no field.
    texts = [describe_cause(cause) for cause in causes if cause.get("field")] if causes else []
    if len(texts) < len(causes) or not texts:
        texts = [str(status.get("message") or f"the server answered {code} without a message")]
    return join([hide(text, hidden=hidden, is_guarded=is_guarded) for text in texts])


def describe_cause(cause: Mapping[str, Any]) -> str:
    """Describe a cause: `spec.replicas: Invalid value: -1: …`. A cause without a field has no prefix."""
    field = str(cause["field"]).lstrip(".")
    return str(cause["message"]) if field in {"<nil>", "[]"} else f"{field}: {cause['message']}"


def join(texts: Sequence[str]) -> str:
    """Join as many of the texts as fit, each once, and add the number of the rest."""
    unique = list(dict.fromkeys(shorten(text, length=LONGEST_CAUSE) for text in texts))
    if len(unique) == 1:
        return shorten(texts[0], length=LONGEST_CAUSE * 2)
    shown: list[str] = []
    for text in unique:
        # Leave room for the object's name before and the count after.
        if shown and sum(map(len, shown)) + len(text) > LONGEST_MESSAGE - LONGEST_CAUSE:
            return f"{'; '.join(shown)}; and {len(unique) - len(shown)} more"
        shown.append(text)
    return "; ".join(shown)


def shorten(text: str, *, length: int) -> str:
    """Remove the middle of `text` if it is longer than `length`. Its end names the error."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    return f"{text[:HEAD]} {GAP} {text[len(text) - (length - HEAD - 3) :]}"


def hide(text: str, *, hidden: Collection[str], is_guarded: bool) -> str:
    """Redact the `hidden` texts, and every value of a guarded object."""
    text = redaction.redact(text, hidden)
    if is_guarded:
        # Only its position identifies a transformed or shortened copy of a value.
        text = GO_VALUE.sub(f"Value:{GAP}", QUOTED.sub(f'"{GAP}"', text))
        if len(text) > LONGEST_GUARDED:
            return f"the reason has {len(text)} characters and may contain sensitive values, so it is not shown"
        text = BARE_VALUE.sub(rf"\g<1>{GAP}", text)
    return text


def read_details(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the details of a `Status`; empty if there are none."""
    details = status.get("details")
    return details if isinstance(details, dict) else {}


def read_causes(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the causes of a `Status`; empty if there are none."""
    causes = read_details(status).get("causes")
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
