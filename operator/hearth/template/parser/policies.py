"""Parses the policies of a resource in a template: adoption, deletion and the rolling update of a collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hearth.model import limits, object_fields, value_class
from hearth.model.child import Object
from hearth.model.text import times
from hearth.template.text import error_hints

RETAIN = "Retain"
DELETION = ("Delete", RETAIN)
"""The values of a resource's `deletionPolicy`."""
ABANDON = "Abandon"
ADOPT = "Adopt"
ADOPTION = ("Refuse", ADOPT)
"""The values of `adoptionPolicy`."""
ROLLING_WORDS = ("maxBatchSize", "minReady", "pause")
SHARE = re.compile(r"([1-9][0-9]?|100)%")


def adopts(stated: str | None) -> bool | None:
    """Return whether an `adoptionPolicy` allows adopting an existing object, or None if it is not set."""
    return None if stated is None else stated == ADOPT


def find_retained(template: Any) -> frozenset[str]:
    """Find the resources that a template retains, even if other parts of the template have errors."""
    resources: Mapping[Any, Any] = object_fields.mapping(template, "resources")
    return frozenset(
        name
        for name, resource in resources.items()
        if isinstance(name, str) and object_fields.find(resource, "deletionPolicy") == RETAIN
    )


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RollingSource:
    """The rolling update of a template."""

    path: str
    max_batch: int | str
    """A number, or a percentage of the members: `25%`."""
    min_ready: int
    pause: float
    """Seconds."""


def read_rolling(stated: Object, path: str, *, note: Callable[[str, str], None]) -> RollingSource:
    """Parse a rolling update; defaults replace invalid values. note: records an error with its path."""
    batch, ready = stated.get("maxBatchSize", 1), stated.get("minReady", 0)
    is_share = isinstance(batch, str) and SHARE.fullmatch(batch) is not None
    if not is_share and not is_count(batch, least=1):
        rule = "must be at least 1, or a share of the members from 1% to 100%"
        note(f"{path}.maxBatchSize", f"{rule}, found {error_hints.describe(batch)}")
        batch = 1
    if not is_count(ready, least=0):
        note(f"{path}.minReady", f"must be a whole number from 0, found {error_hints.describe(ready)}")
        ready = 0
    return RollingSource(path=path, max_batch=batch, min_ready=ready, pause=read_pause(stated, path, note))


def is_count(value: Any, *, least: int) -> bool:
    """Return whether the value is an integer of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def read_pause(stated: Object, path: str, note: Callable[[str, str], None]) -> float:
    """Parse the pause between two batches in seconds."""
    text = stated.get("pause")
    if text is None:
        return 0.0
    longest = times.format_duration(limits.ROLLING_PAUSE)
    try:
        seconds = times.parse_duration(text)
    except (TypeError, ValueError):
        found = error_hints.describe(text)
        note(f"{path}.pause", f"must be a duration up to {longest}, for example 30s or 5m, found {found}")
        return 0.0
    if seconds > limits.ROLLING_PAUSE:
        note(f"{path}.pause", f"is {times.format_duration(seconds)}, but may be at most {longest}")
        return 0.0
    return seconds
