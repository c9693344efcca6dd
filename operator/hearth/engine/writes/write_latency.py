"""How long news take to become the write that they lead to, for metrics. Knows keys of steps and nothing of what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class WriteLatency:
    """Since when the steps are called for that wait to be taken."""

    def __init__(self, *, now: Callable[[], float], tell: Callable[[float], None]) -> None:
        """now: seconds that never jump; tell: is called with the seconds that a write took to come about."""
        self._now = now
        self._tell = tell
        self._since: dict[tuple[str, str], float] = {}

    def on_planned(self, stack_uid: str, keys: Iterable[str], *, since: float) -> None:
        """Steps were planned for what happened then, in monotonic seconds; those that wait already go on doing so."""
        for key in keys:
            self._since.setdefault((stack_uid, key), since)

    def on_started(self, stack_uid: str, key: str, *, is_wanted: bool) -> None:
        """It is the turn of a step. is_wanted: whether there still is one, which is written now."""
        since = self._since.pop((stack_uid, key), None)
        if is_wanted and since is not None:
            self._tell(self._now() - since)
