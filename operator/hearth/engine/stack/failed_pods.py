"""Reads why a workload failed from its Pods, once before an automatic rollback deletes them."""

from __future__ import annotations

from typing import Final

from hearth import answers
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import label_selectors, object_fields
from hearth.model.child import Child, Object
from hearth.model.kinds import ObjectRef
from hearth.model.text import redaction
from hearth.plan.health import object_reports
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.target.target import Target

SELECTING: Final = frozenset({"Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps"})
"""Kinds by `Kind.key` whose Pods are selected by the `matchLabels` of their selector."""
UNFINISHED: Final = (ResourceState.FAILED, ResourceState.RETRYING, ResourceState.PROGRESSING)


class FailedPods(StackPart):
    """Error messages from the Pods of a failed workload, read once per target."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._attempt: tuple[int, float] | None = None
        """Revision and start of the target whose Pods were read."""
        self._found: str | None = None
        """The messages of the Pods; None while they are being read."""

    def find(self, target: Target, planner: StackPlanner) -> str | None:
        """Return the messages of the Pods of a workload that is not ready, "" for none; None while they are being read."""
        attempt = (target.revision, target.since)
        if attempt != self._attempt:
            self._attempt, self._found = attempt, ""
            if (workload := find_workload(planner)) is not None:
                self._found = None
                child, labels = workload
                self._tasks.run("cause of a failure", lambda: self._read(attempt, child, labels))
        return self._found

    async def _read(self, attempt: tuple[int, float], child: Child, labels: str) -> None:
        """Read the Pods as the account of the Stack. The target then fails in any case."""
        said = ""
        try:
            said = await answers.find_answer(self._list_and_explain(child, labels), "")
        finally:
            if attempt == self._attempt:
                self._found = said
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)

    async def _list_and_explain(self, child: Child, labels: str) -> str:
        stack = self._services.management_cluster.find_stack(self._uid)
        pods = ObjectRef(group="", kind="Pod", namespace=child.namespace, name="")
        if stack is None or self._services.find_boundary(stack).find_denial(pods):
            return ""
        found = await self._services.find_cluster(stack).list_pods(child.namespace, labels=labels)
        own = [pod for pod in found if is_owned(pod, child)]
        return redaction.redact(object_reports.explain_pods(own), self._definition_sync.hidden_texts)


def find_workload(planner: StackPlanner) -> tuple[Child, str] | None:
    """Return the first workload that is not ready, with the selector of its Pods, or None if all are ready."""
    names = sorted(name for state in UNFINISHED for name in planner.by_state[state])
    for name in names:
        child, desired = planner.statuses[name].child, planner.find_desired(name)
        if child is None or desired is None or child.kind.key not in SELECTING:
            continue
        labels = object_fields.mapping(desired.manifest, "spec", "selector", "matchLabels")
        if labels:
            return child, label_selectors.write_labels(labels)
    return None


def is_owned(pod: Object, child: Child) -> bool:
    """Return whether a Pod is of the workload, or of a ReplicaSet with the name that a Deployment gives its own."""
    return any(
        object_fields.text(owner, "uid") == child.uid
        or (
            object_fields.text(owner, "kind") == "ReplicaSet"
            and object_fields.text(owner, "name").rpartition("-")[0] == child.name
        )
        for owner in object_fields.entries(pod, "metadata", "ownerReferences")
    )
