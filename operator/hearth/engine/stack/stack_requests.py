"""Requests of one Stack's user through annotations and options: retries, cleanups, breakpoints, and pauses.

`hearth.dev/continue` clears the breakpoint of one resource. If the resource waits at no breakpoint, an Event reports
that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import finished_record, target_tracker
from hearth.engine.stack import protection
from hearth.engine.stack.stack_deletion import StackDeletion
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.model import members, names, phases, value_class
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.resource import enforcement
from hearth.plan.stack.plan_index import PlanResult
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.status import breakpoint_waits
from hearth.plan.status.breakpoint_waits import BreakpointWait, StackAddress

COMPLETE = frozenset(str(phase) for phase in phases.Phase if str(phase).endswith("Complete")) - {"SuspendComplete"}
"""The phases of a Stack without failures."""
MAX_ECHO = 120
"""Characters of a request that an answer repeats."""


class StackRequests(StackPart):
    """Requests of one Stack's user that are not part of its definition."""

    def __init__(self, context: StackContext, *, deletion: StackDeletion) -> None:
        super().__init__(context)
        self._deletion = deletion
        self._made_of: tuple[object, ...] = ()
        """The inputs of the current environment."""
        self._environment = active_environment.UNRESTRICTED

    @property
    def is_paused(self) -> bool:
        """Whether all steps are forbidden: by a pause, which a terminating namespace ends, or by the protection of a deleted Stack."""
        if self._definition_sync.protected_by:
            return True
        return self._definition_sync.options.is_paused and not self._deletion.is_namespace_terminating

    def apply_requests(self, stack: StackObject) -> set[DirtyItem]:
        """Apply the requests; return the resources that became dirty."""
        clock, targets = self._services.clock, self._definition_sync.targets
        was_protected = self._definition_sync.options.is_protected
        self._definition_sync.read_options(stack)
        if self._definition_sync.options.is_protected != was_protected:
            protection.notify_outer(self._uid, self._services)
        self._deletion.note_protection(stack)
        targets.follow_suspend(is_suspended=self._definition_sync.is_suspended, now=clock.now())
        if not self._memory.finished.is_loaded:
            finished_record.load_finished(self._memory.finished, targets.stored_finished, stack, self._services)
            targets.stored_finished = None
        is_settled = not (self._definition_sync.needs_sync(stack) or self._definition_sync.schedule.is_running)
        verbs = targets.take_requests(stack, is_settled=is_settled)
        if not target_tracker.RETRIES.isdisjoint(verbs):
            self._memory.retry(clock.monotonic())
            self._memory.asks_all = True
            resource, is_named, _ = stack.annotations.get(names.REQUEST_RETRY, "").partition("/")
            # Retry failures after a rollback without ending the rollback. The same applies to the rollback of a nested
            # Stack, and to a request that names finished work.
            is_own = target_tracker.RETRY in verbs and not is_named
            ends_rollback = is_own and stack.phase in COMPLETE and targets.is_rolled_back
            if not ends_rollback:
                self._run_again(stack, resource)
            self._definition_sync.request_retry(ends_rollback=ends_rollback)
        if target_tracker.CLEANUP in verbs:
            targets.waive_cleanup()
            if self._definition_sync.blueprint is not None:
                self._removals.release(self._definition_sync.blueprint)
        return {DirtyScope.ALL_RESOURCES} if verbs else set()

    def _run_again(self, stack: StackObject, resource: str) -> None:
        """Forget the finished work that a retry request concerns: of the resource that it names, otherwise of a
        complete Stack.

        Completion is read from the status, because this process may not have planned anything yet. A retry of failed
        work must not rerun successful work.
        """
        finished = self._memory.finished
        if resource in finished.entries:
            finished.forget(resource)
        elif stack.phase in COMPLETE:
            for name in list(finished.entries):
                finished.forget(name)

    def find_environment(self) -> ActiveEnvironment:
        """Return the restrictions on the steps; the same value while nothing changes."""
        # If the whole namespace is being deleted, nothing can be stopped.
        is_swept_away = self._deletion.is_namespace_terminating
        made_of = (
            self._definition_sync.options.environment,
            self._definition_sync.targets.current,
            self._definition_sync.resources.version,
            is_swept_away,
        )
        if made_of != self._made_of:
            self._made_of = made_of
            self._environment = (
                active_environment.UNRESTRICTED if is_swept_away else self._definition_sync.find_environment()
            )
        return self._environment

    def record_deletions(self, parting: Mapping[str, Sequence[str]]) -> None:
        """Record the deletions that a plan prepares, for the stops after them; the next plan executes them."""
        if parting:
            self._definition_sync.targets.record_post_delete(parting)
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)

    def after_plan(
        self, stack: StackObject, planner: StackPlanner, plan_result: PlanResult, *, grace_left: float
    ) -> None:
        """Handle continue requests after a plan. grace_left: seconds until the caches are complete."""
        targets = self._definition_sync.targets
        if self._definition_sync.needs_sync(stack):
            return
        order = targets.find_continue_request(stack)
        if grace_left > 0:
            if order:
                self._services.enqueue_after(grace_left, self._uid, DirtyScope.STACK)
            return
        is_held = self._definition_sync.is_forbidden_to_write or self._definition_sync.cluster.problem is not None
        targets.note_idle(is_idle=is_held or plan_result.is_stopped, now=self._services.clock.now())
        # A restore stops at a breakpoint only after its claims were read. Before that, no resource waits there.
        is_early = self._definition_sync.is_halting and not planner.held_parts
        if order and not is_early:
            self._obey(stack, planner, order)

    def _obey(self, stack: StackObject, planner: StackPlanner, order: str) -> None:
        answer = answer_continue(order, planner, find_address(stack))
        self._definition_sync.targets.record_continue(order, answer.passed)
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)
        emit = self._services.management_cluster.emit_event
        type_, reason = ("Normal", "Continued") if answer.passed else ("Warning", "BreakpointNotFound")
        self._tasks.run(order, lambda: emit(stack, type_=type_, reason=reason, message=answer.message))


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ContinueResult:
    """The result of one request."""

    message: str
    passed: tuple[tuple[str, str], ...] = ()
    """The resource and its hook; several for members that wait at different hooks, none if no resource waits."""


def parse_continue(order: str) -> tuple[str, str]:
    """Return resource and hook, "" for any, of `<resource>[/<hook>][@<token>]`."""
    target = order.partition("@")[0]
    resource, _, hook = target.rpartition("/")
    return (resource, hook) if hook in enforcement.HOOKS else (target, "")


def find_address(stack: StackObject | None) -> StackAddress:
    """Return the Stack's address for commands, or an empty one if it was deleted."""
    if stack is None:
        return StackAddress()
    return StackAddress(name=stack.name, namespace=stack.namespace, kind=stack.kind.lower())


def answer_continue(order: str, planner: StackPlanner, address: StackAddress) -> ContinueResult:
    """Answer a request to the Stack `address` after all resources were observed."""
    resource, hook = parse_continue(order)
    waiting = list(breakpoint_waits.find_waits(planner))
    if passed := find_members(resource, hook, waiting):
        message = f"all members continue past {', '.join(each for _, each in passed)}, as hearth.dev/continue requests"
        return ContinueResult(message=message, passed=passed)
    found = next((wait for wait in waiting if wait.resource == resource and hook in ("", wait.hook)), None)
    if found is not None and found.stack:
        # Do not write the request to the nested Stack: it applies once, and a copy in a manifest would conflict with
        # later requests to that Stack.
        message = (
            f"hearth.dev/continue: {order[:MAX_ECHO]}: {found.resource} belongs to the nested Stack {found.stack}; "
            f"continue it there: {address.write_continue(found)}"
        )
        return ContinueResult(message=message)
    if found is not None:
        message = f"{resource} continues past {found.hook}, as hearth.dev/continue requests"
        return ContinueResult(message=message, passed=((resource, found.hook),))
    keys = [active_environment.breakpoint_key(wait.resource, wait.hook) for wait in waiting[:5]]
    there = "no resource waits at a breakpoint"
    if keys:
        there = f"waiting breakpoints: {', '.join(keys)}; to continue the first: {address.write_continue(waiting[0])}"
    return ContinueResult(
        message=f"hearth.dev/continue: {order[:MAX_ECHO]}: no resource waits there; {there}{_advise(resource, planner)}"
    )


def find_members(resource: str, hook: str, waiting: Iterable[BreakpointWait]) -> tuple[tuple[str, str], ...]:
    """Return the hooks where members of a collection wait, if the request is for all of them; otherwise none.

    resource: `workers[*]`, or `*` for the members of a group.
    """
    if resource == members.EVERY and all(members.is_group_member(each.resource) for each in waiting):
        resource = members.name_all(members.GROUP_MEMBER)
    if not members.is_all(resource):
        return ()
    found = (each for each in waiting if members.is_among(each.resource, {resource}) and hook in ("", each.hook))
    return tuple(dict.fromkeys((resource, each.hook) for each in found))


def _advise(resource: str, planner: StackPlanner) -> str:
    """Name the nested Stack that a path leads into. A Stack being deleted accepts no requests."""
    first, slash, rest = resource.partition("/")
    status = planner.statuses.get(first)
    children = [status.child] if status is not None and status.child is not None else []
    children += [child for child in planner.cleanup.children.values() if child.resource == first]
    if not slash or not children:
        return ""
    return f"; if {rest[:MAX_ECHO]} waits within {children[0].ref}, continue it there"
