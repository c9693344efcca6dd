"""Tasks of one owner, each name at most once at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hearth import supervision


class NamedTasks:
    """Runs actions beside the passes; tells of those that raised an exception that no code expects."""

    def __init__(
        self, on_error: Callable[[str, BaseException], None], on_success: Callable[[str], object] = lambda _name: None
    ) -> None:
        """on_error: gets the name of the action and what it raised; on_success: the name of one that came to its end."""
        self._on_error = on_error
        self._on_success = on_success
        self._running: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, name: object) -> bool:
        """Whether that one is under way."""
        running = self._running.get(name) if isinstance(name, str) else None
        return running is not None and not running.done()

    def run(self, name: str, action: supervision.Work) -> None:
        """Begin `action` unless one of that name runs already."""
        running = self._running.get(name)
        # One that has ended may not have been told of yet: whoever asks now must not be lost with it.
        if running is None or running.done():
            task = supervision.spawn(
                "task",
                lambda: self._act(name, action),
                name=name,
                on_error=lambda error: self._on_error(name, error),
            )
            self._running[name] = task
            task.add_done_callback(lambda ended: self._end(name, ended))

    async def _act(self, name: str, action: supervision.Work) -> None:
        await action()
        self._on_success(name)

    def cancel(self) -> None:
        """End them all."""
        for task in self._running.values():
            task.cancel()

    def _end(self, name: str, task: asyncio.Task[None]) -> None:
        if self._running.get(name) is task:
            del self._running[name]
