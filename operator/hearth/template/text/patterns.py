"""Matches regular expressions of users in linear time, with RE2."""

from __future__ import annotations

import functools
from typing import Any

import re2

from hearth.model import limits

_ADVICE = {
    "invalid escape sequence": "RE2 supports neither backreferences nor \\Z; write \\z for the end, \\x41 for a character",
    "invalid perl operator": "RE2 does not support lookahead or lookbehind; rewrite the pattern without them",
    "pattern too large": "shorten it, or its repetitions",
}
"""The next step for each error of RE2."""


class Unsupported(ValueError):
    """A pattern that cannot be used; the message states why."""


class TooLong(ValueError):
    """A text that is too long for a pattern; the message contains the figures."""


@functools.lru_cache(maxsize=1)
def _options() -> Any:
    options = re2.Options()
    options.max_mem = limits.PATTERN_MEMORY
    options.never_capture = True
    options.log_errors = False
    return options


def compile_pattern(pattern: str) -> Any:
    """Compile the pattern; RE2 itself caches the last hundred or so. Raises Unsupported."""
    if len(pattern) > limits.PATTERN_LENGTH:
        raise Unsupported(f"has {len(pattern)} characters, but at most {limits.PATTERN_LENGTH} are allowed")
    try:
        return re2.compile(pattern, options=_options())
    except re2.error as error:
        found = error.args[0] if error.args else ""
        reason = found.decode(errors="replace") if isinstance(found, bytes) else str(found)
        advice = next((f"; {text}" for words, text in _ADVICE.items() if words in reason), "")
        raise Unsupported(f"{reason}{advice}") from None
    except UnicodeError:
        raise Unsupported("contains characters that are not valid UTF-8") from None


def find_cost_of_making(compiled: Any) -> int:
    """Return the microseconds that compiling it took."""
    return 50 + int(compiled.programsize) // 2


def find_cost(compiled: Any, text: str) -> int:
    """Return the maximum microseconds of a search; raises TooLong if that would delay other work."""
    work = len(text) * compiled.programsize
    if work > limits.PATTERN_WORK:
        longest = limits.PATTERN_WORK // compiled.programsize
        raise TooLong(
            f"has {len(text)} characters, but at most {longest} can be matched against such a complex pattern"
        )
    return int(work // limits.PATTERN_WORK_PER_MICROSECOND)


def is_found(compiled: Any, text: str) -> bool:
    """Return whether the pattern matches anywhere in `text`."""
    return compiled.search(text) is not None
