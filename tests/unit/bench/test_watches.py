"""When a benchmark counts Stacks as done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.instruments import watches
from bench.instruments.watches import Stacks
from hearth.model.child import Object


def make_event(
    name: str, *, generation: int = 1, observed: int = 1, ready: str = "True", type_: str = "MODIFIED"
) -> Object:
    """A Stack was seen."""
    status: Any = {"observedGeneration": observed, "conditions": [{"type": "Ready", "status": ready}]}
    return {"type": type_, "object": {"metadata": {"name": name, "generation": generation}, "status": status}}


@pytest.mark.parametrize(
    ("event", "reached"),
    [
        pytest.param(make_event("a", generation=2, observed=2), 2, id="as wanted"),
        pytest.param(make_event("a", generation=2, observed=1), 0, id="the status speaks of an older target"),
        pytest.param(make_event("a", ready="False"), 0, id="not ready"),
        pytest.param({"object": {"metadata": {"generation": 1}}}, 0, id="no status yet"),
    ],
)
def test_what_a_stack_has_reached(event: Object, reached: int) -> None:
    """Nothing is taken for done that only was."""
    assert watches.find_reached(event["object"]) == reached


async def test_waiting_ends_with_the_last_stack() -> None:
    """Not with one that is ready for an older target."""
    stacks = Stacks()
    stacks.take(make_event("a", generation=2, observed=2))
    stacks.take(make_event("b"))
    waiting = asyncio.create_task(stacks.wait_settled(2, generation=2))
    await asyncio.sleep(0)

    assert not waiting.done()
    stacks.take(make_event("b", generation=2, observed=2))
    await asyncio.wait_for(waiting, 1)


def test_a_stack_that_is_no_longer_ready_does_not_count() -> None:
    """It is counted once, in its last state."""
    stacks = Stacks()
    for ready in ("True", "False", "True", "False"):
        stacks.take(make_event("a", ready=ready))

    assert stacks.count_settled(1) == 0


async def test_waiting_for_all_to_be_gone() -> None:
    """Ends with the last deletion; where none is there, at once."""
    stacks = Stacks()
    await stacks.wait_gone()
    stacks.take(make_event("a", type_="ADDED"))
    waiting = asyncio.create_task(stacks.wait_gone())
    await asyncio.sleep(0)

    assert not waiting.done()
    stacks.take(make_event("a", type_="DELETED"))
    await asyncio.wait_for(waiting, 1)
