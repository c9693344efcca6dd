"""Suspend rules: the fields that suspend an object of a kind, and the test for whether it has stopped.

`rule_parser` parses the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hearth.model import field_paths, value_class
from hearth.model.child import Child, Path
from hearth.plan.health.health_result import find_unobserved
from hearth.plan.health.rule_cases import SELF
from hearth.template.blueprint import Known
from hearth.template.cel import expressions
from hearth.template.cel.expressions import Expression

ANNOTATIONS: Path = ("metadata", "annotations")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRule:
    """Suspend rule of one kind."""

    sets: Mapping[Path, Any]
    """The fields that suspend an object, and their values."""
    overrides: Mapping[Path, Any]
    """More fields to set, with the values that they need while the object is suspended. Set only if the object has
    other values."""
    done_when: Expression | None = None
    """Test that the object no longer runs anything. None: it is done as soon as the fields are set."""
    unless: Expression | None = None
    """Test whether there is nothing to suspend."""
    paths: frozenset[Path]
    """All fields that the rule reads, in addition to apiVersion, kind and metadata."""

    def is_exempt(self, child: Child) -> bool:
        """Return whether the object is exempt from suspending."""
        return self.unless is not None and holds(self.unless, child)

    def is_set(self, child: Child) -> bool:
        """Return whether the object's fields have their suspended values."""
        is_suspended = all(read(child.fields, path) == value for path, value in self.sets.items())
        return is_suspended and not self.find_overridden(child)

    def find_overridden(self, child: Child) -> dict[Path, Any]:
        """Return the fields of `overrides` that have other values on the object, with the values to set."""
        return {path: value for path, value in self.overrides.items() if read(child.fields, path) not in (None, value)}

    @property
    def values(self) -> dict[Path, Any]:
        """All fields that the rule may set, and their values."""
        return {**self.sets, **self.overrides}

    def is_done(self, child: Child) -> bool:
        """Return whether an object with suspended fields no longer runs anything."""
        if self.done_when is None:
            return True
        return find_unobserved(child.fields) is None and holds(self.done_when, child)


def holds(test: Expression, child: Child) -> bool:
    """Return whether the test is true for the object. A missing field makes it false."""
    outcome = test.evaluate({SELF: expressions.enlarge(child.fields)})
    return isinstance(outcome, Known) and outcome.value is True


def read(value: Any, path: Path) -> Any:
    """Return the value at the path, or None."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def parse_path(text: str) -> Path | None:
    """Parse the path of a field that may be set. The path must not contain a list."""
    found = field_paths.parse(text)
    if found is None:
        return None
    path = tuple(key for key in found if isinstance(key, str))
    is_spec, is_annotation = path[0] == "spec" and len(path) > 1, path[:2] == ANNOTATIONS and len(path) == 3
    return path if len(path) == len(found) and (is_spec or is_annotation) else None


def write_paths(paths: Iterable[Path]) -> str:
    """Format the paths for users."""
    return ", ".join(map(write_path, paths))


def write_path(path: Path) -> str:
    """Format the path for users."""
    is_annotation = path[:2] == ANNOTATIONS
    return f"metadata.annotations[{path[2]}]" if is_annotation else ".".join(path)
