"""View of a Stack at one moment: one row for each resource. Pure: from plain objects to values.

Judges children by the same rules as the engine, because a status names only resources with problems. Must not know how
a row is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import excluded, group_rows, requirements, resource_state
from hearth.cli.stack_views.tree.resource_state import RowState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import value_class
from hearth.model.groups import members
from hearth.model.text import enumeration

MET: Final = frozenset({RowState.READY, RowState.EXCLUDED, RowState.FINISHED})
"""States in which nothing waits for a resource."""
SEVERITY: Final = (
    RowState.GONE,
    RowState.EXCLUDED,
    RowState.FINISHED,
    RowState.READY,
    RowState.OBSOLETE,
    RowState.WAITING,
    RowState.PROGRESSING,
    RowState.STOPPED,
    RowState.FAILED,
)
"""The state of a collection is that of the member that needs most: the last in this order."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """One resource."""

    resource: str
    object: str
    """`deployment/web`; only the kind while the object does not exist."""
    state: RowState
    note: str = ""
    """The first problem, or what the resource waits for."""
    created: str = ""
    """Creation time of the object."""
    nested: tuple[ResourceRow, ...] = ()
    """The rows of a nested Stack."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackView:
    """Everything to show of a Stack."""

    name: str
    namespace: str
    is_group: bool = False
    exists: bool = True
    phase: str = ""
    summary: str = ""
    """`3/7`."""
    revision: int | None = None
    is_ready: bool = False
    is_stalled: bool = False
    message: str = ""
    """Message of the condition Ready."""
    rows: tuple[ResourceRow, ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()
    omissions: tuple[str, ...] = ()
    """What the view could not show."""

    @property
    def title(self) -> str:
        """Return `stack/shop` or `rg/queue`."""
        return f"{'rg' if self.is_group else 'stack'}/{self.name}"


def describe(snapshot: StackObjects) -> StackView:
    """Describe a snapshot."""
    stack = snapshot.stack
    outputs = object_fields.mapping(stack.status, "outputs")
    return StackView(
        name=safe_text.one_line(stack.name),
        namespace=safe_text.one_line(stack.namespace),
        is_group=stack.is_group,
        phase=safe_text.one_line(stack.phase) or "New",
        summary=safe_text.one_line(stack.summary),
        revision=stack.revision,
        is_ready=stack.is_ready,
        is_stalled=stack.is_stalled,
        message=safe_text.clean(stack.ready.message) or "no operator has processed it yet",
        rows=describe_rows(snapshot),
        outputs=tuple((safe_text.one_line(name), safe_text.one_line(value)) for name, value in sorted(outputs.items())),
        omissions=tuple(safe_text.one_line(each) for each in snapshot.omissions),
    )


def describe_rows(snapshot: StackObjects) -> tuple[ResourceRow, ...]:
    """Describe each resource in the order of creation, then each obsolete object."""
    context = RowContext(snapshot)
    wanted = group_rows.list_members(snapshot.stack) if snapshot.stack.is_group else {}
    rows = [context.describe_resource(name) for name in wanted]
    if not snapshot.stack.is_group:
        rows = [context.describe_entry(name) for name in requirements.sort(context.requirements)]
    rows += [
        ResourceRow(
            resource=safe_text.one_line(child.resource),
            object=str(child),
            state=RowState.OBSOLETE,
            note=resource_state.describe_deletion(child),
            created=child.created,
        )
        for child in snapshot.children
        if members.root_of(child.resource) not in snapshot.resources
        or child is not context.chosen[child.resource]
        or (snapshot.stack.is_group and child.resource not in wanted)
    ]
    return tuple(rows)


@dataclass(slots=True)
class RowContext:
    """What the rows of one Stack share. Rows are described in order: later ones wait for earlier ones."""

    snapshot: StackObjects
    chosen: dict[str, FoundChild] = field(init=False)
    requirements: dict[str, list[str]] = field(init=False)
    problems: dict[str, Mapping[str, Any]] = field(init=False)
    waits: dict[str, str] = field(init=False)
    """By resource, the hook at which it waits."""
    finished: dict[str, str] = field(init=False)
    """By resource that ran once and succeeded, its object."""
    unready: set[str] = field(init=False)
    excluded: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Index the snapshot."""
        stack = self.snapshot.stack
        self.chosen = self.snapshot.choose_children()
        self.requirements = requirements.find_requirements(self.snapshot.resources, self.chosen)
        self.problems = {object_fields.text(problem, "resource"): problem for problem in reversed(stack.problems)}
        self.waits = {wait.resource: wait.hook for wait in stack.breakpoints}
        self.finished = {
            object_fields.text(each, "resource"): object_fields.text(each, "object")
            for each in object_fields.entries(stack.status, "finished")
        }
        self.unready = set()
        self.excluded = frozenset() if stack.is_ready else excluded.find_excluded(self.snapshot.template, stack)

    def describe_entry(self, name: str) -> ResourceRow:
        """Describe an entry of the template: a resource, or a collection with its members below."""
        if not object_fields.text(self.snapshot.resources, name, "forEach"):
            return self.describe_resource(name)
        known = {*self.chosen, *self.problems, *self.waits, *self.finished}
        inner = tuple(
            self.describe_resource(each)
            for each in sorted(known)
            if members.is_member(each) and members.root_of(each) == name
        )
        ready = sum(1 for row in inner if row.state in (RowState.READY, RowState.FINISHED))
        state = max((row.state for row in inner), key=SEVERITY.index, default=RowState.PROGRESSING)
        if not inner:
            state, note = self.assess_absent(name, self.snapshot.stack)
        else:
            note = f"{ready}/{len(inner)} members are ready"
        if state not in MET:
            self.unready.add(name)
        kind = self.find_kind(name)
        return ResourceRow(resource=safe_text.one_line(name), object=f"{kind}[]", state=state, note=note, nested=inner)

    def describe_resource(self, name: str) -> ResourceRow:
        """Describe one resource of the template, or one member of a collection."""
        child = self.chosen.get(name)
        state, note = self.assess(name, child)
        if state not in MET:
            self.unready.add(name)
        nested = self.snapshot.nested.get(child.uid) if child is not None else None
        return ResourceRow(
            resource=safe_text.one_line(name),
            object=str(child) if child is not None else self.find_absent_object(name, state),
            state=state,
            note=note,
            created=child.created if child is not None else "",
            nested=describe_rows(nested) if nested is not None else (),
        )

    def assess(self, name: str, child: FoundChild | None) -> tuple[RowState, str]:
        """Return state and note of a resource: what the operator reports of it counts most."""
        stack = self.snapshot.stack
        if stack.is_deleting:
            if child is None:
                return RowState.GONE, ""
            return RowState.OBSOLETE, resource_state.describe_deletion(child)
        if name in self.waits:
            return RowState.STOPPED, f"at breakpoint {safe_text.one_line(self.waits[name])}"
        if name in self.problems:
            return resource_state.assess_problem(self.problems[name])
        if child is None or child.is_deleting:
            return self.assess_leaving(name, child)
        if stack.is_ready:
            return RowState.READY, ""
        return self.assess_child(name, child)

    def assess_leaving(self, name: str, child: FoundChild | None) -> tuple[RowState, str]:
        """Return state and note of a resource whose object is being deleted, or does not exist."""
        if name in self.finished:
            return RowState.FINISHED, "it ran once; its object is gone" if child is None else "its object is deleted"
        if child is None:
            return self.assess_absent(name, self.snapshot.stack)
        return RowState.PROGRESSING, f"{resource_state.describe_deletion(child)}, and is created again"

    def assess_child(self, name: str, child: FoundChild) -> tuple[RowState, str]:
        """Return state and note of a resource by its object."""
        rules = object_fields.texts(self.snapshot.resources, members.root_of(name), "readyWhen")
        if not rules or members.is_member(name):
            return resource_state.assess_object(child)
        return resource_state.assess_rules(rules, {each: found.raw for each, found in self.chosen.items()})

    def assess_absent(self, name: str, stack: StackState) -> tuple[RowState, str]:
        """Return state and note of a resource without an object."""
        if members.root_of(name) in self.excluded:
            return RowState.EXCLUDED, "its when is false"
        if self.snapshot.is_remote:
            return (RowState.READY, "") if stack.is_ready else (RowState.PROGRESSING, "in another cluster")
        waits_for = [each for each in self.requirements.get(members.root_of(name), ()) if each in self.unready]
        if waits_for:
            named = enumeration.enumerate_names(waits_for, most=resource_state.NAMED_AT_MOST)
            return RowState.WAITING, f"waits for {named}"
        has_condition = bool(object_fields.text(self.snapshot.resources, name, "when"))
        if has_condition and (stack.is_ready or stack.phase.endswith("Complete")):
            return RowState.EXCLUDED, "its when is false"
        if stack.is_paused:
            return RowState.WAITING, "the Stack is paused"
        if self.snapshot.is_unreadable(name):
            # What the status does not name as a problem is ready in a Stack that is.
            return (RowState.READY if stack.is_ready else RowState.PROGRESSING), "not seen"
        return (
            RowState.PROGRESSING,
            "is being applied, unless its when is false" if has_condition else "is being applied",
        )

    def find_absent_object(self, name: str, state: RowState) -> str:
        """Return what stands for a resource without an object: the one that has finished, else its kind."""
        return safe_text.one_line(self.finished[name]) if state is RowState.FINISHED else self.find_kind(name)

    def find_kind(self, name: str) -> str:
        """Return the kind of a resource as kubectl writes it."""
        root = members.root_of(name)
        return safe_text.one_line(object_fields.text(self.snapshot.resources, root, "manifest", "kind").lower())
