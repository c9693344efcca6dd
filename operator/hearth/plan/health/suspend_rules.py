"""Suspend rules of a kind as data: the fields to set, and when nothing of an object runs anymore.

Parsed from the same texts as health rules (`hearth.plan.health.rule_parser`). Must not know Stacks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import yaml

from hearth.model import field_paths, value_class
from hearth.model.child import Child, Path
from hearth.plan.health.health_result import find_unobserved
from hearth.plan.health.rule_cases import METADATA, SELF
from hearth.plan.health.rule_expressions import ExpressionLocation
from hearth.template.blueprint import Known
from hearth.template.cel import expressions, field_references
from hearth.template.cel.expressions import Expression
from hearth.template.text import kubectl_yaml

WORDS = ("set", "override", "doneWhen", "unless")
ANNOTATIONS: Path = ("metadata", "annotations")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRule:
    """Suspend rule of one kind."""

    sets: Mapping[Path, Any]
    """The fields that suspend an object, and their values."""
    overrides: Mapping[Path, Any]
    """Further fields, and the values that they must have meanwhile. They are set where the object has other values."""
    done_when: Expression | None = None
    """Test whether the object runs nothing anymore. None: as soon as the fields are set."""
    unless: Expression | None = None
    """Test whether there is nothing to suspend."""
    paths: frozenset[Path]
    """All fields that the rule reads, besides apiVersion, kind and metadata."""

    def is_exempt(self, child: Child) -> bool:
        """Return whether the object is exempt from suspending."""
        return self.unless is not None and holds(self.unless, child)

    def is_set(self, child: Child) -> bool:
        """Return whether the object's fields have their suspended values."""
        is_suspended = all(read(child.fields, path) == value for path, value in self.sets.items())
        return is_suspended and not self.find_overridden(child)

    def find_overridden(self, child: Child) -> dict[Path, Any]:
        """Return the values of the further fields that the object has with other values. An absent field has none."""
        return {path: value for path, value in self.overrides.items() if read(child.fields, path) not in (None, value)}

    @property
    def values(self) -> dict[Path, Any]:
        """All fields that the rule may set, and their values."""
        return {**self.sets, **self.overrides}

    def is_done(self, child: Child) -> bool:
        """Return whether an object with suspended fields runs nothing anymore."""
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


class RuleReader(Protocol):
    """Parser for the texts of all rules."""

    def note(self, node: yaml.Node, message: str) -> None:
        """Record an error at this location."""

    def place(self, node: yaml.Node) -> str:
        """Format the location for users."""

    def read_words(self, node: yaml.Node, known: tuple[str, ...], what: str) -> dict[str, yaml.Node] | None:
        """Return the values of a mapping by key, or None if the node is no mapping."""

    def read_test(self, node: yaml.Node | None, location: ExpressionLocation) -> Expression | None:
        """Parse a test, or return None if it is missing or has errors."""


def read_rule(node: yaml.Node, reader: RuleReader, *, owner: str) -> SuspendRule | None:
    """Parse the value of `suspend`, or return None if it has errors. owner: the kinds, as messages name them."""
    words = reader.read_words(node, WORDS, "suspend")
    if words is None:
        return None
    sets = dict(read_sets(words.get("set"), node, reader))
    overrides = dict(read_sets(words["override"], node, reader)) if "override" in words else {}
    if overlap := find_overlap([*sets, *overrides]):
        reader.note(
            words.get("set") or node, f"sets {overlap[0]} and a field within it, {overlap[1]}; keep one of them"
        )
    place = ExpressionLocation(path="", owner=owner, names=(SELF,))
    done_when, unless = (reader.read_test(words.get(word), place) for word in ("doneWhen", "unless"))
    tests = [test for test in (done_when, unless) if test is not None]
    paths = {path for test in tests for path in test.reads.get(SELF, frozenset())} | {*sets, *overrides}
    if done_when is not None:
        paths.add(("status", "observedGeneration"))
    return SuspendRule(
        sets=sets,
        overrides=overrides,
        done_when=done_when,
        unless=unless,
        paths=field_references.shorten(path for path in paths if path[0] not in METADATA),
    )


def find_overlap(paths: Collection[Path]) -> tuple[str, str] | None:
    """Find a field and another one within it, or return None."""
    pairs = ((outer, inner) for outer in paths for inner in paths if len(outer) < len(inner))
    found = next((pair for pair in pairs if pair[1][: len(pair[0])] == pair[0]), None)
    return (write_path(found[0]), write_path(found[1])) if found is not None else None


def read_sets(node: yaml.Node | None, rule: yaml.Node, reader: RuleReader) -> Iterator[tuple[Path, Any]]:
    """Parse the fields to set, without those that have errors."""
    if not isinstance(node, yaml.MappingNode) or not node.value:
        reader.note(node or rule, "suspend needs set, a map of fields to values, e.g. {spec.suspend: true}")
        return
    for key, value in node.value:
        path = parse_path(key.value) if isinstance(key, yaml.ScalarNode) else None
        if path is None:
            reader.note(
                key,
                "must be a field below spec, or an annotation, as in spec.replicas or "
                "metadata.annotations[crossplane.io/paused]",
            )
        elif not isinstance(value, yaml.ScalarNode):
            reader.note(value, "must be a string, a number, true or false")
        else:
            yield path, read_scalar(value)


def parse_path(text: str) -> Path | None:
    """Parse the path of a field that may be set. The path must not contain a list."""
    found = field_paths.parse(text)
    if found is None:
        return None
    path = tuple(key for key in found if isinstance(key, str))
    is_spec, is_annotation = path[0] == "spec" and len(path) > 1, path[:2] == ANNOTATIONS and len(path) == 3
    return path if len(path) == len(found) and (is_spec or is_annotation) else None


def read_scalar(node: yaml.ScalarNode) -> Any:
    """Return the value as YAML defines it."""
    loader = kubectl_yaml.Loader("")
    try:
        return loader.construct_json(node)
    finally:
        loader.dispose()


def write_paths(paths: Iterable[Path]) -> str:
    """Format the paths for users."""
    return ", ".join(map(write_path, paths))


def write_path(path: Path) -> str:
    """Format the path for users."""
    is_annotation = path[:2] == ANNOTATIONS
    return f"metadata.annotations[{path[2]}]" if is_annotation else ".".join(path)
