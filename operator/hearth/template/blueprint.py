"""What a definition means once it is compiled: immutable, shared by every pass, without any state of a pass.

Knows nothing of children, clusters or time; whoever evaluates hands in the values.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from hearth.model.child import Object, Path
from hearth.model.field_paths import PathPattern

Values: TypeAlias = Mapping[str, Mapping[str, Any] | None]
"""By resource name the fields of its child, or None where there is no child (yet)."""


@dataclass(frozen=True, slots=True)
class Known:
    """An expression or manifest has its value."""

    value: Any = field(repr=False)


class Evaluating(str):
    """What is waited for where all values are there, and the expression is being evaluated elsewhere."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A value is not there yet; waiting is a value, never an exception."""

    missing: tuple[str, ...]
    """The paths that are waited for, as written: `db.status.host`."""

    @property
    def is_evaluating(self) -> bool:
        """Whether nothing but an evaluation is waited for, which ends by itself."""
        return bool(self.missing) and all(isinstance(each, Evaluating) for each in self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationError:
    """An expression was evaluated and failed in a way that waiting does not mend (e.g. a division by zero)."""

    path: str
    """Of the expression, from the root of the Stack."""
    message: str


Outcome: TypeAlias = Known | Pending | EvaluationError


class Evaluable(Protocol):
    """Something with expressions in it."""

    @property
    def reads(self) -> Mapping[str, frozenset[Path]]:
        """By resource name every path that is read of it, whether required or not.

        A path ends before the first list index or computed key. A resource that is taken as a whole is read by every
        field at the top of its kind's schema (by the usual ones where no schema is known).
        """

    def evaluate(self, values: Values) -> Outcome:
        """Its value; `Known.value` is a fresh object that the caller may change."""


class Replacement(enum.Enum):
    """How a resource gets another object where its own cannot be changed."""

    CREATE_FIRST = "CreateFirst"
    DELETE_FIRST = "DeleteFirst"
    NEVER = "Never"


class DriftPolicy(enum.Enum):
    """What is done about fields that somebody else took."""

    REPAIR = "Repair"
    REPORT = "Report"
    IGNORE = "Ignore"


class SharingScope(enum.IntEnum):
    """For which Stacks a blueprint holds whose definition is the same: told by what of a Stack's identity went into it."""

    ANY = 0
    NAMESPACE = 1
    """Those of one namespace."""
    ONE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceBlueprint:
    """One resource that is there under these parameters (`when` is true)."""

    name: str
    index: int
    """Its place in the order: higher than that of everything it requires."""
    path: str
    """Where it stands in the Stack: `spec.template.resources.web`."""
    api_version: str
    kind: str
    manifest: Evaluable
    """Gives the manifest as the user means it: no name, namespace or labels of ours added yet."""
    is_constant: bool
    """Whether the manifest reads no other resource, so that one evaluation serves for ever."""
    constant: bytes | None = field(default=None, repr=False)
    """JSON of a list whose only entry is the manifest, where somebody keeps that of a constant one anyway."""
    is_name_pinned: bool
    """Whether the manifest states `metadata.name`."""
    requires: tuple[str, ...]
    """The present resources that must be ready first: by reference or `dependsOn`; direct ones only, sorted."""
    dependents: tuple[str, ...]
    """The inverse of `requires`."""
    ready_when: tuple[Evaluable, ...] = ()
    """Booleans that replace the kind's built-in rule; they may read the resource itself."""
    failed_when: tuple[Evaluable, ...] = ()
    replacement: Replacement | None = None
    """None: as is usual for its kind."""
    replace_on: tuple[Path, ...] = ()
    """Fields whose change means another object even where the API server would take it."""
    drift_policy: DriftPolicy = DriftPolicy.REPAIR
    ignore_fields: tuple[PathPattern, ...] = ()
    """Fields that are stated once and then left to others."""
    is_retained: bool = False
    """Whether its object is kept when nothing wants it any more."""
    is_stack: bool = False
    """Whether it is a nested stack, so that paths lead into it."""
    adopts: bool | None = None
    """Whether an object that is there already and nobody's child is taken over; None: as the Stack says."""
    hidden: frozenset[str] | None = field(default=None, repr=False)
    """Texts that must not be shown; None where its manifest holds nothing sensitive, so that it may be quoted freely."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Blueprint:
    """A definition, compiled."""

    resources: Mapping[str, ResourceBlueprint]
    """In order: what is required comes first."""
    outputs: Mapping[str, Evaluable]
    """Only those whose `when` is true."""
    reads: Mapping[str, frozenset[Path]]
    """By resource name the paths that anything in the blueprint reads of it: what must be kept of its child."""
    retained: frozenset[str] = frozenset()
    """Resources whose objects are kept when nothing wants them any more, those that are not there now among them."""
    adopts: bool = False
    """What holds for resources that say nothing of adoption."""
    abandons: bool = False
    """Whether every object is kept: the Stack goes without them."""
    sensitive_texts: frozenset[str] = field(default=frozenset(), repr=False)
    """Sensitive texts, which nothing that people read may hold."""
    reach: SharingScope = SharingScope.ONE
    """Which Stacks of this definition may share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the value of a parameter was read that the Stack's spec does not give itself."""

    kind: str
    """`Secret` or `ConfigMap`."""
    name: str
    key: str
    place: str
    """For messages: `spec.parametersFrom[0] (secret/db key password)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Template and parameters as the user gave them, and where they stand, for messages."""

    template: Object
    parameters: Object = field(repr=False)
    """Values by name, those from elsewhere among them."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """By name where the values from elsewhere were read."""
    refreshed: tuple[str, ...] = ()
    """The sensitive parameters that have another value now than when the definition was stored."""
    template_path: str = "spec.template"
    parameters_path: str = "spec.parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackIdentity:
    """What expressions know as `stack`."""

    name: str
    namespace: str
    uid: str
