"""Latency from an event to the write that it causes, for metrics. Knows only the keys of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class WriteLatency:
    """The start times of steps that wait for execution."""

    def __init__(self, *, now: Callable[[], float], observe: Callable[[float], None]) -> None:
        """now: seconds that never jump; observe: called with the latency of a write in seconds."""
        self._now = now
        self._observe = observe
        self._since: dict[tuple[str, str], float] = {}

    def on_planned(self, stack_uid: str, keys: Iterable[str], *, since: float) -> None:
        """Record planned steps for an event at that monotonic time in seconds; a waiting step keeps its earlier time."""
        for key in keys:
            self._since.setdefault((stack_uid, key), since)

    def on_started(self, stack_uid: str, key: str, *, is_wanted: bool) -> None:
        """Record the start of a step. is_wanted: whether the step still exists and is written now."""
        since = self._since.pop((stack_uid, key), None)
        if is_wanted and since is not None:
            self._observe(self._now() - since)
