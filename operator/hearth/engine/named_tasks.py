"""Background tasks of one owner, at most one per name at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hearth import supervision


class NamedTasks:
    """Background actions next to the reconciles. Reports each unexpected exception of an action."""

    def __init__(
        self, on_error: Callable[[str, BaseException], None], on_success: Callable[[str], object] = lambda _name: None
    ) -> None:
        """on_error: called with the action's name and its exception; on_success: called with its name."""
        self._on_error = on_error
        self._on_success = on_success
        self._running: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, name: object) -> bool:
        """Return whether the action with that name is running."""
        running = self._running.get(name) if isinstance(name, str) else None
        return running is not None and not running.done()

    @property
    def has_any(self) -> bool:
        """Whether any action is running."""
        return bool(self._running)

    def is_any_running(self, prefix: str) -> bool:
        """Return whether any action whose name starts with the prefix is running."""
        return any(name.startswith(prefix) and not task.done() for name, task in self._running.items())

    def run(self, name: str, work: supervision.Work) -> None:
        """Start `work` unless an action with that name is running."""
        running = self._running.get(name)
        # A finished task may still be registered. It must not swallow this new request.
        if running is None or running.done():
            task = supervision.spawn(
                "task",
                lambda: self._act(name, work),
                name=name,
                on_error=lambda error: self._on_error(name, error),
            )
            self._running[name] = task
            task.add_done_callback(lambda ended: self._end(name, ended))

    async def _act(self, name: str, work: supervision.Work) -> None:
        await work()
        self._on_success(name)

    async def wait(self) -> None:
        """Wait until no action runs, including those that start in the meantime."""
        while self._running:
            await asyncio.wait(list(self._running.values()))
            # The callbacks of a finished task run later than the coroutines that wait for it.
            await asyncio.sleep(0)

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._running.values():
            task.cancel()

    def _end(self, name: str, task: asyncio.Task[None]) -> None:
        if self._running.get(name) is task:
            del self._running[name]
