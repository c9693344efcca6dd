"""Asks who holds the fields that a condition speaks of: one GET each, and only for the few resources that it names.

The cache keeps our own part of `managedFields` alone, since the others' would cost more than all the rest of a child.
"""

from __future__ import annotations

import functools

from hearth.engine.named_tasks import Tasks
from hearth.engine.services import Services
from hearth.model.errors import Refused, Unreachable
from hearth.plan.resource import field_managers
from hearth.plan.stack.stack_planner import Board
from hearth.plan.state.memory import Memory, Question


def ask(stack_uid: str, board: Board, memory: Memory, *, tasks: Tasks, services: Services) -> None:
    """Begin to ask what the last pass wants to know; the resource is looked at again when the answer is there."""
    if not memory.questions:
        return
    named = {name for type_ in board.remarks.by_type for name in board.remarks.first(type_)}
    for name in named & memory.questions.keys():
        look_up = functools.partial(_look_up, stack_uid, name, memory.questions.pop(name), memory, services)
        tasks.run(f"holder of {name}", look_up)


async def _look_up(stack_uid: str, name: str, question: Question, memory: Memory, services: Services) -> None:
    child = question.child
    try:
        raw = await services.cluster.get(child.ref, kind=child.kind)
    except (Refused, Unreachable):
        # Said without a name until something happens to the object again.
        return
    if raw["metadata"]["uid"] == child.uid:
        memory.holders[child.uid] = (question.lost, field_managers.describe(raw, question))
        services.inbox.mark(stack_uid, name)
