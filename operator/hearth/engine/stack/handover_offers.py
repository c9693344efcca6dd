"""Offers of objects that a Stack does not want any more to the Stacks of its tree that other processes work on.

An offer is an annotation of the object. Within one process no offer is needed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import structlog

from hearth.engine import relatives
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.model import names
from hearth.model.child import Child
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.plan.stack.stack_planner import StackPlanner

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class HandoverOffers:
    """The offers of one Stack."""

    uid: str
    services: Services
    definition_sync: DefinitionSync
    tasks: NamedTasks

    def update(self, planner: StackPlanner) -> None:
        """Offer what another process may want, once for each generation of the Stack."""
        if self.definition_sync.options.is_paused:
            return
        for each in planner.withheld.values():
            annotations = each.child.fields["metadata"].get("annotations") or {}
            if each.claim.is_foreign and annotations.get(names.ANNOTATION_OFFERED) != self._write(each.child):
                self.tasks.run(f"offer {each.child.uid}", functools.partial(self._offer, each.child))

    def _write(self, child: Child) -> str:
        generation, signer = self.definition_sync.generation, self.services.hashes
        return relatives.make_offer(child, owner=self.uid, generation=generation, signer=signer)

    async def _offer(self, child: Child) -> None:
        stack = self.services.management_cluster.find_stack(self.uid)
        if stack is None:
            return
        patch = {
            "metadata": {
                "uid": child.uid,
                "resourceVersion": str(child.resource_version),
                "annotations": {names.ANNOTATION_OFFERED: self._write(child)},
            }
        }
        try:
            await self.services.find_cluster(stack).change(child.ref, patch, kind=child.kind)
        except (ApiStatusError, Unreachable) as error:
            # The next look at the object offers it again.
            logger.info(
                "offer failed", stack=f"{stack.namespace}/{stack.name}", object=str(child.ref), error=str(error)
            )
