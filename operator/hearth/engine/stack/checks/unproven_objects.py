"""Report of objects that carry a Stack's label without its signature, once per object.

Changes none of them. `hearth.plan.resource.unproven` first decides which of them a resource adopts.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from hearth.engine.cluster_objects import StackObject
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.model import limits, names, packing
from hearth.model.child import UNPROVEN, Child
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.stack.stack_plan import StackPlan

logger = structlog.get_logger(__name__)

REASON = "UnprovenObjects"
"""Reason of the Event."""


class UnprovenObjects:
    """The unproven objects of one Stack in this process."""

    def __init__(self, uid: str, *, services: Services, tasks: NamedTasks) -> None:
        """Prepare the report. It names nothing before `refresh`."""
        self._uid = uid
        self._services = services
        self._tasks = tasks
        self._seen: tuple[Child, ...] = ()
        self._named: frozenset[str] = packing.NOTHING

    @property
    def has_any(self) -> bool:
        """Whether there are any; each is reported once in the life of this object."""
        return bool(self._seen)

    def refresh(self, stack: StackObject, plan: StackPlan) -> None:
        """Report new objects after a reconcile with nothing left to do, or while the Stack is being deleted."""
        found = self._services.find_children_cluster(self._uid).children_of(self._uid, UNPROVEN)
        if found is self._seen or not (stack.deleting or plan.is_complete):
            return
        self._seen = found
        new = [child for child in found if child.uid not in self._named][: limits.UNPROVEN_NAMED - len(self._named)]
        if new:
            self._named |= {child.uid for child in new}
            message = describe(new)
            logger.warning("objects without signature", stack=f"{stack.namespace}/{stack.name}", message=message)
            self._tasks.run("unproven", lambda: self._emit(stack, message))

    async def _emit(self, stack: StackObject, message: str) -> None:
        await self._services.management_cluster.emit_event(stack, type_="Warning", reason=REASON, message=message)


def describe(children: Sequence[Child]) -> str:
    """Describe the objects for the user."""
    named = enumerate_names(
        [f"{child.ref} in {child.namespace}" if child.namespace else str(child.ref) for child in children]
    )
    return (
        f"without a valid {names.ANNOTATION_SIGNATURE}: {named}. Their label {names.LABEL_STACK_UID} names this Stack, but it "
        f"did not sign them, so they are not its children and are not touched. Delete them if they are not needed, "
        f"or remove the label"
    )
