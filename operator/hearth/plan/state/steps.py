"""What can be done to the cluster, as data: deciding returns steps, the engine takes them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.model import field_paths, names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.ownership.applied_fields import AppliedFields
from hearth.plan.ownership.field_ownership import LostField


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
    applied_fields: AppliedFields | None = None
    """What of the manifest others may keep; None where nothing."""
    inherited_rules: InheritedRules | None = None
    """What of the manifest comes from the Stack's environment; None where nothing."""
    tolerated: tuple[LostField, ...] = ()
    """What of the manifest they have taken and keep, so that it is not stated."""
    repaired_fields: str = ""
    """What is taken back, in words, where that is the only reason to write."""
    takes_up: str | None = None
    """The UID of an unsigned object to be taken up, of which too little is known to name it at once; None where there is none."""
    may_adopt: bool = False
    """Whether an object that is there already and nobody's child may be taken over."""
    sensitive_texts: frozenset[str] | None = field(default=None, repr=False)
    """Texts that no message may show; None where nothing in the manifest is sensitive."""

    @property
    def sent_manifest(self) -> Object:
        """What is sent: the manifest less what is left to others."""
        sent: Object = field_paths.without(self.manifest, [lost.path for lost in self.tolerated])
        return sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete one object that nothing wants any longer."""

    child: Child


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Let go of one object that nothing wants any longer: it stays as it is, and belongs to nobody."""

    child: Child


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteHealthMark:
    """Write somebody's word on the health of one object onto it."""

    child: Child
    reason: str | None
    """Why it is unhealthy; None takes an earlier word back."""


class SuspendPurpose(enum.StrEnum):
    """What is done to the fields that suspend an object."""

    SUSPEND = "suspend"
    RESUME = "resume"
    """The object has its definition: nothing of this is left to do."""
    RESTORE = "restore"
    """It cannot have that now, and runs on as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Bring what one object runs to nothing, or let it go again: states the fields that do it, and no others."""

    child: Child
    manifest: Object = field(repr=False)
    """What the manager of these fields states of the object; what it stated before and states no more goes."""
    purpose: SuspendPurpose
    repairs: str = ""
    """What somebody has started again, in words, where that is the only reason to write."""


Step: TypeAlias = Apply | Delete | Release | WriteHealthMark | Suspend


def attempt_id(step: Step) -> str:
    """What an attempt at the step is remembered by: a change of the wish or of the object makes it another one."""
    match step:
        case Apply():
            given = f"/{step.inherited_rules.digest}" if step.inherited_rules is not None else ""
            return f"{step.hash}/{step.uid}" + ("/adopts" if step.may_adopt else "") + given
        case Delete() | Release():
            return step.child.uid
        case WriteHealthMark():
            return f"{step.child.uid}/{step.reason}"
        case Suspend():
            return f"{step.child.uid}/{step.purpose}"


def affected_keys(step: Step) -> tuple[str, ...]:
    """What is to be looked at again once the step was taken or refused."""
    match step:
        case Apply():
            return (step.resource,)
        case Delete() | Release():
            return (step.child.uid, step.child.resource)
        case WriteHealthMark() | Suspend():
            return (step.child.resource,)


def find_inputs(step: Step) -> tuple[str, ...]:
    """The places (`name/incarnation`) that the object which the step writes is made of."""
    if not isinstance(step, Apply):
        return ()
    recorded: str = step.manifest["metadata"]["annotations"].get(names.ANNOTATION_REQUIRES, "")
    return tuple(recorded.split(",")) if recorded else ()
