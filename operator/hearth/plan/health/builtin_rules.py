"""Rules that Hearth ships. Each is parsed when its kind is first requested.

There are rules for a hundred kinds, of which a cluster uses a few. Parsing all of them takes a tenth of a second, which
would delay the first Stack.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Mapping

import yaml

from hearth.model import value_class
from hearth.model.kinds import Kind
from hearth.plan.health import rule_parser
from hearth.plan.health.health_result import HealthRuleEntry
from hearth.plan.health.rule_parser import ByKind, RuleTable
from hearth.plan.health.suspend_rules import SuspendRule


@value_class.dataclass(frozen=True, slots=True)
class UnparsedRule:
    """Rule as text."""

    document: str
    text: str


class BuiltinRules:
    """Index of rule texts without errors. Gives the same rules as `hearth.plan.health.rule_parser.read`."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        """Split and index the documents.

        documents: texts by name.
        """
        rules = [rule for name, content in documents.items() for rule in split(name, content)]
        self._health = index(rules, "cases")
        self._suspension = index(rules, "suspend")

    def find(self, kind: Kind) -> HealthRuleEntry | None:
        """Find the health rule of a kind."""
        rule = self._health.find(kind)
        return read(rule).find(kind) if rule is not None else None

    def find_suspension(self, kind: Kind) -> SuspendRule | None:
        """Find the suspend rule of a kind."""
        rule = self._suspension.find(kind)
        return read(rule).find_suspension(kind) if rule is not None else None


def split(name: str, content: str) -> list[tuple[yaml.MappingNode, UnparsedRule]]:
    """Split a document into rules, each as YAML node and as text."""
    # This loader does not resolve the types of scalars, which takes most of the time.
    root = yaml.compose(content, Loader=yaml.CBaseLoader)
    return [
        (node, UnparsedRule(name, f"- {content[node.start_mark.index : node.end_mark.index]}"))
        for node in (root.value if root is not None else ())
    ]


def index(rules: list[tuple[yaml.MappingNode, UnparsedRule]], word: str) -> ByKind[UnparsedRule]:
    """Index the rules that contain this key by kind."""
    entries: dict[str, UnparsedRule] = {}
    patterns: list[tuple[re.Pattern[str], UnparsedRule]] = []
    for node, rule in rules:
        words = {key.value: value for key, value in node.value}
        for kind in (each.value for each in words["kinds"].value if word in words):
            if "*" in kind:
                patterns.append((re.compile(fnmatch.translate(kind)), rule))
            else:
                entries[kind] = rule
    return ByKind(entries=entries, patterns=tuple(patterns))


@functools.cache
def read(rule: UnparsedRule) -> RuleTable:
    """Parse one rule."""
    table, mistakes = rule_parser.read({rule.document: rule.text})
    assert not mistakes, mistakes  # noqa: S101 -- an error in a shipped rule, which the tests find
    return table
