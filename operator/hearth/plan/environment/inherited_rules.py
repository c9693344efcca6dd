"""Environment rules and retry requests that a nested Stack inherits from its parent.

A rule is inherited if its path leads into the nested Stack; the rest of the path is then relative to that Stack. The
operator appends the inherited rules to the rules in the nested Stack's manifest. They do not affect its definition or
its hash. An annotation stores a digest of them, so the operator can apply changed rules without an update of the
resource.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from hearth.model import names, value_class
from hearth.model.child import Child, Object
from hearth.model.field_paths import ElementPath
from hearth.plan.environment.environment_rules import EnvironmentRule, EnvironmentRules

ENVIRONMENT: ElementPath = ("spec", "environment")
"""The path of the rules in a nested Stack."""
DIGITS = 16
"""Hexadecimal digits of a record. Only consecutive environments of one Stack are compared, so collisions do not matter."""

TOKEN_LENGTH = 64
"""Characters of a retry token that is handed down unchanged. A longer one is handed down as a hash."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InheritedRules:
    """Rules that one nested Stack inherits."""

    lists: tuple[tuple[str, tuple[tuple[str, str, tuple[str, ...]], ...]], ...]
    """Entries by list of the environment: the remaining path, the key (`at` or `deny`), and its values."""

    retry: str = ""
    """Token of the last retry that was requested of the Stack or of its ancestors, "" for none."""

    @property
    def digest(self) -> str:
        """Return the digest that the annotation of the object holds; equal only for equal rules and requests."""
        held = [self.lists, self.retry] if self.retry else self.lists
        return hashlib.sha256(json.dumps(held).encode()).hexdigest()[:DIGITS]

    @property
    def annotations(self) -> dict[str, str]:
        """Return the metadata that record the inherited rules on the nested Stack."""
        retry = {names.REQUEST_INHERITED_RETRY: self.retry} if self.retry else {}
        return {names.ANNOTATION_INHERITED_RULES: self.digest, **retry}

    def merge_into(self, manifest: Object) -> Object:
        """Append these rules to the rules of the manifest. An invalid part stays unchanged; the API server reports it."""
        if not self.lists:
            return manifest
        spec = manifest.get("spec") or {}
        stated = (spec.get("environment") or {}) if isinstance(spec, dict) else None
        if not isinstance(stated, dict):
            return manifest
        merged = dict(stated)
        for key, entries in self.lists:
            own = stated.get(key) or []
            if isinstance(own, list):
                merged[key] = [
                    *own,
                    *({"resource": rest, word: [*subresources]} for rest, word, subresources in entries),
                ]
        return {**manifest, "spec": {**spec, "environment": merged}}


def find(rules: EnvironmentRules, resource: str, *, retry: str = "") -> InheritedRules | None:
    """Return the rules that the nested Stack of this resource inherits, or None. retry: see `find_retry`."""
    lists = (
        ("breakpoints", tuple(_choose(rules.breakpoints, resource, word="at"))),
        ("restrictedActions", tuple(_choose(rules.restrictions, resource, word="deny"))),
    )
    present = tuple((key, entries) for key, entries in lists if entries)
    return InheritedRules(lists=present, retry=retry) if present or retry else None


def find_retry(retries: Iterable[str]) -> str:
    """Return the token of the retry that a Stack with these values of its annotations hands down; "" for none.

    The token depends only on the values, so a crash neither loses nor repeats a request. Any client can write a
    long token, so a long one is hashed.
    """
    token = "/".join(filter(None, retries))
    return token if len(token) <= TOKEN_LENGTH else hashlib.sha256(token.encode()).hexdigest()[:TOKEN_LENGTH]


def _choose(
    rules: Iterable[EnvironmentRule], resource: str, *, word: str
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for rule in rules:
        if rule.leads_into(resource):
            yield rule.resource.partition("/")[2], word, tuple(sorted(rule.words))


def has_rules(child: Child, inheritance: InheritedRules | None) -> bool:
    """Return whether the annotation of the object records exactly these rules, or no rules."""
    annotations: dict[str, Any] = child.fields["metadata"].get("annotations") or {}
    return annotations.get(names.ANNOTATION_INHERITED_RULES) == (
        inheritance.digest if inheritance is not None else None
    )


def is_inherited(place: ElementPath, inheritance: InheritedRules | None) -> bool:
    """Return whether a field of the complete manifest holds inherited rules, so that no other manager may keep it."""
    return inheritance is not None and place[: len(ENVIRONMENT)] == ENVIRONMENT
