"""Tasks of one owner."""

import asyncio

from hearth.engine.named_tasks import NamedTasks


async def test_what_is_requested_after_the_end_is_done_even_before_the_end_is_reported() -> None:
    begun: list[int] = []

    async def act() -> None:
        begun.append(len(begun))
        # Runs after this action has ended, and before its end is reported.
        if len(begun) == 1:
            asyncio.get_running_loop().call_soon(tasks.run, "act", act)

    tasks = NamedTasks(lambda name, error: None)
    tasks.run("act", act)
    for _ in range(5):
        await asyncio.sleep(0)

    assert begun == [0, 1]


async def test_what_runs_already_is_not_begun_again() -> None:
    begun: list[int] = []

    async def act() -> None:
        begun.append(len(begun))
        await asyncio.sleep(0)

    tasks = NamedTasks(lambda name, error: None)
    tasks.run("act", act)
    tasks.run("act", act)
    for _ in range(5):
        await asyncio.sleep(0)
    tasks.run("act", act)
    await asyncio.sleep(0)

    assert begun == [0, 1]
