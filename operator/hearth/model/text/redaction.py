"""Redacts sensitive values in statuses, Events and logs."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import re
import urllib.parse
from collections.abc import Collection, Iterator
from typing import Any

from hearth.model import limits

SENSITIVE = "(sensitive)"
"""The replacement for a redacted value."""
_ENCODED = frozenset(base64.b64encode(f"{SENSITIVE}{end}".encode()).decode() for end in ("", "\n"))
# The part of a Base64 text that does not depend on adjacent characters.
_TRACES = (
    SENSITIVE.encode(),
    *(base64.b64encode(b"x" * at + SENSITIVE.encode())[4 if at else 0 : 12] for at in range(3)),
)
_MASKED = re.compile(
    rf"""(?:^|[:=,@/&"'\[{{(]) \s* {re.escape(SENSITIVE)} \s* (?:$|[:,;@/&"'\]}})])""", re.VERBOSE | re.MULTILINE
)
"""Matches the replacement where a value stands: after a character that precedes values, and before one that ends them.

It does not match a comment that calls something (sensitive).
"""
ELLIPSIS = "…"
"""The replacement for a redacted part of a sentence."""
MASKED = "contains the placeholder that people see instead of a sensitive value, not the value"
"""The mistake in a definition that was copied from redacted output.

It does not quote the placeholder, because that is the value.
"""
FORMS_KEPT = 8
"""Definitions whose values are cached in all quoted forms; the values are in memory anyway."""
MIN_LINE_LENGTH = 16
"""Minimum length of a line that is redacted on its own: shorter lines of a value are ordinary words of a configuration.
"""
LONGEST_IN_LINES = 8_192
"""Maximum length of a value that is also searched by line and in rare forms: longer than a private key."""
MIN_INNER_LENGTH = 8
"""Minimum length of a value's Base64 form within that of a longer text: six bytes, which no other text contains by
chance.
"""
_HTML = str.maketrans({"&": "\\u0026", "<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""Additional characters that Go escapes in JSON."""
MIN_CUT_LENGTH = 6
"""Minimum length of the beginning of a value that is redacted before an ellipsis. Shorter ones are parts of words."""
CUTS = 8
"""Maximum number of cuts in a text that are searched, and of places in a value that are compared with each."""
MIN_REDACTED_LENGTH = 3
"""Characters. Redacting shorter values would make every sentence unreadable."""


def redact(text: str, hidden: Collection[str]) -> str:
    """Return `text` without the values `hidden` in any quoted form; if there are too many values, hide the whole text.

    A text that was cut may contain only the beginning of a value, which is also redacted.
    """
    if not hidden:
        return text
    if len(hidden) > limits.HIDDEN_TEXTS:
        return ELLIPSIS
    forms = find_forms(frozenset(hidden))
    text = _redact_cut_values(text, forms)
    for form in forms:
        if form in text:
            text = text.replace(form, ELLIPSIS)
    return text


def _redact_cut_values(text: str, forms: Collection[str]) -> str:
    """Remove the beginning of a value before the end of the text and before each ellipsis."""
    cuts = [match.start() for match in itertools.islice(re.finditer(ELLIPSIS, text), CUTS)]
    for end in dict.fromkeys([len(text), *reversed(cuts)]):
        shortest = MIN_CUT_LENGTH if end in cuts else MIN_LINE_LENGTH
        length = max((_measure_beginning(text, end, form) for form in forms), default=0)
        if length >= shortest:
            text = f"{text[: end - length]}{ELLIPSIS}{text[end:].removeprefix(ELLIPSIS)}"
    return text


def _measure_beginning(text: str, end: int, form: str) -> int:
    """Return how many characters before `end` are the beginning of a form, as far as it is searched; 0 for too few."""
    tail = text[max(0, end - MIN_CUT_LENGTH) : end]
    limit = min(len(form), end, LONGEST_IN_LINES)
    for _ in range(CUTS if len(tail) == MIN_CUT_LENGTH else 0):
        at = form.rfind(tail, 0, limit)
        if at < 0:
            break
        length = at + MIN_CUT_LENGTH
        if text.startswith(form[:length], end - length):
            return length
        limit = length - 1
    return 0


@functools.lru_cache(maxsize=FORMS_KEPT)
def find_forms(hidden: frozenset[str]) -> tuple[str, ...]:
    """Return each value in all forms in which it may be quoted.

    The longest comes first, because one may contain another.
    """
    forms: dict[str, None] = {}
    for text in (*hidden, *_find_lines(hidden)):
        if len(text) >= MIN_REDACTED_LENGTH:
            forms.update(dict.fromkeys((text, *_quote(text), *_encode(text))))
    return tuple(sorted(forms, key=len, reverse=True))


def _find_lines(hidden: Collection[str]) -> Collection[str]:
    """Return the long lines of the values, because a program may quote a single line, or empty if they are too many to
    search.
    """
    found = {
        line.strip()
        for value in hidden
        if len(value) <= LONGEST_IN_LINES
        for line in value.splitlines()[: limits.HIDDEN_TEXTS]
        if len(line.strip()) >= MIN_LINE_LENGTH
    }
    return found if len(found) + len(hidden) <= limits.HIDDEN_TEXTS else ()


def _quote(text: str) -> Iterator[str]:
    """Return the text as it appears in JSON (also as Go and most programs write it), in a literal, and in a URL."""
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    yield quoted
    yield repr(text)[1:-1]
    if len(text) > LONGEST_IN_LINES:
        return
    escaped = json.dumps(text)[1:-1]
    yield from (escaped, quoted.translate(_HTML), escaped.translate(_HTML))
    for quote in (urllib.parse.quote, urllib.parse.quote_plus):
        yield quote(text, safe="", errors="replace")
        yield quote(text, errors="replace")


def _encode(text: str) -> Iterator[str]:
    """Return the Base64 forms of a value: encoded on its own, and the part that stays the same within any longer text."""
    raw = text.encode(errors="replace")
    # The API server quotes the data of a Secret as received.
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode()
        yield whole
        if len(text) > LONGEST_IN_LINES:
            return
        for before in range(3):
            inner = encode(b"x" * before + raw).decode()[4 if before else 0 : -4]
            if len(inner) >= MIN_INNER_LENGTH:
                yield inner


def redact_within(value: Any, hidden: Collection[str]) -> Any:
    """Return `value` with SENSITIVE in place of every text in it that contains one of the values `hidden`."""
    match value:
        case str():
            return value if redact(value, hidden) == value else SENSITIVE
        case list():
            return [redact_within(inner, hidden) for inner in value]
        case dict():
            return {redact(str(key), hidden): redact_within(inner, hidden) for key, inner in value.items()}
        case int() | float() if not isinstance(value, bool) and str(value) in hidden:
            return SENSITIVE
    return value


def may_hold_mask(written: bytes | None) -> bool:
    """Quickly check whether JSON may contain the replacement, plain or in Base64. written: None for no JSON."""
    return written is None or any(form in written for form in _TRACES)


def is_mask(value: Any) -> bool:
    """Return whether a value is exactly the replacement, plain or in Base64."""
    if not isinstance(value, str):
        return False
    text = value.strip()
    return text == SENSITIVE or text in _ENCODED


def has_mask(value: Any) -> bool:
    """Return whether a text is the replacement, plain or in Base64, or contains it in place of a value."""
    if not isinstance(value, str) or is_mask(value):
        return is_mask(value)
    return SENSITIVE in value and _MASKED.search(value) is not None


def find_texts(value: Any) -> Iterator[str]:
    """Return every text in a value, and its numbers as written. true, false and null reveal nothing."""
    match value:
        case str():
            yield value
            if (stripped := value.strip()) != value:
                yield stripped
        case bool() | None:
            return
        case int() | float():
            yield str(value)
        case list():
            for inner in value:
                yield from find_texts(inner)
        case dict():
            for inner in value.values():
                yield from find_texts(inner)
