"""The rules that come with Hearth. Each is read when a kind is first asked for that it is for.

There are rules for a hundred kinds, of which a cluster uses a few; to read them all takes a tenth of a second, for which
the first Stack would wait.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from hearth.model.kinds import Kind
from hearth.plan.health import rule_parser
from hearth.plan.health.health_result import HealthRuleEntry
from hearth.plan.health.rule_parser import ByKind, RuleTable
from hearth.plan.health.suspend_rules import SuspendRule


@dataclass(frozen=True, slots=True)
class UnparsedRule:
    """One rule as it is written."""

    document: str
    text: str


class BuiltinRules:
    """Texts without mistakes, as rules by kind; all the same as by `hearth.plan.health.rule_parser.read`."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        """documents: by their names."""
        rules = [rule for name, content in documents.items() for rule in split(name, content)]
        self._health = index(rules, "cases")
        self._suspension = index(rules, "suspend")

    def find(self, kind: Kind) -> HealthRuleEntry | None:
        """How objects of a kind do."""
        rule = self._health.find(kind)
        return read(rule).find(kind) if rule is not None else None

    def find_suspension(self, kind: Kind) -> SuspendRule | None:
        """How they are suspended."""
        rule = self._suspension.find(kind)
        return read(rule).find_suspension(kind) if rule is not None else None


def split(name: str, content: str) -> list[tuple[yaml.MappingNode, UnparsedRule]]:
    """Each rule of a document as YAML sees it, and as it is written."""
    # This loader does not ask what a scalar means, which is what takes the time.
    root = yaml.compose(content, Loader=yaml.CBaseLoader)
    return [
        (node, UnparsedRule(name, f"- {content[node.start_mark.index : node.end_mark.index]}"))
        for node in (root.value if root is not None else ())
    ]


def index(rules: list[tuple[yaml.MappingNode, UnparsedRule]], word: str) -> ByKind[UnparsedRule]:
    """By kind the rules in which that word stands."""
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
    """What one rule says."""
    table, mistakes = rule_parser.read({rule.document: rule.text})
    assert not mistakes, mistakes  # noqa: S101 -- a mistake of ours, which the tests find
    return table
