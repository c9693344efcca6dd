"""Releases objects of one Stack: removes the finalizer from finished work, and offers unwanted objects to its tree.

The finalizer of finished work is removed once its success is stored, or if there is nothing to store, even if the Stack
was suspended, rejected or deleted in the meantime. The revisions get a record of stored work, for a restore from a backup. An
offer is an annotation of the object for Stacks of the tree in
other processes. Stacks in the same process need no offer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import structlog

from hearth import answers
from hearth.engine import relatives
from hearth.engine.definition import finished_record
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import names, retry_delays
from hearth.model.child import FINALIZERS, UNPROVEN, Child, Object
from hearth.model.errors import ApiStatusError
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import run_policy
from hearth.plan.state.memory import ObservedChildren
from hearth.plan.state.resource_status import ResourceState

logger = structlog.get_logger(__name__)

TASK, RECORD_TASK = "release finished objects", "record finished work"
RELEASE = "release "
"""Prefix of the names of requests that release an object."""


class ReleasedObjects(StackPart):
    """The objects that one Stack is about to release."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._due: dict[str, Child] = {}
        """The objects to release, by UID."""
        self._held: dict[str, str] = {}
        """By UID: the resource of an object that is released as soon as the status reports it as finished."""
        self._recorded_version = 0
        """The version of the finished work in the record on the revisions."""

    @property
    def is_busy(self) -> bool:
        """Whether objects must be released, or finished work must be stored."""
        return bool(self._due or self._held) or self._memory.finished.has_unrecorded

    @property
    def is_releasing(self) -> bool:
        """Whether objects are being released."""
        return bool(self._due)

    @property
    def is_status_awaited(self) -> bool:
        """Whether an object that another client deletes waits for the status."""
        return bool(self._held)

    def note_written(self, status: Object) -> None:
        """Record the written status: its entries no longer need an object."""
        for name in self._memory.finished.note_written(status):
            self._services.queue.enqueue(self._uid, name)

    def update(self, keys: Iterable[str], planner: StackPlanner, children: ObservedChildren) -> None:
        """Release the objects of these resources that may be released, after they were planned."""
        for name in keys:
            for child in children.of(name):
                if names.FINALIZER_COMPLETION in child.finalizers and child.is_identified:
                    self._update_child(child, planner)
        for child in children.of(UNPROVEN):
            # The signature was lost, perhaps with the key. No other component removes the finalizer.
            is_abandoned = child.deleting or self._definition_sync.is_deleting
            if is_abandoned and child.is_labelled_by_us and names.FINALIZER_COMPLETION in child.finalizers:
                self._release_when_due(child)
        if self._due:
            self._tasks.run(TASK, self._release_all)
        finished = self._memory.finished
        if finished.version != self._recorded_version and not finished.has_unrecorded:
            self._inquiries.ask(RECORD_TASK, self._write_record, self._note_record, delay=retry_delays.FINISHED_RECORD)

    async def _write_record(self) -> int:
        """Write the finished work to the latest revision, as it is in the status; return its version."""
        stack, finished = self._services.management_cluster.find_stack(self._uid), self._memory.finished
        version = finished.version
        if stack is None or stack.deleting:
            return self._recorded_version
        await finished_record.write_record(finished.encode(), stack, self._services)
        return version

    def _note_record(self, version: int) -> bool:
        self._recorded_version = version
        return False

    def _update_child(self, child: Child, planner: StackPlanner) -> None:
        self._held.pop(child.uid, None)
        if self._must_stay(child, planner):
            if child.deleting and self._memory.finished.has(child.resource, child.hash):
                self._held[child.uid] = child.resource
            return
        self._release_when_due(child)

    def _release_when_due(self, child: Child) -> None:
        if self._inquiries.is_due(f"{RELEASE}{child.uid}"):
            self._due[child.uid] = child

    def _must_stay(self, child: Child, planner: StackPlanner) -> bool:
        """Return whether the object must stay, because it is the only record that its work is pending or finished."""
        name = child.resource
        if self._memory.finished.is_recorded(name, child.hash):
            return False
        if not child.deleting:
            return True
        if self._definition_sync.is_deleting or name not in planner.blueprint.resources:
            return False
        status = planner.statuses.get(name)
        if status is None or planner.is_suspended or status.state is ResourceState.WAITING:
            # The object is not assessed yet. If it reports success itself, it waits for the assessment.
            return run_policy.says_done(child.fields)
        is_settled = status.is_ready or (status.is_terminal and status.step is None)
        return is_settled and status.child is not None and status.child.uid == child.uid

    async def _release_all(self) -> None:
        """Release the objects one by one, including objects that become due in the meantime."""
        while self._due:
            uid, child = next(iter(self._due.items()))
            try:
                await self._inquiries.attempt(
                    f"{RELEASE}{uid}", self._release(child), delay=retry_delays.FINISHED_RELEASE, what=child.resource
                )
            finally:
                self._due.pop(uid, None)
        # The deletion of the Stack may wait for these releases.
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)

    async def _release(self, child: Child) -> None:
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return
        cluster = self._services.find_cluster(stack)
        exactly = {"uid": child.uid, "resourceVersion": str(child.resource_version)}
        finalizers: Sequence[str] = child.finalizers
        try:
            if FINALIZERS in child.omitted:
                live = await cluster.get(child.ref, kind=child.kind)
                finalizers = live["metadata"].get("finalizers") or ()
            left = [each for each in finalizers if each != names.FINALIZER_COMPLETION]
            await cluster.change(child.ref, {"metadata": {**exactly, "finalizers": left}}, kind=child.kind)
        except ApiStatusError as error:
            if not error.is_not_found:
                raise

    def offer(self, children: Iterable[Child]) -> None:
        """Offer objects that another process may want, once for each generation of the Stack."""
        if self._definition_sync.is_forbidden_to_write:
            return
        for child in children:
            annotations = child.fields["metadata"].get("annotations") or {}
            if annotations.get(names.ANNOTATION_OFFERED) != self._write(child):
                self._tasks.run(f"offer {child.uid}", functools.partial(self._offer, child))

    def _write(self, child: Child) -> str:
        generation, signer = self._definition_sync.generation, self._services.hashes
        return relatives.make_offer(child, owner=self._uid, generation=generation, signer=signer)

    async def _offer(self, child: Child) -> None:
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return
        patch = {
            "metadata": {
                "uid": child.uid,
                "resourceVersion": str(child.resource_version),
                "annotations": {names.ANNOTATION_OFFERED: self._write(child)},
            }
        }
        change = self._services.find_cluster(stack).change(child.ref, patch, kind=child.kind)
        if error := await answers.find_error(change):
            # The next check of the object offers it again.
            logger.info("offer failed", stack=stack.uid, object=str(child.ref), error=str(error))
