"""How the API server's refusals are told: in its own words, with every cause, short, and without secrets.

Must not decide anything; what it cuts and hides may hang on the words, what anybody does about it may not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hearth.model import redaction
from hearth.model.kinds import ObjectRef

LONGEST_MESSAGE = 1024
"""Characters; what the API of Kubernetes recommends for a condition's message, and an Event's note allows."""
LONGEST_CAUSE = 240
"""Characters; a refused value may be echoed whole, twice, in 200 KB."""
HEAD = 90
"""Characters of a long cause that are kept at its beginning: the field and how the value starts. Its end says why."""
GAP = redaction.ELLIPSIS
GUARDED_KIND = "Secret"
TOO_MANY = 429
QUOTED = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*(?:"|\Z)', re.DOTALL)
"""To the end where no quote closes it, so that it is found in linear time."""
LONGEST_GUARDED = 16_384
"""Characters in which values without quotes are looked for, which takes quadratic time."""
GO_VALUE = re.compile(r"\bValue:.*", re.DOTALL)
"""How the server prints a value that it could not convert: `got &value.valueUnstructured{Value:123}`. What is printed
may hold any bracket, so everything behind it goes."""
BARE_VALUE = re.compile(
    r"(\b(?:Invalid|Unsupported|Duplicate) value: )(?:\{.*\}|\[.*\]|map\[.*\]|[^\s\":]+)", re.DOTALL
)
"""How the server shows a value that is no text: `Invalid value: -1: must be …`."""


def explain(code: int, status: Mapping[str, Any] | None, *, ref: ObjectRef, hidden: Collection[str] = ()) -> str:
    """`deployment/web: spec.replicas: Invalid value: -1: must be …`: every cause of a refusal, cut to 1,024 characters.

    hidden: texts that must not be shown, such as the values of sensitive parameters.
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
    """The same without the name of the object. kind: of the refused object; a Secret's values are never shown.

    is_guarded: whether no other object's values are to be shown either, since some of them are sensitive.
    """
    is_guarded = is_guarded or kind == GUARDED_KIND
    if code == 404 and not read_details(status or {}).get("kind"):
        return f"the server does not serve the kind {kind}; is its CustomResourceDefinition installed?"
    if status is None and code == TOO_MANY:
        return "the API server has too many requests, and turns some away"
    if status is None:
        return f"the server answered {code} without saying why"
    causes = [cause for cause in read_causes(status) if cause.get("message")]
    # The message repeats the causes behind the object's name; it says more where a cause names no field.
    texts = [describe_cause(cause) for cause in causes if cause.get("field")] if causes else []
    if len(texts) < len(causes) or not texts:
        texts = [str(status.get("message") or f"the server answered {code} without saying why")]
    return join([hide(text, hidden=hidden, is_guarded=is_guarded) for text in texts])


def describe_cause(cause: Mapping[str, Any]) -> str:
    """`spec.replicas: Invalid value: -1: …`; a cause about no field in particular stands alone."""
    field = str(cause["field"]).lstrip(".")
    return str(cause["message"]) if field in {"<nil>", "[]"} else f"{field}: {cause['message']}"


def join(texts: Sequence[str]) -> str:
    """As many of the texts as fit, each once, and how many do not."""
    unique = list(dict.fromkeys(shorten(text, length=LONGEST_CAUSE) for text in texts))
    if len(unique) == 1:
        return shorten(texts[0], length=LONGEST_CAUSE * 2)
    shown: list[str] = []
    for text in unique:
        # Room for the object's name in front and the count behind.
        if shown and sum(map(len, shown)) + len(text) > LONGEST_MESSAGE - LONGEST_CAUSE:
            return f"{'; '.join(shown)}; and {len(unique) - len(shown)} more"
        shown.append(text)
    return "; ".join(shown)


def shorten(text: str, *, length: int) -> str:
    """`text`, without its middle where it is longer than `length`: its end says what is wrong."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    return f"{text[:HEAD]} {GAP} {text[len(text) - (length - HEAD - 3) :]}"


def hide(text: str, *, hidden: Collection[str], is_guarded: bool) -> str:
    """`text` without anything that is to be hidden, and without any value at all of a guarded object."""
    text = redaction.redact(text, hidden)
    if is_guarded:
        # A transformed or shortened echo of a value is recognised by nothing but its place.
        text = GO_VALUE.sub(f"Value:{GAP}", QUOTED.sub(f'"{GAP}"', text))
        if len(text) > LONGEST_GUARDED:
            return f"the reason has {len(text)} characters and may hold sensitive values, so it is not shown"
        text = BARE_VALUE.sub(rf"\g<1>{GAP}", text)
    return text


def read_details(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The details of a `Status`; empty where there are none."""
    details = status.get("details")
    return details if isinstance(details, dict) else {}


def read_causes(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The causes of a `Status`; empty where there are none."""
    causes = read_details(status).get("causes")
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
