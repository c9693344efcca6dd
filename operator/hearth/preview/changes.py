"""The result of a preview: what happens to each resource, in order."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field

from hearth.model import value_class
from hearth.model.errors import Mistake
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership.field_changes import FieldChange
from hearth.plan.resource import reversal
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.plan.target.approved_steps import ContentSeal


class Action(enum.StrEnum):
    """What happens to a resource. A closed set."""

    CREATE = "create"
    ADOPT = "adopt"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    KEEP = "keep"
    """An obsolete object stays."""
    STOP = "stop"
    """It waits at a breakpoint."""
    FAIL = "fail"
    WAIT = "wait"
    """It waits for another resource, or for a value that is known only at run time."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to one resource."""

    action: Action
    resource: str
    ref: ObjectRef | None = None
    """The object, or the new object of a replacement. None if its name is unknown."""
    old_ref: ObjectRef | None = None
    """Of a replacement: the deleted object."""
    reason: str = ""
    """The reason, as one clause."""
    hook: str = ""
    """The breakpoint where it stops: `PreUpdate`."""
    is_uncertain: bool = False
    """Whether it depends on values that are known only at run time."""
    fields: tuple[FieldChange, ...] = ()
    unchecked: str = ""
    """Why the API server did not check the change, or "" if it did."""
    undo: Undo | None = None
    """How a rollback undoes it; None if it does not happen, or if the preview does not reach it."""
    seal: ContentSeal | None = None
    """The applied manifest, for the comparison with the later write; None without a key, or without a manifest."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Effects of a change of one Stack."""

    kind: str
    namespace: str
    name: str
    is_new: bool
    revision: int | None = None
    """The number of the revision that becomes the target."""
    changes: tuple[Change, ...] = ()
    """In the order of the run."""
    nested: tuple[Preview, ...] = ()
    """The previews of Stacks and groups in it that are created, changed or deleted, or that read a changed object."""
    notes: tuple[str, ...] = ()
    live_reads: tuple[str, ...] = ()
    """A sentence for each object and list that the Stack reads, because their later changes change the Stack."""
    rejection: str = ""
    """Why the definition is rejected, so that nothing happens, or "" if it is accepted."""
    mistakes: tuple[Mistake, ...] = field(default=())
    """All errors of a rejected definition."""
    sources: Mapping[ObjectRef, str] = field(default_factory=dict)
    """The resource versions of the sources that the definition was read from."""

    @property
    def has_changes(self) -> bool:
        """Return whether the run does anything, or would without a breakpoint or failure."""
        return bool(self.changes)

    @property
    def undo(self) -> UndoGrade | None:
        """Return how a rollback undoes the whole change, including nested Stacks; None if nothing changes."""
        grades = [each.undo.grade for each in self.changes if each.undo is not None]
        grades += [each.undo for each in self.nested if each.undo is not None]
        return reversal.find_worst(grades) if grades else None
