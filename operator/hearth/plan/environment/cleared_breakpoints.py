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
class Passages:
    """Belongs to one wish: the next one begins with none."""

    passed: tuple[str, ...] = ()
    """`web/PreUpdate`, the oldest first."""
    parted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By resource whose object is deleted and that stops after that, the resources that it required."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be written."""
        return not self.passed and not self.parted

    def let(self, resource: str, hook: str) -> Passages:
        """With one more passed."""
        key = name(resource, hook)
        others = tuple(each for each in self.passed if each != key)
        return Passages(passed=(*others, key)[-LIMIT:], parted=self.parted)

    def find_changed(self, other: Passages) -> set[str]:
        """The resources that have passed something under one of the two alone."""
        return {key.rpartition("/")[0] for key in {*self.passed} ^ {*other.passed}}

    def part(self, parting: Mapping[str, Iterable[str]]) -> Passages:
        """With these resources' objects about to be deleted."""
        added = {resource: tuple(required)[:REQUIRED_LIMIT] for resource, required in parting.items()}
        kept = list({**self.parted, **added}.items())[-LIMIT:]
        return Passages(passed=self.passed, parted=dict(kept))


NONE = Passages()


def name(resource: str, hook: str) -> str:
    """How one breakpoint of one resource is called."""
    return f"{resource}/{hook}"


def write(passages: Passages) -> Object:
    """As it stands in a status; what is empty is left out."""
    said: Object = {}
    if passages.passed:
        said["passed"] = list(passages.passed)
    if passages.parted:
        said["parted"] = [
            {"resource": resource, "requires": list(required)} for resource, required in passages.parted.items()
        ]
    return said


def read(said: Mapping[str, Any]) -> Passages:
    """What a status tells of. Raises AttributeError, KeyError, TypeError or ValueError where it makes no sense."""
    parted = {each["resource"]: read_names(each.get("requires")) for each in said.get("parted") or ()}
    read_names(list(parted))
    return Passages(passed=read_names(said.get("passed"))[-LIMIT:], parted=dict(list(parted.items())[-LIMIT:]))


def read_names(said: Any) -> tuple[str, ...]:
    """A list of texts. Raises ValueError where it is none."""
    if not isinstance(said or [], list) or not all(isinstance(each, str) for each in said or ()):
        raise ValueError("is no list of names")
    return tuple(said or ())
