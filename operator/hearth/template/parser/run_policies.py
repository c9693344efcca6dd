"""What a resource states about work that runs to completion: whether it runs once, and how a failure is retried."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hearth.model.text import times
from hearth.template.blueprint import Completion, RunRetry
from hearth.template.text import error_hints

WORDS = tuple(each.value for each in Completion)
RETRY_WORDS = ("limit", "maxBackoff")
MAX_LIMIT = 2**63 - 1
"""As the schema of the API."""
DURATION_LENGTH = 32
"""Characters, as in the schema of the API."""


def read_completion(stated: str | None) -> Completion | None:
    """Return the policy of a word of `WORDS`; None if it is not set."""
    return Completion(stated) if stated is not None else None


def read_retry(stated: Mapping[str, Any], path: str, *, note: Callable[[str, str], None]) -> RunRetry:
    """Return the retry policy; note what is no number or no duration."""
    limit, longest = stated.get("limit"), stated.get("maxBackoff")
    if limit is not None and not (type(limit) is int and 0 <= limit <= MAX_LIMIT):
        note(f"{path}.limit", f"must be a whole number from 0, found {error_hints.describe(limit)}")
        limit = None
    if longest is not None and not _is_duration(longest):
        note(f"{path}.maxBackoff", f"must be a duration, e.g. 90s or 10m, found {error_hints.describe(longest)}")
        longest = None
    return RunRetry(limit=limit, max_backoff=times.parse_duration(longest) if longest is not None else None)


def _is_duration(text: Any) -> bool:
    is_short = isinstance(text, str) and len(text) <= DURATION_LENGTH
    return is_short and re.fullmatch(times.DURATION, text) is not None
