"""What a nested Stack inherits of its parent's environment: the rules whose paths lead into it, each with the rest of its path.

They are laid over the manifest of the nested Stack, beside what that states itself. They belong to no definition and to no
hash: the object remembers apart from these what it was given, so that a change of the rules alone is written, and is no
update of the resource. Must not know what a rule does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hearth.model import names
from hearth.model.child import Child, Object
from hearth.model.field_paths import ElementPath
from hearth.plan.environment.environment_rules import EnvironmentRule, EnvironmentRules

ENVIRONMENT: ElementPath = ("spec", "environment")
"""Where a nested Stack has its rules."""
DIGITS = 16
"""Hexadecimal digits of a record: one environment follows on another, so that no attack and no crowd is to be feared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedRules:
    """The rules that one nested Stack is given."""

    lists: tuple[tuple[str, tuple[tuple[str, str, tuple[str, ...]], ...]], ...]
    """By list of the environment its entries: the rest of a path, the word of what it says, and what it says."""

    @property
    def digest(self) -> str:
        """What the object remembers them by; equal for equal rules alone."""
        return hashlib.sha256(json.dumps(self.lists).encode()).hexdigest()[:DIGITS]

    def merge_into(self, manifest: Object) -> Object:
        """The manifest with these rules behind its own. What cannot take them stays, and the API server says why."""
        spec = manifest.get("spec") or {}
        stated = (spec.get("environment") or {}) if isinstance(spec, dict) else None
        if not isinstance(stated, dict):
            return manifest
        merged = dict(stated)
        for key, entries in self.lists:
            own = stated.get(key) or []
            if isinstance(own, list):
                merged[key] = [*own, *({"resource": rest, word: [*said]} for rest, word, said in entries)]
        return {**manifest, "spec": {**spec, "environment": merged}}


def find(rules: EnvironmentRules, resource: str) -> InheritedRules | None:
    """What a nested Stack is given that stands for this resource, None where that is nothing."""
    lists = (
        ("breakpoints", tuple(_choose(rules.breakpoints, resource, word="at"))),
        ("restrictedActions", tuple(_choose(rules.restrictions, resource, word="deny"))),
    )
    present = tuple((key, entries) for key, entries in lists if entries)
    return InheritedRules(lists=present) if present else None


def _choose(
    rules: Iterable[EnvironmentRule], resource: str, *, word: str
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for rule in rules:
        if rule.leads_into(resource):
            yield rule.resource.partition("/")[2], word, tuple(sorted(rule.words))


def has_rules(child: Child, inheritance: InheritedRules | None) -> bool:
    """Whether the object remembers that it was given just this, or nothing where that is nothing."""
    annotations: dict[str, Any] = child.fields["metadata"].get("annotations") or {}
    return annotations.get(names.ANNOTATION_INHERITED_RULES) == (
        inheritance.digest if inheritance is not None else None
    )


def is_inherited(place: ElementPath, inheritance: InheritedRules | None) -> bool:
    """Whether a field of the complete manifest holds rules that were given, so that nobody else may keep it."""
    return inheritance is not None and place[: len(ENVIRONMENT)] == ENVIRONMENT
