"""Takes steps, a bounded number at a time, one Stack after the other, so that a large one does not starve a small one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

TakeStep: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Takes the step that is planned for a Stack's key now, if one still is. Never raises."""


class Executor:
    """A queue of keys by Stack, served in turn by a fixed number of workers.

    Only keys are queued: what is to be done is asked for when it is done, so a step that is no longer wanted by then
    costs nothing.
    """

    def __init__(self, *, workers: int, take_step: TakeStep) -> None:
        """workers: steps in flight at most."""
        self._take_step = take_step
        self._queues: dict[str, dict[str, None]] = {}
        """By Stack its keys in order; the Stacks in the order of their turns."""
        self._work = asyncio.Semaphore(0)
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Let the workers begin."""
        self._tasks = [asyncio.create_task(self._serve(), name=f"executor-{n}") for n in range(self._workers)]

    async def stop(self) -> None:
        """End the workers; a request under way is abandoned, as by a crash."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def offer(self, stack_uid: str, keys: Iterable[str]) -> None:
        """Queue keys; those that wait already keep their place."""
        queue = self._queues.setdefault(stack_uid, {})
        for key in keys:
            if key not in queue:
                queue[key] = None
                self._work.release()
        if not queue:
            del self._queues[stack_uid]

    def _next(self) -> tuple[str, str]:
        """The first key of the Stack whose turn it is, which then goes to the end of the line."""
        stack_uid, queue = next(iter(self._queues.items()))
        key = next(iter(queue))
        del queue[key]
        del self._queues[stack_uid]
        if queue:
            self._queues[stack_uid] = queue
        return stack_uid, key

    async def _serve(self) -> None:
        while True:
            await self._work.acquire()
            stack_uid, key = self._next()
            await self._take_step(stack_uid, key)
