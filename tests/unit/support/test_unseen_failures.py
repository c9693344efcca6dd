"""The check of all tests for failures that no code retrieves."""

from __future__ import annotations

import asyncio
import gc

import pytest

from hearth import supervision
from support import unseen_failures


async def fail() -> None:
    """A failure that no code awaits."""
    raise OSError("down")


@pytest.mark.parametrize("has_handler", [True, False], ids=["the operator's handler", "asyncio's own"])
async def test_a_task_that_fails_unseen_fails_its_test(has_handler: bool) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(supervision.handle_loop_error if has_handler else None)
    task = asyncio.ensure_future(fail())
    await asyncio.wait([task])
    del task
    gc.collect()
    (found,) = unseen_failures.COLLECTOR.take()
    assert "OSError('down')" in found
