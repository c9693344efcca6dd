"""How objects of a kind are suspended, as data: which fields are set, and when nothing of them runs any more.

Read from the same texts as health rules (`hearth.plan.health.rule_parser`); must not know of Stacks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import yaml

from hearth.model import field_paths
from hearth.model.child import Child, Path
from hearth.plan.health.health_result import find_unobserved
from hearth.plan.health.rule_cases import METADATA, SELF
from hearth.plan.health.rule_expressions import ExpressionLocation
from hearth.template.blueprint import Known
from hearth.template.cel import expressions, field_references
from hearth.template.cel.expressions import Expression
from hearth.template.text import kubectl_yaml

WORDS = ("set", "doneWhen", "unless")
ANNOTATIONS: Path = ("metadata", "annotations")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRule:
    """How objects of one kind are suspended."""

    sets: Mapping[Path, Any]
    """The fields that suspend an object, and their values."""
    done_when: Expression | None = None
    """Whether nothing of it runs any more; None: as soon as the fields are set."""
    unless: Expression | None = None
    """Whether there is nothing to suspend."""
    paths: frozenset[Path]
    """All that the rule reads, besides apiVersion, kind and metadata."""

    def is_exempt(self, child: Child) -> bool:
        """Whether the object is left alone."""
        return self.unless is not None and holds(self.unless, child)

    def is_set(self, child: Child) -> bool:
        """Whether the object is told to be at nothing."""
        return all(read(child.fields, path) == value for path, value in self.sets.items())

    def is_done(self, child: Child) -> bool:
        """Whether nothing of an object that is told so runs any more."""
        if self.done_when is None:
            return True
        return find_unobserved(child.fields) is None and holds(self.done_when, child)


def holds(test: Expression, child: Child) -> bool:
    """Whether the test holds for the object; a field that is not there makes it not hold."""
    outcome = test.evaluate({SELF: expressions.enlarge(child.fields)})
    return isinstance(outcome, Known) and outcome.value is True


def read(value: Any, path: Path) -> Any:
    """What lies at the path, None where nothing does."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


class RuleReader(Protocol):
    """What reads the texts of all rules."""

    def note(self, node: yaml.Node, message: str) -> None:
        """Remember a mistake at that place."""

    def place(self, node: yaml.Node) -> str:
        """Where it stands, for people."""

    def read_words(self, node: yaml.Node, known: tuple[str, ...], what: str) -> dict[str, yaml.Node] | None:
        """The values of a mapping by their words; None where it is none."""

    def read_test(self, node: yaml.Node | None, place: ExpressionLocation) -> Expression | None:
        """A test, None where there is none, or one with mistakes."""


def read_rule(node: yaml.Node, reader: RuleReader, *, owner: str) -> SuspendRule | None:
    """What stands under `suspend`, None where it has mistakes. owner: the kinds, as messages call them."""
    words = reader.read_words(node, WORDS, "suspend")
    if words is None:
        return None
    sets = dict(read_sets(words.get("set"), node, reader))
    if overlap := find_overlap(sets):
        reader.note(
            words.get("set") or node, f"sets {overlap[0]} and a field within it, {overlap[1]}; keep one of them"
        )
    place = ExpressionLocation(path="", owner=owner, names=(SELF,))
    done_when, unless = (reader.read_test(words.get(word), place) for word in ("doneWhen", "unless"))
    tests = [test for test in (done_when, unless) if test is not None]
    paths = {path for test in tests for path in test.reads.get(SELF, frozenset())} | set(sets)
    if done_when is not None:
        paths.add(("status", "observedGeneration"))
    return SuspendRule(
        sets=sets,
        done_when=done_when,
        unless=unless,
        paths=field_references.shorten(path for path in paths if path[0] not in METADATA),
    )


def find_overlap(paths: Collection[Path]) -> tuple[str, str] | None:
    """A field that lies within another one, after that one; None where none does."""
    pairs = ((outer, inner) for outer in paths for inner in paths if len(outer) < len(inner))
    found = next((pair for pair in pairs if pair[1][: len(pair[0])] == pair[0]), None)
    return (write_path(found[0]), write_path(found[1])) if found is not None else None


def read_sets(node: yaml.Node | None, rule: yaml.Node, reader: RuleReader) -> Iterator[tuple[Path, Any]]:
    """The fields to be set, those with mistakes left out."""
    if not isinstance(node, yaml.MappingNode) or not node.value:
        reader.note(node or rule, "suspend needs set, a map of fields and their values such as {spec.suspend: true}")
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
            reader.note(value, "must be a text, a number, true or false")
        else:
            yield path, read_scalar(value)


def parse_path(text: str) -> Path | None:
    """The way to a field that may be set; no list may lie on it."""
    found = field_paths.parse(text)
    if found is None:
        return None
    path = tuple(key for key in found if isinstance(key, str))
    is_spec, is_annotation = path[0] == "spec" and len(path) > 1, path[:2] == ANNOTATIONS and len(path) == 3
    return path if len(path) == len(found) and (is_spec or is_annotation) else None


def read_scalar(node: yaml.ScalarNode) -> Any:
    """The value as YAML means it."""
    loader = kubectl_yaml.Loader("")
    try:
        return loader.construct_json(node)
    finally:
        loader.dispose()


def write_path(path: Path) -> str:
    """The field as people write it."""
    is_annotation = path[:2] == ANNOTATIONS
    return f"metadata.annotations[{path[2]}]" if is_annotation else ".".join(path)
