"""Lists the resources that wait at breakpoints, decides whether other steps can proceed, and describes both."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Collection, Iterator, Sequence

from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.phases import ConditionType
from hearth.model.text import enumeration
from hearth.plan.environment import active_environment
from hearth.plan.environment.environment_rules import Action, EnvironmentRule
from hearth.plan.resource import enforcement, step_planning
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.condition_types import TOO_MANY_REMOVED, ExtraCondition
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.target import approved_steps

NAMED_AT_MOST = 20
"""Maximum entries of a list in the status."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BreakpointWait:
    """A resource that waits at a breakpoint until the user continues it."""

    resource: str
    hook: str
    ref: ObjectRef | None = None
    """The object, if it is known."""
    stack: str = ""
    """The name of the nested Stack that the resource belongs to; "" for this Stack."""

    @property
    def continue_value(self) -> str:
        """Return the annotation value, on the Stack of the resource, that continues it."""
        return active_environment.breakpoint_key(self.resource.rpartition("/")[2], self.hook)

    def __str__(self) -> str:
        called = f"{self.resource} ({self.ref})" if self.ref is not None else self.resource
        return f"{called} {enforcement.HOOK_TEXTS[self.hook]}"


STACK = names.STACK.lower()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackAddress:
    """The Stack's identity in a command."""

    name: str = ""
    namespace: str = ""
    kind: str = STACK
    """The kind as kubectl takes it: `stack`, `resourcegroup`, `webapp.platform.example`."""

    def write_request(self, verb: str) -> str:
        """Return the command for a request: `retry` or `cleanup`. The plugin makes a token that was never used."""
        scope = f" -n {self.namespace}" if self.namespace else ""
        return f"kubectl stack {verb} {self._argument}{scope}"

    @property
    def _argument(self) -> str:
        """Return the Stack as an argument of the plugin: `shop`, `resourcegroup/queue`, `webapp.platform.example/shop`."""
        return self.name if self.kind == STACK else f"{self.kind}/{self.name}"

    def write_continue(self, wait: BreakpointWait) -> str:
        """Return the commands that continue a resource, with and without the plugin.

        The token is the time, because a value that was handled before has no effect. A nested Stack is always a Stack,
        in the namespace of its parent. Its users can write its status, so values from it are quoted for the shell.
        """
        kind = STACK if wait.stack else self.kind
        name, value = shlex.quote(wait.stack or self.name), shlex.quote(wait.continue_value)
        argument = shlex.quote(wait.stack or self._argument)
        scope = f" -n {self.namespace}" if self.namespace else ""
        plugin = f"kubectl stack continue {argument} {value}{scope}, or "
        annotate = f"kubectl annotate --overwrite {kind} {name}{scope} {names.REQUEST_CONTINUE}={value}@$(date +%s)"
        return plugin + annotate


def find_waits(planner: StackPlanner) -> Iterator[BreakpointWait]:
    """Find all waits, one for several objects of a removed resource.

    They are sorted by name, so that a restart does not change them.
    """
    for name, hook in sorted(planner.stopped.items()):
        yield BreakpointWait(resource=name, hook=hook, ref=planner.statuses[name].ref)
    seen = set()
    for held in sorted(
        planner.deletion_guard.held_deletions.values(), key=lambda each: (each.child.resource, each.child.name)
    ):
        if not (held.is_denied or held.is_excessive) and held.child.resource not in seen:
            seen.add(held.child.resource)
            yield BreakpointWait(
                resource=held.child.resource, hook=enforcement.BEFORE[Action.DELETE], ref=held.child.ref
            )
    for _, part in sorted(planner.held_parts.items()):
        if part.rule is None and part.step.resource not in seen:
            seen.add(part.step.resource)
            yield BreakpointWait(resource=part.step.resource, hook=enforcement.BEFORE[part.action], ref=part.step.ref)
    for name in sorted(planner.find_post_delete_stops()):
        yield BreakpointWait(resource=name, hook=enforcement.AFTER[Action.DELETE])
    for name in sorted(planner.by_state[ResourceState.STOPPED]):
        yield from _find_waits_within(name, planner.statuses[name])


def _find_waits_within(name: str, status: ResourceStatus) -> Iterator[BreakpointWait]:
    """Find the waits within the nested Stack of a resource, by path."""
    for stop in status.nested_stops:
        ref = ObjectRef(group="", kind=stop.kind, namespace="", name=stop.name) if stop.name else None
        yield BreakpointWait(resource=f"{name}/{stop.resource}", hook=stop.hook, ref=ref, stack=stop.stack)


def is_stopped(planner: StackPlanner, memory: InMemoryState) -> bool:
    """Return whether a resource waits at a breakpoint or for a person's consent, and no other step can proceed.

    The obsolete objects are checked only if a resource waits.
    """
    is_moving = planner.ready_steps or memory.in_flight or planner.kinds.unsynced
    if is_moving or planner.by_state[ResourceState.PROGRESSING] or planner.by_state[ResourceState.RETRYING]:
        return False
    unplanned = {key for key, attempt in memory.attempts.items() if attempt.is_outside_plan}
    if next(find_waits(planner), None) is None and not has_excess(planner) and not unplanned:
        return False
    waiting = planner.requeues.keys() - unplanned
    return not any(child.deleting or uid in waiting for uid, child in planner.cleanup.children.items())


def has_excess(planner: StackPlanner) -> bool:
    """Return whether deletions wait for the user's consent, because the change removes too many resources."""
    return planner.deletion_guard.excess is not None and any(
        each.is_excessive for each in planner.deletion_guard.held_deletions.values()
    )


def explain_excess(planner: StackPlanner, address: StackAddress) -> str:
    """Describe the deletions that wait for consent, and how to allow or avoid them. address: the Stack."""
    excess = planner.deletion_guard.excess
    removed = excess.removed if excess is not None else ()
    staying = (each for each in planner.cleanup.children.values() if each.resource in removed)
    kept = (each for each in staying if not (each.deleting or step_planning.is_retained(each, planner.blueprint)))
    refs = enumeration.enumerate_names(sorted(str(each.ref) for each in kept))
    return (
        f"{excess}, so their objects stay: {refs}; to delete them: "
        f"{address.write_request('cleanup')}; to keep them, restore the resources"
    )


def explain_unplanned(memory: InMemoryState) -> str:
    """Describe the writes that the approved plan does not contain; "" without one."""
    waiting = [attempt.message for _, attempt in sorted(memory.attempts.items()) if attempt.is_outside_plan]
    return enumeration.enumerate_clauses(waiting, count=len(waiting)) if waiting else ""


def find_stop(planner: StackPlanner, memory: InMemoryState, address: StackAddress) -> tuple[str, str]:
    """Return reason and message of `Ready` for a stopped Stack. address: the Stack."""
    if unplanned := explain_unplanned(memory):
        return approved_steps.REASON, unplanned
    if next(find_waits(planner), None) is None:
        return TOO_MANY_REMOVED, explain_excess(planner, address)
    return ConditionType.STOPPED, explain(planner, address)


def explain(planner: StackPlanner, address: StackAddress) -> str:
    """Describe which resources wait at which breakpoint, and how to continue them. address: the Stack."""
    waits = list(find_waits(planner))
    named = enumeration.enumerate_clauses(map(str, waits), count=len(waits))
    rules = planner.environment.rules.breakpoints
    where = rules[0].where_defined if rules else ""
    also = f"; {explain_excess(planner, address)}" if has_excess(planner) else ""
    return (
        f"stopped at a breakpoint: {named}; to continue: {address.write_continue(waits[0])}; "
        f"or remove the entry from spec.environment.breakpoints{where}{also}"
    )


def find_condition(planner: StackPlanner, address: StackAddress) -> Iterator[ExtraCondition]:
    """Return the condition while any resource waits, independent of other steps. address: the Stack."""
    if next(find_waits(planner), None) is not None:
        yield ExtraCondition(type=ConditionType.STOPPED, reason="Breakpoint", message=explain(planner, address))
    elif has_excess(planner):
        message = explain_excess(planner, address)
        yield ExtraCondition(type=ConditionType.STOPPED, reason=TOO_MANY_REMOVED, message=message)


def list_waits(planner: StackPlanner) -> list[Object]:
    """List the first waits for a status."""
    return [_entry(wait) for wait in itertools.islice(find_waits(planner), NAMED_AT_MOST)]


def _entry(wait: BreakpointWait) -> Object:
    entry: Object = {"resource": wait.resource, "hook": wait.hook}
    if wait.ref is not None:
        entry.update(kind=wait.ref.kind, name=wait.ref.name)
    if wait.stack:
        entry["stack"] = wait.stack
    return entry


def warn(planner: StackPlanner) -> list[str]:
    """Describe the rules that match no resource, as many as a status may name."""
    external = planner.blueprint.externals.keys()
    return [describe_idle_rule(rule, external) for rule in itertools.islice(planner.find_idle_rules(), NAMED_AT_MOST)]


def describe_idle_rule(rule: EnvironmentRule, external: Collection[str]) -> str:
    """Describe a rule that matches no resource. external: the resources that the Stack only reads."""
    if rule.resource in external:
        return (
            f"{rule.place}: resource {rule.resource!r} is an externalRef, which is only read and never written, so this "
            f"entry has no effect"
        )
    return f"{rule.place}: there is no {_call(rule)} now, so this entry has no effect"


def warn_polled(sources: Sequence[str]) -> Iterator[str]:
    """Describe that the operator polls these sources, so that it notices changes late."""
    if sources:
        yield (
            f"{enumeration.enumerate_names(sources)}: changes are detected by polling every {limits.SOURCE_POLL:.0f} s "
            f"because the operator is not allowed to watch all objects of that kind "
            f"and already has {limits.SOURCE_WATCHES} watches of single objects"
        )


def _call(rule: EnvironmentRule) -> str:
    """Name the resource that a rule does not find."""
    if not rule.is_nested:
        return f"resource {rule.resource!r}"
    first, _, _ = rule.resource.partition("/")
    return f"nested Stack {first!r} for the path {rule.resource!r}"
