"""Base class of the parts of one Stack's reconciler."""

from __future__ import annotations

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.inquiries import Inquiries
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.model import value_class
from hearth.plan.stack.member_removals import MemberRemovals
from hearth.plan.state.memory import InMemoryState


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackContext:
    """The Stack and its known state in this process."""

    uid: str
    services: Services
    definition_sync: DefinitionSync
    tasks: NamedTasks
    inquiries: Inquiries
    memory: InMemoryState
    removals: MemberRemovals


class StackPart:
    """A part of a reconciler. It is idle until it is called, and its state can be lost at any time."""

    def __init__(self, context: StackContext) -> None:
        """context: of the Stack, the same one for all parts."""
        self._uid = context.uid
        self._services = context.services
        self._definition_sync = context.definition_sync
        self._tasks = context.tasks
        self._inquiries = context.inquiries
        self._memory = context.memory
        self._removals = context.removals
