"""Parses the rules of `spec.environment` and finds the rule that applies to a resource.

The rules are parsed once for each generation of the Stack. They match resource names; they never read a status.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from hearth.model import limits, members, value_class
from hearth.template.text import patterns

STAR, QUESTION_MARK = r"[a-zA-Z0-9\[\]-]*", r"[a-zA-Z0-9-]"
"""Regular expressions for the wildcards of a rule. They match within one name, with the key of a member or without."""
RUN_OF_STARS = re.compile(r"\*+")


class Action(enum.StrEnum):
    """Action on a resource, independent of the action of the Stack."""

    CREATE = "Create"
    UPDATE = "Update"
    REPLACE = "Replace"
    DELETE = "Delete"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRule:
    """One entry of `spec.environment`."""

    resource: str
    """As the user wrote it: a name, a glob, or a path into a nested Stack."""
    words: frozenset[str]
    """Its hooks, or the actions that it denies."""
    place: str
    """Its field path: `spec.environment.breakpoints[0]`."""
    pattern: Any = None
    """None if `resource` is a plain name."""
    is_inherited: bool = False
    """Whether it may come from the parent Stack, the only place where the user can remove it."""
    is_nested: bool = False
    """Whether it applies to resources of a nested Stack, not to resources of this Stack."""

    @property
    def where_defined(self) -> str:
        """Return the end of a sentence that names another place where the user may need to remove the rule, or ""."""
        return ", here or in the Stack around this one" if self.is_inherited else ""

    def fits(self, name: str) -> bool:
        """Return whether it applies to this resource of the Stack itself."""
        if self.is_nested:
            return False
        if self.pattern is not None:
            return self.pattern.fullmatch(name) is not None
        # The name of a collection covers all its members.
        return self.resource in (name, members.root_of(name))

    def leads_into(self, name: str) -> bool:
        """Return whether it applies to resources within the nested Stack of this resource."""
        return self.is_nested and self.finds_any((name,))

    def finds_any(self, names: Collection[str]) -> bool:
        """Return whether it matches one of these resources. For a path, the first part counts."""
        if self.pattern is not None:
            return any(map(self.pattern.fullmatch, names))
        first = self.resource.partition("/")[0]
        return first in names or any(first == members.root_of(name) for name in names if members.is_member(name))


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRules:
    """The rules of one Stack."""

    breakpoints: tuple[EnvironmentRule, ...] = ()
    restrictions: tuple[EnvironmentRule, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there are no rules."""
        return not self.breakpoints and not self.restrictions

    def find_breakpoint(self, name: str, hook: str) -> EnvironmentRule | None:
        """Return the first rule that stops this resource at that hook."""
        return find(self.breakpoints, name, hook)

    def find_restriction(self, name: str, action: Action) -> EnvironmentRule | None:
        """Return the first rule that denies this action on the resource."""
        return find(self.restrictions, name, action)

    def find_unmatched(self, names: Collection[str], *, nested: Collection[str]) -> Iterator[EnvironmentRule]:
        """Find the rules that match none of these resources. Tests all names for each glob.

        nested: the names of nested Stacks, which a path can lead into.
        """
        rules = (*self.breakpoints, *self.restrictions)
        return (rule for rule in rules if not rule.finds_any(nested if rule.is_nested else names))


EMPTY = EnvironmentRules()


def find(rules: Iterable[EnvironmentRule], name: str, word: str) -> EnvironmentRule | None:
    """Return the first rule that has that word and applies to that resource."""
    return next((rule for rule in rules if word in rule.words and rule.fits(name)), None)


def parse(spec: Mapping[str, Any] | None, *, has_parents: bool = False) -> EnvironmentRules:
    """Parse `spec.environment`, which the API server has validated. has_parents: some rules come from a parent."""
    if not spec:
        return EMPTY
    return EnvironmentRules(
        breakpoints=tuple(parse_rules(spec, "breakpoints", word="at", has_parents=has_parents)),
        restrictions=tuple(parse_rules(spec, "restrictedActions", word="deny", has_parents=has_parents)),
    )


def parse_rules(spec: Mapping[str, Any], key: str, *, word: str, has_parents: bool) -> Iterator[EnvironmentRule]:
    """Parse the rules of one list. word: the key of the hooks or actions; has_parents: some rules come from a parent."""
    for index, entry in enumerate(spec.get(key) or ()):
        resource = str(entry["resource"])
        first = resource.partition("/")[0]
        yield EnvironmentRule(
            resource=resource,
            words=frozenset(entry[word]),
            place=f"spec.environment.{key}[{index}]",
            pattern=compile_glob(first) if "*" in first or "?" in first else None,
            is_inherited=has_parents,
            is_nested="/" in resource,
        )


def compile_glob(glob: str) -> Any:
    """Compile a name with wildcards to a pattern with linear run time. A wildcard matches within one path part."""
    shortened = RUN_OF_STARS.sub("*", glob[: limits.GLOB_LENGTH])
    parts = (STAR if part == "*" else QUESTION_MARK if part == "?" else re.escape(part) for part in shortened)
    return patterns.compile_pattern("".join(parts))
