"""Parses health and suspend rules from YAML, and reports each error with its line.

An error in one rule does not affect other rules.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Generic, TypeVar

import yaml

from hearth.model import chunked_work, limits, value_class
from hearth.model.child import Path
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import Mistake
from hearth.model.kinds import Kind
from hearth.plan.health import health_scripts, rule_cases, suspend_rules
from hearth.plan.health.health_result import HealthRuleEntry, HealthState
from hearth.plan.health.rule_cases import CONDITION, METADATA, SELF, ConditionMatch, RuleCase, Text
from hearth.plan.health.suspend_rules import SuspendRule
from hearth.template.cel import cel_environment, expressions, field_references, type_checker
from hearth.template.cel.expression_validator import ExpressionValidator
from hearth.template.cel.expressions import Expression
from hearth.template.compiler.partial_evaluation import TOO_COSTLY
from hearth.template.schema import shapes
from hearth.template.text import error_hints, interpolation, kubectl_yaml

RULE_WORDS = ("kinds", "cases", "suspend")
SUSPEND_WORDS = ("set", "override", "doneWhen", "unless")
CASE_WORDS = ("condition", "when", "state", "terminal", "reason", "message")
STATES: Final = {state.value: state for state in HealthState}
KIND = re.compile(r"(?:(?P<group>[a-z0-9*.-]+)/)?(?P<name>[A-Za-z*][A-Za-z0-9*]*)")
CONDITION_ASKED = re.compile(r"(?P<type>[^=\s]+)=(?P<statuses>[^=\s]+)")
BOUNDS = kubectl_yaml.Bounds(nodes=limits.RULE_NODES)
SECRET_FIELDS = frozenset({"data", "stringData"})
BOOLEAN = ("BOOL", "DYN")
"""Types of a test in CEL notation."""

Rule = TypeVar("Rule")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ByKind(Generic[Rule]):
    """Rules of one type by kind."""

    entries: Mapping[str, Rule] = field(default_factory=dict)
    """Rules by `group/Kind` as written. The core group omits `group/`."""
    patterns: tuple[tuple[re.Pattern[str], Rule], ...] = ()
    """Rules whose kinds contain a `*`, in their order."""

    def find(self, kind: Kind) -> Rule | None:
        """Find the rule for a kind: the one that names it, otherwise the first whose pattern matches."""
        written = f"{kind.group}/{kind.name}" if kind.group else kind.name
        exact = self.entries.get(written)
        if exact is not None:
            return exact
        return next((entry for pattern, entry in self.patterns if pattern.fullmatch(written)), None)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RuleTable:
    """Rules by kind."""

    health: ByKind[HealthRuleEntry] = field(default_factory=ByKind)
    suspension: ByKind[SuspendRule] = field(default_factory=ByKind)

    def find(self, kind: Kind) -> HealthRuleEntry | None:
        """Find the health rule of a kind."""
        return self.health.find(kind)

    def find_suspension(self, kind: Kind) -> SuspendRule | None:
        """Find the suspend rule of a kind."""
        return self.suspension.find(kind)


EMPTY: Final = RuleTable()


def read(documents: Mapping[str, str]) -> tuple[RuleTable, tuple[Mistake, ...]]:
    """Parse the documents into valid rules and errors. documents: texts by their names in messages."""
    return chunked_work.finish(read_in_pieces(documents))


def read_in_pieces(documents: Mapping[str, str]) -> ChunkedWork[tuple[RuleTable, tuple[Mistake, ...]]]:
    """Parse the documents like `read`, a rule at a time: a full ConfigMap takes many seconds."""
    parser = _RuleParser()
    for name, content in documents.items():
        if not health_scripts.is_script_key(name):
            for node in parser.read(name, content):
                parser.read_rule(node)
                yield
    parser.read_scripts(documents)
    table = RuleTable(health=parser.health.close(), suspension=parser.suspension.close())
    return table, tuple(parser.validator.mistakes)


class RuleIndexBuilder(Generic[Rule]):
    """Builder for the index of rules of one type."""

    def __init__(self) -> None:
        self._entries: dict[str, Rule] = {}
        self._patterns: list[tuple[re.Pattern[str], Rule]] = []
        self.seen: dict[str, str] = {}
        """By kind, the location of its rule."""

    def put(self, kind: str, rule: Rule, *, place: str) -> None:
        """Add the rule of a kind."""
        self.seen[kind] = place
        if "*" in kind:
            self._patterns.append((re.compile(fnmatch.translate(kind)), rule))
        else:
            self._entries[kind] = rule

    def close(self) -> ByKind[Rule]:
        """Build the index."""
        return ByKind(entries=self._entries, patterns=tuple(self._patterns))


class _RuleParser:
    """Parser for one table."""

    def __init__(self) -> None:
        self.validator = ExpressionValidator(scope=type_checker.TypeScope({SELF: shapes.OPEN, CONDITION: shapes.OPEN}))
        self.health = RuleIndexBuilder[HealthRuleEntry]()
        self.suspension = RuleIndexBuilder[SuspendRule]()
        self._document = ""

    def note(self, node: yaml.Node, message: str) -> None:
        """Record an error at this location."""
        self.validator.note(self.place(node), message)

    def place(self, node: yaml.Node) -> str:
        """Format the location: `rules.yaml, line 12`."""
        return f"{self._document}, line {node.start_mark.line + 1}"

    def read(self, name: str, content: str) -> list[yaml.Node]:
        """Return the rules of one document, which are not parsed yet."""
        self._document = name
        try:
            root = kubectl_yaml.compose(content, BOUNDS)
        except yaml.YAMLError as error:
            self.validator.note(name, f"is not valid YAML: {kubectl_yaml.describe(error)}")
            return []
        if root is None:
            return []
        if not isinstance(root, yaml.SequenceNode):
            self.note(root, "must be a list of rules, each with kinds and cases")
            return []
        rules: list[yaml.Node] = root.value
        return rules

    def read_scripts(self, documents: Mapping[str, str]) -> None:
        """Parse the health scripts among the documents."""
        for found in health_scripts.find_scripts(documents):
            if isinstance(found, Mistake):
                self.validator.note(found.path, found.message)
                continue
            kind, text, place = found
            if not KIND.fullmatch(kind):
                self.validator.note(place, f"'{kind}' is not a kind; write group/Kind without a version")
            elif kind in self.health.seen:
                self.validator.note(place, f"{kind} already has a rule ({self.health.seen[kind]}); remove one of them")
            else:
                self.health.put(kind, health_scripts.make_entry(text, kind), place=place)

    def read_rule(self, node: yaml.Node) -> None:
        """Parse one rule. An error anywhere in it omits the whole rule."""
        before = len(self.validator.mistakes)
        words = self.read_words(node, RULE_WORDS, "a rule")
        if words is None:
            return
        shelves = [shelf for word, shelf in (("cases", self.health), ("suspend", self.suspension)) if word in words]
        seen = {kind: place for shelf in shelves for kind, place in shelf.seen.items()}
        kinds = list(self.read_kinds(words.get("kinds"), node, seen))
        entry = (
            self.read_health(words.get("cases"), node, kinds) if "suspend" not in words or "cases" in words else None
        )
        rule = self.read_suspension(words["suspend"], ", ".join(kinds)) if "suspend" in words else None
        read = (entry.paths if entry is not None else frozenset()) | (rule.paths if rule is not None else frozenset())
        if SECRET_FIELDS & {path[0] for path in read} and any(fnmatch.fnmatchcase("Secret", kind) for kind in kinds):
            self.note(
                node,
                "a rule for Secrets must not read their data, which would appear in statuses; read its type or metadata",
            )
        if len(self.validator.mistakes) > before:
            return
        for kind in kinds:
            if entry is not None:
                self.health.put(kind, entry, place=self.place(node))
            if rule is not None:
                self.suspension.put(kind, rule, place=self.place(node))

    def read_health(self, node: yaml.Node | None, rule: yaml.Node, kinds: list[str]) -> HealthRuleEntry:
        """Parse the health rule of these kinds, without the parts that have errors."""
        return rule_cases.make_entry(tuple(self.read_cases(node, rule, kinds)))

    def read_words(self, node: yaml.Node, known: Collection[str], what: str) -> dict[str, yaml.Node] | None:
        """Return the values of a mapping by key, or None if the node is not a mapping."""
        if not isinstance(node, yaml.MappingNode):
            self.note(node, f"{what} must be a map with {error_hints.list_words(tuple(known))}")
            return None
        words: dict[str, yaml.Node] = {}
        for key, value in node.value:
            word = key.value if isinstance(key, yaml.ScalarNode) else ""
            if word not in known:
                hint = error_hints.did_you_mean(word, known) or f"; it has {error_hints.list_words(tuple(known))}"
                self.note(key, f"{what} has no '{word}'{hint}")
            elif word in words:
                self.note(key, f"'{word}' is a duplicate key")
            words[word] = value
        return words

    def read_kinds(self, node: yaml.Node | None, rule: yaml.Node, seen: dict[str, str]) -> Iterator[str]:
        """Parse the kinds of a rule. seen: kinds that already have a rule, with its location."""
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self.note(node or rule, "kinds must be a list, e.g. [cert-manager.io/Certificate]")
            return
        for each in node.value:
            written = each.value if isinstance(each, yaml.ScalarNode) else ""
            if not KIND.fullmatch(written):
                self.note(
                    each, f"'{written}' is not a kind; write group/Kind without a version, or Kind in the core group"
                )
            elif written in seen:
                self.note(each, f"{written} already has a rule ({seen[written]}); remove one of them")
            else:
                seen[written] = self.place(node)
                yield written

    def read_cases(self, node: yaml.Node | None, rule: yaml.Node, kinds: list[str]) -> Iterator[RuleCase]:
        """Parse the cases of a rule, skipping cases with errors."""
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self.note(node or rule, "cases must be a list of cases, each with a state")
            return
        for each in node.value:
            case = self.read_case(each, ", ".join(kinds))
            if case is not None:
                yield case

    def read_case(self, node: yaml.Node, owner: str) -> RuleCase | None:
        """Parse one case, or return None if it has errors."""
        before = len(self.validator.mistakes)
        words = self.read_words(node, CASE_WORDS, "a case")
        if words is None:
            return None
        state = self.read_state(words.get("state"), node)
        matches = tuple(self.read_matches(words.get("condition")))
        terminal = self.read_truth(words.get("terminal"))
        names = (SELF, CONDITION) if "condition" in words else (SELF,)
        when = self.read_test(words.get("when"), owner, names)
        reason, message = (self.read_text(words.get(word), owner, names) for word in ("reason", "message"))
        if terminal and state is not HealthState.FAILED:
            self.note(words["terminal"], "terminal requires state: failed; remove terminal, or set state: failed")
        if state is None or len(self.validator.mistakes) > before:
            return None
        return RuleCase(matches=matches, when=when, state=state, terminal=terminal, reason=reason, message=message)

    def read_state(self, node: yaml.Node | None, case: yaml.Node) -> HealthState | None:
        """Parse the state of a case."""
        written = node.value if isinstance(node, yaml.ScalarNode) else None
        if written in STATES:
            return STATES[written]
        found = f", found '{written}'" if written else ""
        self.note(node or case, f"a case needs a state, one of {error_hints.list_words(tuple(STATES))}{found}")
        return None

    def read_matches(self, node: yaml.Node | None) -> Iterator[ConditionMatch]:
        """Parse the conditions that a case requires."""
        if node is None:
            return
        for each in node.value if isinstance(node, yaml.SequenceNode) else (node,):
            written = each.value if isinstance(each, yaml.ScalarNode) else ""
            parts = CONDITION_ASKED.fullmatch(written)
            if parts is None:
                self.note(
                    each, f"'{written}' is not a condition; write Type=Status, e.g. Ready=False or Ready=False|Unknown"
                )
                continue
            yield ConditionMatch(parts["type"], tuple(parts["statuses"].split("|")))

    def read_suspension(self, node: yaml.Node, owner: str) -> SuspendRule | None:
        """Parse the value of `suspend`, or return None if it has errors. owner: the kinds, as messages name them."""
        words = self.read_words(node, SUSPEND_WORDS, "suspend")
        if words is None:
            return None
        sets = dict(self.read_sets(words.get("set"), node))
        overrides = dict(self.read_sets(words["override"], node)) if "override" in words else {}
        if overlap := find_overlap([*sets, *overrides]):
            self.note(
                words.get("set") or node, f"sets {overlap[0]} and a field within it, {overlap[1]}; keep one of them"
            )
        done_when, unless = (self.read_test(words.get(word), owner, (SELF,)) for word in ("doneWhen", "unless"))
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

    def read_sets(self, node: yaml.Node | None, rule: yaml.Node) -> Iterator[tuple[Path, Any]]:
        """Parse the fields to set, skipping fields with errors."""
        if not isinstance(node, yaml.MappingNode) or not node.value:
            self.note(node or rule, "suspend needs set, a map of fields to values, e.g. {spec.suspend: true}")
            return
        for key, value in node.value:
            path = suspend_rules.parse_path(key.value) if isinstance(key, yaml.ScalarNode) else None
            if path is None:
                self.note(
                    key,
                    "must be a field below spec, or an annotation, as in spec.replicas or "
                    "metadata.annotations[crossplane.io/paused]",
                )
            elif not isinstance(value, yaml.ScalarNode):
                self.note(value, "must be a string, a number, true or false")
            else:
                yield path, read_value(value)

    def read_test(self, node: yaml.Node | None, owner: str, names: Collection[str]) -> Expression | None:
        """Parse a test, or return None if it is missing or has errors.

        owner: the kind of the rule, for example `cert-manager.io/Certificate`; names: the names that the test may use.
        """
        source = self.read_scalar(node)
        if node is None or source is None or (found := self._examine(source, self.place(node), owner, names)) is None:
            return None
        expression, result = found
        if result not in BOOLEAN:
            gives = type_checker.describe_result(result)
            self.note(
                node,
                f"must give true or false, {error_hints.quote_expression(source)} gives {gives}; add a comparison",
            )
        return expression

    def read_text(self, node: yaml.Node | None, owner: str, names: Collection[str]) -> Text:
        """Parse a text of a case, which may contain expressions as `${…}`. owner, names: as for `read_test`."""
        source = self.read_scalar(node)
        if node is None or source is None:
            return ()
        try:
            parts = interpolation.parse(source)
        except interpolation.UnterminatedExpression:
            self.note(node, f"a ${{ has no closing brace in {error_hints.quote(source)}")
            return ()
        text: list[str | Expression] = []
        for part in parts:
            if isinstance(part, str):
                text.append(part)
            elif (found := self._examine(part.text, self.place(node), owner, names)) is not None:
                text.append(found[0])
        return tuple(text)

    def _examine(self, source: str, place: str, owner: str, names: Collection[str]) -> tuple[Expression, str] | None:
        """Parse the expression and return it with its result type in CEL notation. Returns None if it has errors."""
        try:
            parsed = expressions.parse(source)
            judgement = self.validator.scope.check(parsed)
            if judgement.is_optional:
                parsed = expressions.parse_optional(source)
        except cel_environment.CelCompileError as refusal:
            self.validator.note_faults(refusal.faults, source, place)
            return None
        if not expressions.is_bounded(parsed):
            self.validator.note(place, f"{error_hints.quote_expression(source)} {TOO_COSTLY}")
            return None
        strangers = [root for root in parsed.roots if root not in names]
        for root in strangers:
            self.validator.note(place, describe_unknown_name(root, source))
        self.validator.note_faults(judgement.faults, source, place)
        if strangers or judgement.faults:
            return None
        return expressions.bind(parsed, path=owner, constants={}), judgement.result

    def read_scalar(self, node: yaml.Node | None) -> str | None:
        """Return the scalar as text, or None if it is missing."""
        if node is None or isinstance(node, yaml.ScalarNode):
            return node.value if node is not None else None
        self.note(node, "must be text")
        return None

    def read_truth(self, node: yaml.Node | None) -> bool:
        """Parse a boolean; False if it is missing."""
        if node is None:
            return False
        value = kubectl_yaml.BOOLEANS.get(node.value.lower()) if node.tag == f"{kubectl_yaml.TAG}bool" else None
        if value is None:
            self.note(node, "must be true or false")
        return bool(value)


def find_overlap(paths: Collection[Path]) -> tuple[str, str] | None:
    """Find a field and another one within it, or return None."""
    pairs = ((outer, inner) for outer in paths for inner in paths if len(outer) < len(inner))
    found = next((pair for pair in pairs if pair[1][: len(pair[0])] == pair[0]), None)
    return (suspend_rules.write_path(found[0]), suspend_rules.write_path(found[1])) if found is not None else None


def read_value(node: yaml.ScalarNode) -> Any:
    """Return the value as YAML defines it."""
    loader = kubectl_yaml.Loader("")
    try:
        return loader.construct_json(node)
    finally:
        loader.dispose()


def describe_unknown_name(name: str, source: str) -> str:
    """Explain why an expression cannot use a name."""
    where = error_hints.quote_expression(source)
    if name == CONDITION:
        return f"{where} uses {CONDITION}, but its case matches no condition; add e.g. condition: Ready=False"
    return f"the name '{name}' is not defined in {where}; the object is {SELF}, the condition that the case matches is {CONDITION}"
