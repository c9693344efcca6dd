"""What was passed of the breakpoints under one wish, and which objects went away under it before somebody may go on.

Neither can be read off the children, so it stands in `status.wish`, and is written there before anything follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model.child import Object

LIMIT = 500
"""Breakpoints passed one by one under one wish; of more the oldest are forgotten, and stop again where they are met again."""
REQUIRED_LIMIT = 500
"""Names that are kept of what one resource required: as many as `dependsOn` may state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedBreakpoints:
    """Belongs to one wish: the next one begins with none."""

    keys: tuple[str, ...] = ()
    """`web/PreUpdate`, the oldest first."""
    post_delete: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By resource whose object is deleted and that stops after that, the resources that it required."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be written."""
        return not self.keys and not self.post_delete

    def clear(self, resource: str, hook: str) -> ClearedBreakpoints:
        """With one more passed."""
        key = breakpoint_key(resource, hook)
        others = tuple(each for each in self.keys if each != key)
        return ClearedBreakpoints(keys=(*others, key)[-LIMIT:], post_delete=self.post_delete)

    def find_changed(self, other: ClearedBreakpoints) -> set[str]:
        """The resources that have passed something under one of the two alone."""
        return {key.rpartition("/")[0] for key in {*self.keys} ^ {*other.keys}}

    def add_post_delete(self, parting: Mapping[str, Iterable[str]]) -> ClearedBreakpoints:
        """With these resources' objects about to be deleted."""
        added = {resource: tuple(required)[:REQUIRED_LIMIT] for resource, required in parting.items()}
        kept = list({**self.post_delete, **added}.items())[-LIMIT:]
        return ClearedBreakpoints(keys=self.keys, post_delete=dict(kept))


NONE = ClearedBreakpoints()


def breakpoint_key(resource: str, hook: str) -> str:
    """How one breakpoint of one resource is called."""
    return f"{resource}/{hook}"


def encode(passages: ClearedBreakpoints) -> Object:
    """As it stands in a status; what is empty is left out."""
    said: Object = {}
    if passages.keys:
        said["passed"] = list(passages.keys)
    if passages.post_delete:
        said["parted"] = [
            {"resource": resource, "requires": list(required)} for resource, required in passages.post_delete.items()
        ]
    return said


def decode(said: Mapping[str, Any]) -> ClearedBreakpoints:
    """What a status tells of. Raises AttributeError, KeyError, TypeError or ValueError where it makes no sense."""
    parted = {each["resource"]: read_names(each.get("requires")) for each in said.get("parted") or ()}
    read_names(list(parted))
    return ClearedBreakpoints(
        keys=read_names(said.get("passed"))[-LIMIT:], post_delete=dict(list(parted.items())[-LIMIT:])
    )


def read_names(said: Any) -> tuple[str, ...]:
    """A list of texts. Raises ValueError where it is none."""
    if not isinstance(said or [], list) or not all(isinstance(each, str) for each in said or ()):
        raise ValueError("is no list of names")
    return tuple(said or ())
