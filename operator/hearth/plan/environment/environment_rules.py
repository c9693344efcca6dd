"""The breakpoints and restricted actions of a Stack as rules on its resources, compiled once for each generation.

Knows names and words only; must not know where a resource stands.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hearth.model import limits
from hearth.template.text import patterns

STAR, QUESTION_MARK = "[a-zA-Z0-9]*", "[a-zA-Z0-9]"
"""What the wildcards of a rule stand for: a part of one name."""
RUN_OF_STARS = re.compile(r"\*+")


class Action(enum.StrEnum):
    """What happens to a resource, whatever the Stack's own action is called."""

    CREATE = "Create"
    UPDATE = "Update"
    REPLACE = "Replace"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRule:
    """One entry of the environment."""

    resource: str
    """As it was written: a name, a glob, or a path into a nested stack."""
    words: frozenset[str]
    """Its hooks, or what it denies."""
    place: str
    """Where it stands: `spec.environment.breakpoints[0]`."""
    pattern: Any = None
    """None where `resource` is a plain name."""
    is_inherited: bool = False
    """Whether it may come from the Stack around this one, and be taken away there alone."""
    is_nested: bool = False
    """Whether it is about resources of a nested stack, which are not this Stack's own."""

    @property
    def where_defined(self) -> str:
        """Where else it may have to be taken away, as the end of a sentence; "" for nowhere."""
        return ", here or in the Stack around this one" if self.is_inherited else ""

    def fits(self, name: str) -> bool:
        """Whether it is about this resource of the Stack itself."""
        if self.is_nested:
            return False
        return self.pattern.fullmatch(name) is not None if self.pattern is not None else self.resource == name

    def leads_into(self, name: str) -> bool:
        """Whether it is about resources within the nested stack that stands for this resource."""
        return self.is_nested and self.finds_any((name,))

    def finds_any(self, names: Collection[str]) -> bool:
        """Whether one of these resources is there for it; of a path the first part."""
        if self.pattern is not None:
            return any(map(self.pattern.fullmatch, names))
        return self.resource.partition("/")[0] in names


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRules:
    """All rules of one Stack."""

    breakpoints: tuple[EnvironmentRule, ...] = ()
    restrictions: tuple[EnvironmentRule, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is ruled."""
        return not self.breakpoints and not self.restrictions

    def find_breakpoint(self, name: str, hook: str) -> EnvironmentRule | None:
        """The first rule that stops this resource there."""
        return find(self.breakpoints, name, hook)

    def find_restriction(self, name: str, action: Action) -> EnvironmentRule | None:
        """The first rule that denies this to the resource."""
        return find(self.restrictions, name, action)

    def find_unmatched(self, names: Collection[str], *, nested: Collection[str]) -> Iterator[EnvironmentRule]:
        """The rules that name none of these resources. Costs a look at all names for each glob.

        nested: those that are nested stacks, so that a path may lead into them.
        """
        rules = (*self.breakpoints, *self.restrictions)
        return (rule for rule in rules if not rule.finds_any(nested if rule.is_nested else names))


EMPTY = EnvironmentRules()


def find(rules: Iterable[EnvironmentRule], name: str, word: str) -> EnvironmentRule | None:
    """The first of the rules that says that word of that resource."""
    return next((rule for rule in rules if word in rule.words and rule.fits(name)), None)


def parse(spec: Mapping[str, Any] | None, *, has_parents: bool = False) -> EnvironmentRules:
    """The rules in `spec.environment`, which the API server has validated. has_parents: some come from a parent."""
    if not spec:
        return EMPTY
    return EnvironmentRules(
        breakpoints=tuple(parse_rules(spec, "breakpoints", word="at", has_parents=has_parents)),
        restrictions=tuple(parse_rules(spec, "restrictedActions", word="deny", has_parents=has_parents)),
    )


def parse_rules(spec: Mapping[str, Any], key: str, *, word: str, has_parents: bool) -> Iterator[EnvironmentRule]:
    """The rules of one list. word: the key of what each entry says of its resource; has_parents: some are a parent's."""
    for index, entry in enumerate(spec.get(key) or ()):
        resource = str(entry["resource"])
        first = resource.partition("/")[0]
        yield EnvironmentRule(
            resource=resource,
            words=frozenset(entry[word]),
            place=f"spec.environment.{key}[{index}]",
            pattern=compile_glob(first) if has_wildcards(first) else None,
            is_inherited=has_parents,
            is_nested="/" in resource,
        )


def has_wildcards(name: str) -> bool:
    """Whether a name stands for several."""
    return "*" in name or "?" in name


def compile_glob(glob: str) -> Any:
    """What a name with wildcards matches, in linear time; they never reach beyond one part of a path."""
    shortened = RUN_OF_STARS.sub("*", glob[: limits.GLOB_LENGTH])
    parts = (STAR if part == "*" else QUESTION_MARK if part == "?" else re.escape(part) for part in shortened)
    return patterns.compile_pattern("".join(parts))
