"""`StackState`, a Stack, ResourceGroup or instance read from its object. Accepts objects of any shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

from hearth.model import instance_fields, names, object_fields, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import Kind


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition."""

    status: str = ""
    """"" if the condition is absent."""
    reason: str = ""
    message: str = ""
    since: str = ""

    @property
    def is_true(self) -> bool:
        """Return whether its status is True."""
        return self.status == "True"


ABSENT: Final = Condition()


class NamedObject:
    """Properties that every object has, for a class whose `raw` is the object."""

    __slots__ = ()
    raw: Object

    @property
    def name(self) -> str:
        """Return its name."""
        return object_fields.text(self.raw, "metadata", "name")

    @property
    def namespace(self) -> str:
        """Return its namespace, "" for cluster scope."""
        return object_fields.text(self.raw, "metadata", "namespace")

    @property
    def uid(self) -> str:
        """Return its UID."""
        return object_fields.text(self.raw, "metadata", "uid")

    @property
    def created(self) -> str:
        """Return its creation time."""
        return object_fields.text(self.raw, "metadata", "creationTimestamp")

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Return its annotations."""
        return object_fields.mapping(self.raw, "metadata", "annotations")

    @property
    def is_deleting(self) -> bool:
        """Return whether its deletion was requested."""
        return bool(object_fields.text(self.raw, "metadata", "deletionTimestamp"))

    def condition(self, type_: str) -> Condition:
        """Return the condition of that type; an absent one has no status."""
        for entry in object_fields.entries(self.raw, "status", "conditions"):
            if entry.get("type") == type_:
                return Condition(
                    status=object_fields.text(entry, "status"),
                    reason=object_fields.text(entry, "reason"),
                    message=object_fields.text(entry, "message"),
                    since=object_fields.text(entry, "lastTransitionTime"),
                )
        return ABSENT

    @property
    def true_conditions(self) -> Collection[str]:
        """Return the types of its conditions that are true."""
        entries = object_fields.entries(self.raw, "status", "conditions")
        # The first condition of a type counts, as in `condition`.
        statuses = {
            object_fields.text(each, "type"): object_fields.text(each, "status") for each in reversed([*entries])
        }
        return {type_ for type_, status in statuses.items() if status == "True"}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BreakpointEntry:
    """A breakpoint with a waiting resource."""

    resource: str
    """A path if the resource is in a nested Stack."""
    hook: str
    stack: str
    """The nested Stack to continue; "" for this one."""

    @property
    def local(self) -> str:
        """Return the name of the breakpoint in the Stack that contains the resource: `db/PreUpdate`."""
        resource = self.resource.rpartition("/")[2] if self.stack else self.resource
        return f"{resource}/{self.hook}"

    def __str__(self) -> str:
        return f"{self.resource}/{self.hook}"


SourceKey: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of an object that a definition is read from."""


@value_class.dataclass(frozen=True, slots=True)
class StackState(NamedObject):
    """A Stack, read from its object or from an instance of a StackDefinition, which is another form of a Stack."""

    raw: Object
    instance_kind: Kind | None = None
    """The kind of an instance; None for a Stack or ResourceGroup."""

    @property
    def kind(self) -> Kind:
        """Return its kind."""
        if self.instance_kind is not None:
            return self.instance_kind
        return well_known_kinds.RESOURCE_GROUP if self.is_group else well_known_kinds.STACK

    @property
    def is_group(self) -> bool:
        """Return whether it is a ResourceGroup, which has the status of a Stack."""
        return self.instance_kind is None and self.raw.get("kind") == names.GROUP_KIND

    @property
    def owner_key(self) -> str:
        """Return its key within its namespace, see `hearth.model.names.owner_key`."""
        return names.owner_key(self.kind.key if self.is_instance else self.kind.name, self.name)

    def is_named_by(self, named: Object) -> bool:
        """Return whether a HealthMark or StackSnapshot names it. named: the object."""
        return names.read_owner(object_fields.mapping(named, "spec")) == self.owner_key

    @property
    def is_instance(self) -> bool:
        """Return whether it is an instance of a StackDefinition."""
        return self.instance_kind is not None

    @property
    def title(self) -> str:
        """Return its name in messages: `stack/shop`, `rg/queue`, `webapp/shop`."""
        return f"{'rg' if self.is_group else self.kind.name.lower()}/{self.name}"

    @property
    def argument(self) -> str:
        """Return its name in commands: `shop`, `rg/queue`, `webapp/shop`."""
        return self.title if self.is_group or self.is_instance else self.name

    @property
    def noun(self) -> str:
        """Return its kind."""
        return "group" if self.is_group else self.kind.name

    @property
    def resource_type(self) -> str:
        """Return its kind as kubectl names it: `stack`, `webapp.platform.example`."""
        return f"{self.kind.name.lower()}.{self.kind.group}" if self.is_instance else self.kind.name.lower()

    @property
    def reference(self) -> str:
        """Return the written object in kubectl's notation: `stack.hearth.dev/shop`."""
        return f"{self.kind.name.lower()}.{self.kind.group}/{self.name}"

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return its spec; an instance's in the form of a Stack, without a template."""
        stated = object_fields.mapping(self.raw, "spec")
        return instance_fields.show_as_stack(stated) if self.is_instance else stated

    @property
    def options_path(self) -> str:
        """Return the path of the options in its spec."""
        return f"spec.{instance_fields.OPTIONS}" if self.is_instance else "spec"

    def patch_options(self, options: Object) -> Object:
        """Return the merge patch that sets options."""
        return {"spec": {instance_fields.OPTIONS: options} if self.is_instance else options}

    @property
    def status(self) -> Mapping[str, Any]:
        """Return its status."""
        return object_fields.mapping(self.raw, "status")

    @property
    def parent(self) -> str:
        """Return the UID of the Stack that it is nested in; "" for none."""
        return object_fields.text(self.raw, "metadata", "labels", names.LABEL_STACK_UID)

    @property
    def parent_namespace(self) -> str:
        """Return the namespace of the parent Stack, which its field manager contains; "" if no field manager does."""
        managers = (
            object_fields.text(each, "manager") for each in object_fields.entries(self.raw, "metadata", "managedFields")
        )
        found = (each for each in managers if each.startswith(names.FIELD_MANAGER_PREFIX))
        return next(found, "").removeprefix(names.FIELD_MANAGER_PREFIX).partition("/")[0]

    @property
    def expires_at(self) -> str:
        """Return when the operator deletes the Stack, "" for never."""
        return object_fields.text(self.status, "expiresAt")

    @property
    def is_paused(self) -> bool:
        """Return whether `spec.paused` is true."""
        return self.spec.get("paused") is True

    @property
    def is_suspended(self) -> bool:
        """Return whether `spec.suspended` is true."""
        return self.spec.get("suspended") is True

    @property
    def is_observed(self) -> bool:
        """Return whether the status describes the current spec."""
        observed = object_fields.number(self.status, "observedGeneration")
        return observed is not None and observed == object_fields.number(self.raw, "metadata", "generation")

    def list_sources(self) -> dict[SourceKey, str]:
        """Return the resource version of each object other than the Stack that the reported definition was read from."""
        return {
            (
                object_fields.text(entry, "kind"),
                object_fields.text(entry, "namespace"),
                object_fields.text(entry, "name"),
            ): object_fields.text(entry, "resourceVersion")
            for entry in object_fields.entries(self.status, "sources")
        }

    @property
    def is_new(self) -> bool:
        """Return whether no operator has reported on it yet."""
        return not self.phase

    @property
    def phase(self) -> str:
        """Return its phase, "" before the first one."""
        return object_fields.text(self.status, "phase")

    @property
    def summary(self) -> str:
        """Return `3/7`."""
        return object_fields.text(self.status, "summary")

    @property
    def revision(self) -> int | None:
        """Return the number of the active revision."""
        return object_fields.number(self.status, "revision")

    @property
    def target_revision(self) -> int | None:
        """Return the number of the target revision."""
        return object_fields.number(self.status, "target", "revision")

    @property
    def handled(self) -> Mapping[str, Any]:
        """Return the last handled token of each kind of request."""
        return object_fields.mapping(self.status, "handled")

    @property
    def problems(self) -> list[Mapping[str, Any]]:
        """Return the first problems."""
        return object_fields.entries(self.status, "problems")

    @property
    def breakpoints(self) -> list[BreakpointEntry]:
        """Return the breakpoints with waiting resources."""
        return [
            BreakpointEntry(
                resource=object_fields.text(entry, "resource"),
                hook=object_fields.text(entry, "hook"),
                stack=object_fields.text(entry, "stack"),
            )
            for entry in object_fields.entries(self.status, "breakpoints")
        ]

    def count(self, state: str) -> int:
        """Return the number of resources in that state."""
        return object_fields.number(self.status, "resources", state) or 0

    @property
    def ready(self) -> Condition:
        """Return the condition `Ready`."""
        return self.condition("Ready")

    @property
    def is_ready(self) -> bool:
        """Return whether it is Ready, with the current spec."""
        return self.is_observed and self.ready.is_true

    @property
    def is_stalled(self) -> bool:
        """Return whether it is Stalled, with the current spec."""
        return self.is_observed and self.condition("Stalled").is_true

    @property
    def target_cause(self) -> str:
        """Return the cause of the target: `Spec`, `Rollback`, `AutomaticRollback`."""
        return object_fields.text(self.status, "target", "cause")

    @property
    def is_rolled_back(self) -> bool:
        """Return whether the target differs from the definition in the spec."""
        return self.target_cause in {"Rollback", "AutomaticRollback"}

    @property
    def is_rolled_back_automatically(self) -> bool:
        """Return whether the definition in the spec failed, and an earlier one is the target."""
        return self.target_cause == "AutomaticRollback"
