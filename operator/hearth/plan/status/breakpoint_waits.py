"""Who waits at which breakpoint of a Stack, whether anything else can move, and the words for both."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hearth.model import limits
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.plan.environment import cleared_breakpoints
from hearth.plan.environment.environment_rules import Action, EnvironmentRule
from hearth.plan.resource import enforcement, readiness
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_conditions import ExtraCondition
from hearth.plan.state.resource_status import ResourceState, ResourceStatus

TYPE = "Stopped"
"""Of the condition."""
NAMED_AT_MOST = 20
"""In the list of the status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakpointWait:
    """Somebody who goes on when the user says so."""

    resource: str
    hook: str
    ref: ObjectRef | None = None
    """The object, as far as that is known."""
    stack: str = ""
    """The name of the nested Stack that it is a resource of; "" where it is one of this Stack."""

    @property
    def continue_value(self) -> str:
        """What lets it go on, as the Stack that it belongs to is to be told."""
        return cleared_breakpoints.breakpoint_key(self.resource.rpartition("/")[2], self.hook)

    def __str__(self) -> str:
        called = f"{self.resource} ({self.ref})" if self.ref is not None else self.resource
        return f"{called} {enforcement.HOOK_TEXTS[self.hook]}"


def find_waits(board: StackPlanner) -> Iterator[BreakpointWait]:
    """All of them; of several objects of one removed resource one."""
    for name, hook in board.stopped.items():
        yield BreakpointWait(resource=name, hook=hook, ref=board.statuses[name].ref)
    seen = set()
    for held in board.deletion_guard.held_deletions.values():
        if held.rule is None and held.child.resource not in seen:
            seen.add(held.child.resource)
            yield BreakpointWait(
                resource=held.child.resource, hook=enforcement.BEFORE[Action.DELETE], ref=held.child.ref
            )
    for name in board.find_post_delete_stops():
        yield BreakpointWait(resource=name, hook=enforcement.AFTER[Action.DELETE])
    for name in board.by_state[ResourceState.STOPPED]:
        yield from _find_waits_within(name, board.statuses[name])


def _find_waits_within(name: str, standing: ResourceStatus) -> Iterator[BreakpointWait]:
    """Who waits within the nested Stack that stands for a resource, by paths."""
    for stop in standing.nested_stops:
        ref = ObjectRef(group="", kind=stop.kind, namespace="", name=stop.name) if stop.name else None
        yield BreakpointWait(resource=f"{name}/{stop.resource}", hook=stop.hook, ref=ref, stack=stop.stack)


def is_stopped(board: StackPlanner, memory: InMemoryState) -> bool:
    """Whether somebody waits at a breakpoint, and nothing else can move. Looks at the obsolete objects then."""
    is_moving = board.ready_steps or memory.in_flight or board.unsynced
    if is_moving or board.by_state[ResourceState.PROGRESSING] or board.by_state[ResourceState.RETRYING]:
        return False
    if next(find_waits(board), None) is None:
        return False
    return not any(child.deleting or uid in board.requeues for uid, child in board.cleanup.children.items())


def explain(board: StackPlanner) -> str:
    """Who waits where, and how they go on."""
    waits = list(find_waits(board))
    named = "; ".join(str(wait) for wait in waits[: readiness.NAMED_AT_MOST])
    more = len(waits) - readiness.NAMED_AT_MOST
    others = f"; and {more} more" if more > 0 else ""
    stack = f"Stack {waits[0].stack}" if waits[0].stack else "the Stack"
    rules = board.environment.rules.breakpoints
    where = rules[0].where_defined if rules else ""
    return (
        f"stopped at a breakpoint: {named}{others}; to go on, annotate {stack} with hearth.dev/continue: "
        f"{waits[0].continue_value}, or take the entry out of spec.environment.breakpoints{where}"
    )


def find_condition(board: StackPlanner) -> Iterator[ExtraCondition]:
    """The condition while anybody waits, whatever else goes on."""
    if next(find_waits(board), None) is not None:
        yield ExtraCondition(type=TYPE, reason="Breakpoint", message=explain(board))


def list_waits(board: StackPlanner) -> list[Object]:
    """The first of them as a status lists them."""
    return [_entry(wait) for wait in itertools.islice(find_waits(board), NAMED_AT_MOST)]


def _entry(wait: BreakpointWait) -> Object:
    entry: Object = {"resource": wait.resource, "hook": wait.hook}
    if wait.ref is not None:
        entry.update(kind=wait.ref.kind, name=wait.ref.name)
    if wait.stack:
        entry["stack"] = wait.stack
    return entry


def warn(board: StackPlanner) -> list[str]:
    """The rules that are about no resource that is there, in words, as many as a status may name."""
    return [
        f"{rule.place}: there is no {_call(rule)} now, so this entry does nothing"
        for rule in itertools.islice(board.find_idle_rules(), NAMED_AT_MOST)
    ]


def warn_polled(sources: Sequence[str]) -> Iterator[str]:
    """That changes of these sources are noticed late, in words."""
    if sources:
        yield (
            f"{readiness.enumerate_names(sources)}: a change is noticed by polling every {limits.SOURCE_POLL:.0f} s, since the operator "
            f"may not watch all objects of that kind and has {limits.SOURCE_WATCHES} watches of single ones already"
        )


def _call(rule: EnvironmentRule) -> str:
    """What a rule is missing."""
    if not rule.is_nested:
        return f"resource {rule.resource!r}"
    first, _, _ = rule.resource.partition("/")
    return f"nested Stack {first!r} for the path {rule.resource!r}"
