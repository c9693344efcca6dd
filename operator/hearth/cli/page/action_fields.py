"""What the user enters or chooses for an action. Must not know what an action writes."""

from __future__ import annotations

from hearth.cli import object_fields
from hearth.cli.stack_access import owned_objects, revisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.lists import revision_history
from hearth.cli.stack_views.stack_state import StackState
from hearth.kube.well_known_kinds import STACK_SNAPSHOT
from hearth.model import limits, value_class

REASON_LENGTH = 1_024


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One value to choose."""

    value: str
    label: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One input of a form."""

    name: str
    label: str
    type: str = "select"
    """`select`, `text` or `number`."""
    value: str = ""
    options: tuple[Option, ...] = ()
    most: int = 0
    """Characters of a text, or the largest number."""


async def find_none(session: Session, stack: StackState) -> tuple[Field, ...]:  # noqa: ARG001 -- as all of them
    """Return no field."""
    return ()


async def find_revisions(session: Session, stack: StackState) -> tuple[Field, ...]:
    """Return the choice of a revision, the latest first."""
    stored = await revisions.list_revisions(session, stack)
    options = [Option(value="0", label="the last completed one other than that in the spec")]
    for number in sorted(stored.by_number, reverse=True):
        state, _ = revision_history.describe_state(number, stack)
        options.append(Option(value=str(number), label=f"{number} ({state})" if state else str(number)))
    return (Field(name="to", label="Revision", options=tuple(options)),)


async def find_breakpoints(session: Session, stack: StackState) -> tuple[Field, ...]:  # noqa: ARG001 -- as all of them
    """Return the choice of a breakpoint at which a resource waits."""
    waiting = [str(entry) for entry in stack.breakpoints]
    options = tuple(Option(value=each, label=safe_text.one_line(each)) for each in waiting)
    return (Field(name="where", label="Breakpoint", options=options),) if options else ()


async def find_snapshots(session: Session, stack: StackState) -> tuple[Field, ...]:
    """Return the choice of a snapshot of this Stack."""
    found = await owned_objects.list_allowed(session, STACK_SNAPSHOT, stack.namespace)
    options = tuple(
        Option(value=name, label=safe_text.one_line(f"{name} ({object_fields.text(each, 'status', 'phase') or 'new'})"))
        for each in found
        if object_fields.text(each, "spec", "stackName") == stack.name
        and (name := object_fields.text(each, "metadata", "name"))
    )
    return (Field(name="snapshot", label="Snapshot", options=options),) if options else ()


async def find_reason(session: Session, stack: StackState) -> tuple[Field, ...]:  # noqa: ARG001 -- as all of them
    """Return the reason of a mark."""
    return (Field(name="reason", label="What is wrong with it?", type="text", most=REASON_LENGTH),)


async def find_replicas(session: Session, stack: StackState) -> tuple[Field, ...]:  # noqa: ARG001 -- as all of them
    """Return the number of members."""
    present = object_fields.number(stack.spec, "replicas")
    value = "1" if present is None else str(present)
    return (Field(name="replicas", label="Members", type="number", value=value, most=limits.GROUP_MEMBERS),)
