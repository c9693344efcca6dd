"""The rules of `spec.environment` that apply now, without the breakpoints that a user cleared.

Cleared breakpoints also record the resources that stop after their objects are deleted. Neither can be derived from the
children, so `status.controllerState` stores both before any step that depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from hearth.model import members, value_class
from hearth.model.child import Object
from hearth.plan.environment import environment_rules
from hearth.plan.environment.environment_rules import EnvironmentRules

LIMIT = 500
"""Maximum number of individually cleared breakpoints per target. Beyond it, the oldest are forgotten and may stop
again."""
REQUIRED_LIMIT = 500
"""Maximum number of required resources to store for one resource: the limit of `dependsOn`."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ClearedBreakpoints:
    """Cleared breakpoints of one target. The next target starts with none."""

    keys: tuple[str, ...] = ()
    """Keys in the form `web/PreUpdate`, the oldest first; `workers[*]/PreUpdate` for all members of a collection."""
    post_delete: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The required resources of each resource that stops after the deletion of its object."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to store."""
        return not self.keys and not self.post_delete

    def has(self, resource: str, hook: str) -> bool:
        """Whether a breakpoint is cleared, on its own or together with all members of its collection."""
        if not self.keys:
            return False
        if breakpoint_key(resource, hook) in self.keys:
            return True
        whole = members.name_all(members.root_of(resource))
        return members.is_member(resource) and breakpoint_key(whole, hook) in self.keys

    def clear(self, resource: str, hook: str) -> ClearedBreakpoints:
        """Return a copy with one more breakpoint cleared."""
        key = breakpoint_key(resource, hook)
        others = tuple(each for each in self.keys if each != key)
        return ClearedBreakpoints(keys=(*others, key)[-LIMIT:], post_delete=self.post_delete)

    def find_changed(self, other: ClearedBreakpoints) -> set[str]:
        """Return the resources whose cleared breakpoints differ between the two, or `workers[*]` for all members."""
        return {key.rpartition("/")[0] for key in {*self.keys} ^ {*other.keys}}

    def add_post_delete(self, parting: Mapping[str, Iterable[str]]) -> ClearedBreakpoints:
        """Return a copy that records resources whose objects are about to be deleted, with their requirements."""
        added = {resource: tuple(required)[:REQUIRED_LIMIT] for resource, required in parting.items()}
        kept = list({**self.post_delete, **added}.items())[-LIMIT:]
        return ClearedBreakpoints(keys=self.keys, post_delete=dict(kept))


NONE_CLEARED = ClearedBreakpoints()


def breakpoint_key(resource: str, hook: str) -> str:
    """Return the key of one breakpoint of one resource."""
    return f"{resource}/{hook}"


def encode_cleared(cleared: ClearedBreakpoints) -> Object:
    """Encode for a status; omit empty fields."""
    encoded: Object = {}
    if cleared.keys:
        encoded["clearedBreakpoints"] = list(cleared.keys)
    if cleared.post_delete:
        encoded["postDelete"] = [
            {"resource": resource, "requires": list(required)} for resource, required in cleared.post_delete.items()
        ]
    return encoded


def decode_cleared(encoded: Mapping[str, Any]) -> ClearedBreakpoints:
    """Decode from a status. Raises AttributeError, KeyError, TypeError or ValueError if it is invalid."""
    post_delete = {each["resource"]: read_names(each.get("requires")) for each in encoded.get("postDelete") or ()}
    read_names(list(post_delete))
    return ClearedBreakpoints(
        keys=read_names(encoded.get("clearedBreakpoints"))[-LIMIT:],
        post_delete=dict(list(post_delete.items())[-LIMIT:]),
    )


def read_names(encoded: Any) -> tuple[str, ...]:
    """Decode a list of strings. Raises ValueError for any other value."""
    if not isinstance(encoded or [], list) or not all(isinstance(each, str) for each in encoded or ()):
        raise ValueError("is not a list of names")
    return tuple(encoded or ())


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ActiveEnvironment:
    """Restrictions on the steps of a Stack that its user set."""

    rules: EnvironmentRules = environment_rules.EMPTY
    key: str = ""
    """The key of stops that are recorded on objects, see `Target.breakpoint_key`. A stop with another key no longer
    applies."""
    cleared: ClearedBreakpoints = NONE_CLEARED
    can_record: bool = True
    """Whether there is a target that can record cleared breakpoints."""
    previous_resources: frozenset[str] = frozenset()
    """The resources that had an object before this target, or since it completed."""

    @property
    def is_unrestricted(self) -> bool:
        """Return whether there are no rules."""
        return self.rules.is_empty

    def stops_at(self, resource: str, hook: str) -> bool:
        """Return whether the resource stops at that hook now."""
        return self.rules.find_breakpoint(resource, hook) is not None and not self.cleared.has(resource, hook)


UNRESTRICTED = ActiveEnvironment()
