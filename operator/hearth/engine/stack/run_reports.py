"""Events about work of one Stack that ran and failed: the exit code and the last words of the container that failed.

Read once for each failure, as the account of the Stack; what it may not read is left out. May be lost at any time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import ObjectRef
from hearth.model.text import redaction
from hearth.plan.health import run_end
from hearth.plan.retry import error_message
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import run_policy
from hearth.plan.state.resource_status import ResourceStatus

REASON = "RunFailed"
OUTLOOK = "its object stays to be looked at until it is run again"
CONTROLLER_LABEL = "batch.kubernetes.io/controller-uid"
"""The label of the pods of a Job, with the UID of the Job."""


class RunReports:
    """The failed work of one Stack that is reported."""

    def __init__(self, uid: str, *, services: Services, definition_sync: DefinitionSync, tasks: NamedTasks) -> None:
        """Prepare. It reads nothing before `report`."""
        self._uid = uid
        self._services = services
        self._definition_sync = definition_sync
        self._tasks = tasks

    def report(self, names: Iterable[str], planner: StackPlanner) -> None:
        """Report the resources whose object has just failed, as far as it runs to completion."""
        for name in names:
            status, desired = planner.statuses[name], planner.find_desired(name)
            is_run = desired is not None and desired.resource.run is not None
            if is_run and status.child is not None and status.child.unhealthy_reason is None:
                self._tasks.run(f"end of {name}", functools.partial(self._report, name, status, status.child))

    async def _report(self, name: str, status: ResourceStatus, child: Child) -> None:
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return
        end = await self._find_words(stack, child)
        parts = "; ".join(part for part in (status.message, end, OUTLOOK) if part)
        text = redaction.redact(f"{name} ({child.ref}) failed: {parts}", self._definition_sync.hidden_texts)
        message = error_message.shorten(text, length=error_message.LONGEST_MESSAGE)
        await self._services.management_cluster.emit_event(stack, type_="Warning", reason=REASON, message=message)

    async def _find_words(self, stack: StackObject, child: Child) -> str:
        """Return how the work ended in the words of its container; "" if that cannot be read."""
        try:
            end = run_end.find(await self._get_pods(stack, child))
        except (ApiStatusError, Unreachable):
            return ""
        if end is None or self._services.find_boundary(stack).find_denial(pod_ref(end)):
            return ""
        try:
            log = await self._services.find_cluster(stack).get_log_end(
                pod_ref(end), container=end.container, limit=run_end.LOG_BYTES
            )
        except (ApiStatusError, Unreachable):
            log = ""
        return run_end.describe(end, log, hidden=self._definition_sync.hidden_texts)

    async def _get_pods(self, stack: StackObject, child: Child) -> list[Object]:
        cluster = self._services.find_cluster(stack)
        match child.kind.key:
            case run_policy.POD:
                return [await cluster.get(child.ref, kind=child.kind)]
            case run_policy.JOB:
                found = await cluster.list_pods(child.namespace, labels=f"{CONTROLLER_LABEL}={child.uid}")
                return [pod for pod in found if is_owned(pod, child.uid)]
            case _:
                return []


def pod_ref(end: run_end.RunEnd) -> ObjectRef:
    """Return the pod of the container that failed."""
    return ObjectRef(group="", kind="Pod", namespace=end.namespace, name=end.pod)


def is_owned(pod: Object, uid: str) -> bool:
    """Return whether the pod has that owner. Anyone who writes pods can give one the labels of another."""
    return any(each.get("uid") == uid for each in pod["metadata"].get("ownerReferences") or ())
