"""Counts Stacks for metrics at each scrape, from the parsed cache."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Mapping

from hearth.engine.cluster_objects import StackObject
from hearth.model.text import times


def count_phases(stacks: Iterable[StackObject]) -> Mapping[str, float]:
    """Count the Stacks by phase."""
    return collections.Counter(stack.phase for stack in stacks)


def count_conditions(stacks: Iterable[StackObject]) -> Mapping[str, float]:
    """Count the Stacks by true condition."""
    return collections.Counter(type_ for stack in stacks for type_ in stack.true_conditions)


def find_oldest(stacks: Iterable[StackObject], *, now: float) -> Mapping[str, float]:
    """Return the age of the oldest action in progress by phase, in seconds. now: seconds since the epoch."""
    oldest: dict[str, float] = {}
    for stack in stacks:
        if not stack.in_progress_since:
            continue
        # Another client may have written an invalid time.
        with contextlib.suppress(ValueError):
            age = max(0.0, now - times.parse_time(stack.in_progress_since))
            oldest[stack.phase] = max(age, oldest.get(stack.phase, 0.0))
    return oldest
