"""What can be done to the cluster, as data: deciding returns steps, the engine takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Bring one resource's child to its wanted definition by server-side apply."""

    resource: str
    kind: Kind
    ref: ObjectRef
    manifest: Object = field(repr=False)
    hash: str
    """Of the evaluated definition, keyed; what an attempt at it is remembered by."""
    uid: str | None
    """Of the object that is to be changed; None where none is known and one is to be created."""
    hidden: frozenset[str] | None = field(default=None, repr=False)
    """Texts that no message may show; None where nothing in the manifest is sensitive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete one object that nothing wants any longer."""

    child: Child


Step: TypeAlias = Apply | Delete


def subject(step: Step) -> str:
    """What an attempt at the step is remembered by: a change of the wish or of the object makes it another one."""
    match step:
        case Apply():
            return f"{step.hash}/{step.uid}"
        case Delete():
            return step.child.uid


def touches(step: Step) -> tuple[str, ...]:
    """What is to be looked at again once the step was taken or refused."""
    match step:
        case Apply():
            return (step.resource,)
        case Delete():
            return (step.child.uid, step.child.resource)
