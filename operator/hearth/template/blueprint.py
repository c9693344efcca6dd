"""`Blueprint`, the compiled result of a definition.

A blueprint is immutable and holds no state of a reconcile, so all reconciles share it. Callers pass the values that its
expressions read.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeAlias

from hearth.model import members, names, object_list, value_class
from hearth.model.child import Object, Path
from hearth.model.chunked_work import ChunkedWork
from hearth.model.field_paths import PathPattern
from hearth.model.label_selectors import LabelSelector
from hearth.model.members import GroupSize
from hearth.model.object_list import ObjectList

WATCHED = operator.attrgetter("api_version", "kind", "replace_on", "requires", "externals", "after")
"""The fields of a resource that decide, together with the presence of its own rules, which fields of which objects are
needed."""
USED = operator.attrgetter("externals", "unresolved", "reads", "retained", "adopts", "abandons", "surge")
"""The fields of a blueprint that decide, together with the names of its collections, how it is read and kept."""

Values: TypeAlias = Mapping[str, Mapping[str, Any] | ObjectList | None]
"""By name in the template: the fields of the child, or of all members' children in the order of the source. None if
there is no child (yet)."""


@value_class.dataclass(frozen=True, slots=True)
class Known:
    """An expression or manifest whose value is known."""

    value: Any = field(repr=False)


class Evaluating(str):
    """The reason to wait while another process evaluates the expression. All its values are present."""

    __slots__ = ()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The result while a value is missing. Waiting is a value, never an exception."""

    missing: tuple[str, ...]
    """The missing paths as written: `db.status.host`."""

    @property
    def is_evaluating(self) -> bool:
        """Whether only an evaluation in another process is pending. It finishes automatically."""
        return bool(self.missing) and all(isinstance(each, Evaluating) for each in self.missing)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationError:
    """The result of an expression that failed permanently (e.g. a division by zero). Waiting does not help."""

    path: str
    """The path of the expression, from the root of the Stack."""
    message: str


Outcome: TypeAlias = Known | Pending | EvaluationError
FindRepeated: TypeAlias = Callable[[Mapping[str, Any]], Sequence[tuple[str, str]]]


class Evaluable(Protocol):
    """A value that contains expressions."""

    @property
    def reads(self) -> Mapping[str, frozenset[Path]]:
        """Return, by resource name, every path that the value reads, required or not.

        A path ends before the first list index or computed key. If a resource is read as a whole, its paths are the
        top-level fields of its kind's schema. If the schema is unknown, the usual fields are used instead.
        """

    def evaluate(self, values: Values) -> Outcome:
        """Return the value; `Known.value` is a new object that the caller may change."""


class Replacement(enum.Enum):
    """How a resource gets another object if its own cannot be changed."""

    CREATE_FIRST = "CreateFirst"
    DELETE_FIRST = "DeleteFirst"
    KEEP_CLAIMS = "KeepClaims"
    """Delete a StatefulSet without its Pods and claims, and recreate it under the same name."""
    NEVER = "Never"


class DriftPolicy(enum.Enum):
    """The reaction to fields that another field manager took."""

    REPAIR = "Repair"
    REPORT = "Report"
    IGNORE = "Ignore"


class Completion(enum.Enum):
    """What to do when an object that succeeded is deleted."""

    ONCE = "Once"
    """Nothing: it stays finished."""
    RERUN = "Rerun"
    """Recreate it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RunRetry:
    """The retry policy of a resource whose run failed; fields that the resource does not set are None."""

    limit: int | None = None
    """Automatic retries after a failure; None: no limit."""
    max_backoff: float | None = None
    """Seconds; None: as for the Stack."""


class SharingScope(enum.IntEnum):
    """The Stacks with the same definition that a blueprint is valid for.

    It follows from the parts of a Stack's identity that the blueprint uses.
    """

    ANY = 0
    NAMESPACE = 1
    """All Stacks of one namespace."""
    ONE = 2


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RollingPolicy:
    """How the members of one collection change: in batches, with pauses."""

    collection: str
    members: tuple[str, ...]
    """Names of the members in the order in which they change."""
    max_batch: int
    """How many of them may change at the same time."""
    min_ready: int = 0
    """How many of them must stay ready."""
    min_ready_stated: int = 0
    """The minimum in the spec. It is above `min_ready` if a group was scaled to fewer members."""
    pause: float = 0.0
    """Seconds between two batches."""
    surge: int = 0
    """By how many members a group must grow during an update, so that enough of them stay ready."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RestoredVolume:
    """The content that a PersistentVolumeClaim gets when it is created."""

    token: str
    """Identifies the restore. The claim records it."""
    snapshot: str
    """The VolumeSnapshot, in the namespace of the claim."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceBlueprint:
    """One resource that exists with these parameters (`when` is true)."""

    name: str
    """`web`; for a member of a collection `workers[a]`."""
    index: int
    """Position in the dependency order: higher than the position of everything it requires."""
    path: str
    """Its path in the Stack: `spec.template.resources.web`. All members of a collection have the same."""
    api_version: str
    kind: str
    is_kind_known: bool = True
    """Whether the cluster served the kind, so that the manifest was compared with its schema."""
    manifest: Evaluable
    """The manifest as the user wrote it, without a name, namespace or labels added by Hearth."""
    is_constant: bool
    """Whether the manifest reads no other resource, so that it is evaluated only once."""
    has_computed_metadata: bool = True
    """Whether the metadata contains results of expressions, so that they are validated after each evaluation."""
    find_repeated: FindRepeated | None = field(default=None, repr=False, compare=False)
    """Finds list elements that duplicate others, with the path and the error; None if the manifest cannot have any."""
    constant: bytes | None = field(default=None, repr=False)
    """JSON of a list whose only entry is the manifest, if a constant manifest is stored anyway."""
    is_name_pinned: bool
    """Whether the manifest sets `metadata.name`."""
    requires: tuple[str, ...]
    """Names of the resources that must be ready first, sorted: direct references and `dependsOn` only. `workers[*]`
    means all members of a collection.
    """
    dependents: tuple[str, ...]
    """The inverse of `requires`; `workers[*]` for every member of that collection."""
    externals: tuple[str, ...] = ()
    """The external objects that must be ready first, sorted. No object records them."""
    ready_when: tuple[Evaluable, ...] = ()
    """Booleans that replace the kind's built-in rule; they may read the resource itself."""
    failed_when: tuple[Evaluable, ...] = ()
    replacement: Replacement | None = None
    """None: the default for its kind."""
    replace_on: tuple[Path, ...] = ()
    """Fields whose change requires another object even if the API server would accept it."""
    drift_policy: DriftPolicy = DriftPolicy.REPAIR
    ignore_fields: tuple[PathPattern, ...] = ()
    """Fields that are applied once and then left to other field managers."""
    is_retained: bool = False
    """Whether its object is retained when it is obsolete."""
    is_stack: bool = False
    """Whether it is a nested Stack, so that paths lead into it."""
    adopts: bool | None = None
    """Whether an existing object that is not a child is adopted; None: the Stack's setting applies."""
    completion: Completion | None = None
    """None: the default for its manifest."""
    retry: RunRetry | None = None
    """None: the Stack's setting applies."""
    restored: RestoredVolume | None = None
    """The content of the claim in a restore, see `hearth.plan.target.volume_restore`."""
    after: tuple[str, ...] = ()
    """Further resources that must be ready first in a restore. No object records them."""
    hidden: frozenset[str] | None = field(default=None, repr=False)
    """Texts that must not be shown; None if its manifest contains nothing sensitive and may be quoted."""
    content: object = field(default_factory=object, repr=False, compare=False)
    """The same object as in the previous blueprint if only the place in the dependency order may differ."""

    @property
    def own_name(self) -> str:
        """Return the name that the resource's own rules use for its object: the name in the template."""
        return members.root_of(self.name)

    def move_to(self, other: ResourceBlueprint) -> ResourceBlueprint:
        """Return the resource at the place of another one in the dependency order."""
        if self.index == other.index and self.dependents == other.dependents:
            return self
        return dataclasses.replace(self, index=other.index, dependents=other.dependents)

    def is_watched_like(self, other: ResourceBlueprint) -> bool:
        """Return whether both need the same fields of objects of the same kind, and the same resources."""
        is_alike: bool = WATCHED(self) == WATCHED(other)
        return is_alike and bool(self.ready_when) is bool(other.ready_when)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ExternalBlueprint:
    """An object that the Stack only reads, or a list of objects."""

    name: str
    """The name that expressions use."""
    path: str
    """Its path in the Stack: `spec.template.resources.gateway`."""
    api_version: str
    kind: str
    is_kind_known: bool = True
    """Whether the cluster served the kind, so that the expressions were compared with its schema."""
    object_name: str = ""
    """"" for a list."""
    namespace: str | None = None
    """The policy set on the resource; None: the Stack's policy applies."""
    selector: LabelSelector | None = None
    """The selector of a list; None for a single object."""
    is_in_all_namespaces: bool = False
    is_optional: bool = False
    """Whether its readers can proceed before it exists."""
    ready_when: tuple[Evaluable, ...] = ()
    """Booleans that replace the rule of its kind; they read the object, or the list."""
    makes_members: bool = False
    """Whether a `forEach` reads it, so that a change is compiled."""
    is_awaited: bool = False
    """Whether it makes members, and the blueprint was compiled without its value."""
    dependents: tuple[str, ...] = field(default=(), compare=False)
    """The resources that read it or depend on it."""

    @property
    def group(self) -> str:
        """Return the API group of the kind."""
        return self.api_version.rpartition("/")[0]

    @property
    def identity(self) -> str:
        """Return a text that is equal for two references, in one namespace and cluster, that read the same objects."""
        place = "*" if self.is_in_all_namespaces else self.namespace or ""
        return f"{self.api_version}/{self.kind}/{place}/{self.object_name}/{self.selector or ''}"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CollectionBlueprint:
    """A present resource with `forEach`: one object per element."""

    name: str
    """`workers`; `requires` and `dependents` name it `workers[*]`."""
    index: int
    """Position in the dependency order: above its members, below its dependents."""
    members: tuple[str, ...]
    """The names of its members in the order of the source; keys of `Blueprint.resources`."""
    dependents: tuple[str, ...]
    """The resources that require all members."""
    member_kind: tuple[str, str] = ("", "")
    """`apiVersion` and kind of the members."""
    max_removed: int | str | None = None
    """How many members may disappear within ten minutes unless a user removes them, a number or a percentage; None:
    all.
    """


@value_class.dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Blueprint:
    """A compiled definition."""

    resources: Mapping[str, ResourceBlueprint]
    """In dependency order: required resources come first. Members of collections are resources like all others."""
    outputs: Mapping[str, Evaluable]
    """The outputs whose `when` is true."""
    reads: Mapping[str, frozenset[Path]]
    """By resource name: the paths that the blueprint reads of the child. The cache must store them."""
    status_conditions: Mapping[str, Mapping[str, Evaluable]] = field(default_factory=dict)
    """Conditions for the status, by type: the fields `status`, `reason` and `message`."""
    collections: Mapping[str, CollectionBlueprint] = field(default_factory=dict)
    """The present collections, by name in the template. Some may have no members."""
    externals: Mapping[str, ExternalBlueprint] = field(default_factory=dict)
    """External objects by their names in the template."""
    unresolved: frozenset[str] = frozenset()
    """Collections with unknown members, because the lists that define them were not read yet. Their objects are kept.
    """
    member_kinds: frozenset[str] = frozenset()
    """`apiVersion/Kind` of the members that other clients control. Objects may exist even if there are no members
    now."""
    retained: frozenset[str] = frozenset()
    """Names in the template of resources whose objects are retained when they are obsolete, including resources that are
    absent now."""
    adopts: bool = False
    """The default for resources without an adoption policy."""
    abandons: bool = False
    """Whether every object is retained when the Stack is deleted."""
    is_unknown: bool = False
    """Whether the definition is unavailable, so that a missing resource has no meaning."""
    sensitive_texts: frozenset[str] = field(default=frozenset(), repr=False)
    """Sensitive texts, which must not appear in any displayed text."""
    scope: SharingScope = SharingScope.ONE
    """Which Stacks of this definition may share it."""
    rolling: Mapping[str, RollingPolicy] = field(default_factory=dict)
    """By collection: how its members change, if not all at once."""
    surge: int = 0
    """How many members a group has beyond its size."""
    size: int = field(default=0, compare=False)
    """Bytes that it takes in memory: its manifests and outputs, and the values in expressions that wait for objects."""

    def find_kinds(self) -> frozenset[str]:
        """Return `apiVersion/Kind` of all resources."""
        found = set(map(operator.attrgetter("api_version", "kind"), self.resources.values()))
        return self.member_kinds.union(f"{api_version}/{kind}" for api_version, kind in found)

    def is_used_like(self, other: Blueprint) -> bool:
        """Return whether both have the same collections and external objects, and the same fields in `USED`."""
        is_alike: bool = USED(self) == USED(other)
        return is_alike and self.collections.keys() == other.collections.keys()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source of a parameter value that the Stack's spec does not contain itself."""

    kind: str
    """`Secret` or `ConfigMap`."""
    name: str
    key: str
    place: str
    """The location for messages: `spec.parametersFrom[0] (secret/db key password)`."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ReadValue:
    """An external object, or a list of objects, as it was read."""

    identity: str
    """The identity of the reference, because another definition may use the same name for another object."""
    value: Any = field(repr=False)
    """The object's fields, or a list with the fields of each object: packed until the definition is compiled."""

    @classmethod
    def of(cls, external: ExternalBlueprint, fields: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> ReadValue:
        """Return the fields of the object, or of each object of the list."""
        value = fields if isinstance(fields, Mapping | ObjectList) else list(fields)
        return cls(identity=external.identity, value=value)

    @property
    def packed_size(self) -> int:
        """Return the bytes of the packed objects."""
        return self.value.size if isinstance(self.value, ObjectList) else 0

    def unpack_in_pieces(self) -> ChunkedWork[ReadValue]:
        """Return a copy with unpacked fields, which need up to fifteen times as much memory."""
        if not isinstance(self.value, ObjectList):
            return self
        return ReadValue(identity=self.identity, value=(yield from object_list.unpack_in_pieces(self.value)))


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Template and parameters as the user gave them, with their locations for messages."""

    template: Object
    parameters: Object = field(repr=False)
    """Values by name, including values from sources."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """By name, the origin of the values from sources."""
    refreshed: tuple[str, ...] = ()
    """The sensitive parameters whose values have changed since the definition was stored."""
    read: Mapping[str, ReadValue] = field(default_factory=dict, repr=False)
    """Present state of the external objects that `forEach` creates members from, by name in the template. Not part of a
    revision; objects that were not read yet are missing.
    """
    template_path: str = "spec.template"
    parameters_path: str = "spec.parameters"
    size: GroupSize | None = None
    """The size of a group; None for a Stack."""
    surge: int = 0
    """Members of a group beyond its size, during a rolling update. Not stored, because no later definition needs them."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackIdentity:
    """The data that expressions can read as `stack`."""

    name: str
    namespace: str
    uid: str

    def name_child(
        self, resource: str, *, incarnation: int = 1, namespace: str, length: int = names.NAME_LENGTH
    ) -> str:
        """Return the object name for a resource whose manifest sets none, see `names.child_name`."""
        return names.child_name(
            stack=self.name,
            stack_namespace=self.namespace,
            stack_uid=self.uid,
            resource=resource,
            incarnation=incarnation,
            namespace=namespace,
            length=length,
        )
