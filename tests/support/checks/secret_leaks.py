"""Detects leaked secrets: texts with the word `unspeakable`, which stories plant in sensitive values.

Must not know where a text was reported.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import orjson

WORD = "unspeakable"


def encode() -> Iterator[str]:
    """The middle of the word in base64, at each of its three possible offsets in a group of bytes."""
    for shift in range(3):
        whole = base64.b64encode(b"x" * shift + WORD.encode()).decode()
        # The groups at both ends depend on the adjacent text.
        yield whole[4 if shift else 0 : -4]


FORMS = (WORD, *encode())


def has_leak(reported: Any) -> bool:
    """Whether a text, or the JSON or `repr` of another value, contains the word."""
    text = reported if isinstance(reported, str) else orjson.dumps(reported, default=repr).decode()
    return any(form in text or form in text.lower() for form in FORMS)


def find_leaks(what: str, reported: Any) -> list[str]:
    """Leaks in `reported`."""
    return [f"{what} shows a sensitive value: {reported}"] if has_leak(reported) else []
