"""Tables of health rules as users write them: valid tables, and the messages for mistakes."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

import pytest

from hearth.model.kinds import Kind
from hearth.plan.health import health_rules, rule_parser
from hearth.plan.health.health_result import HealthRuleEntry
from hearth.plan.health.health_rules import HealthRules, HealthState
from hearth.plan.health.rule_cases import RuleCases
from hearth.plan.health.rule_parser import RuleTable
from hearth.plan.health.suspend_rules import SuspendRule

GADGET = Kind(group="example.com", version="v1", name="Gadget", plural="gadgets", namespaced=True)
PROMETHEUS = Kind(
    group="monitoring.coreos.com", version="v1", name="Prometheus", plural="prometheuses", namespaced=True
)
DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)


def read(text: str) -> tuple[rule_parser.RuleTable, list[str]]:
    """The table in a document `r`, and the mistakes as text."""
    table, mistakes = rule_parser.read({"r": textwrap.dedent(text)})
    return table, [str(mistake) for mistake in mistakes]


def assess(text: str, fields: dict[str, Any], kind: Kind = GADGET) -> tuple[str, str, str]:
    """State, reason and message according to a valid table."""
    table, mistakes = read(text)
    assert mistakes == []
    verdict = HealthRules(table).assess({"metadata": {"generation": 2}, **fields}, kind=kind)
    return verdict.state.value, verdict.reason, verdict.message


RULE = """
- kinds: [example.com/Gadget]
  cases:
    - {condition: "Broken=True|Maybe", when: condition.severity != "low", state: failed, message: "no ${self.spec.colour}"}
    - {when: self.status.phase == "On", state: ready, reason: "${self.status.phase}Now"}
"""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"status": {"phase": "On"}}, ("ready", "OnNow", ""), id="a case by a field"),
        pytest.param({"status": {"phase": "Off"}}, ("progressing", "Off", "its phase is Off"), id="no case holds: the general rule"),
        pytest.param({}, ("ready", "Exists", ""), id="a field that is not there makes no case hold"),
        pytest.param(
            {"spec": {"colour": "red"}, "status": {"conditions": [{"type": "Broken", "status": "Maybe", "severity": "high", "reason": "Why"}]}},
            ("failed", "Why", "no red"),
            id="a case by a condition, of which the expression may read everything",
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Broken", "status": "True", "severity": "high", "message": "boom"}]}},
            ("failed", "Broken", "no"),
            id="a text whose value is not there leaves it out",
        ),
        pytest.param(
            {"status": {"phase": "On", "conditions": [{"type": "Broken", "status": "True", "severity": "low"}]}},
            ("ready", "OnNow", ""),
            id="both must hold",
        ),
        pytest.param({"status": {"phase": "On", "observedGeneration": 1}}, ("progressing", "NotObserved", "its controller has observed generation 1 of 2"), id="a status of the past is no status"),
        pytest.param({"status": {"phase": "On", "conditions": [{"type": "Broken", "status": "True", "severity": "x", "observedGeneration": 1}]}}, ("ready", "OnNow", ""), id="nor is a condition"),
    ],
)  # fmt: skip
def test_the_first_case_that_holds_is_the_verdict(fields: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert assess(RULE, fields) == expected


def test_an_expression_that_breaks_is_reported_and_fails_nothing() -> None:
    state, reason, message = assess(
        "- {kinds: [example.com/Gadget], cases: [{when: 1 / self.spec.zero == 1, state: failed}]}",
        {"spec": {"zero": 0}},
    )
    assert (state, reason) == ("unknown", "HealthRuleFailed")
    assert "example.com/Gadget" in message
    assert "1 / self.spec.zero == 1" in message


def test_rules_of_users_win_over_ours_even_for_core_kinds() -> None:
    table, _ = read("- {kinds: [apps/Deployment], cases: [{state: ready, reason: Anything}]}")
    rules = HealthRules(table)
    assert rules.assess({"metadata": {}}, kind=DEPLOYMENT).reason == "Anything"
    assert rules.paths(DEPLOYMENT) == {("status", "conditions"), ("status", "observedGeneration")}
    change = rules.replace(rule_parser.EMPTY)
    assert rules.assess({"metadata": {}}, kind=DEPLOYMENT).reason == "LessThanUpdated"
    assert (change.touches(DEPLOYMENT), change.touches(GADGET)) == (True, False)


def test_a_conflict_fails_nothing_but_by_a_rule_of_users() -> None:
    message = "Operation cannot be fulfilled: the object has been modified; please apply your changes"
    condition = {"type": "Reconciled", "status": "False", "reason": "ReconciliationFailed", "message": message}
    fields = {"metadata": {}, "status": {"conditions": [condition]}}
    assert HealthRules().assess(fields, kind=PROMETHEUS).state is HealthState.PROGRESSING

    table, _ = read(
        "- {kinds: [monitoring.coreos.com/Prometheus], cases: [{condition: Reconciled=False, state: failed}]}"
    )
    assert HealthRules(table).assess(fields, kind=PROMETHEUS).state is HealthState.FAILED


def test_the_same_rules_read_twice_change_nothing() -> None:
    first, _ = read(RULE)
    second, _ = read("# a comment\n" + textwrap.dedent(RULE))
    assert not HealthRules(first).replace(second).touches(GADGET)


def test_a_verdict_is_made_once_for_an_object() -> None:
    rules = HealthRules(read(RULE)[0])
    fields: dict[str, Any] = {"metadata": {}, "status": {"phase": "On"}}
    assert rules.assess(fields, kind=GADGET) is rules.assess(fields, kind=GADGET)
    assert rules.assess({**fields, "status": {}}, kind=GADGET).reason == "Exists"


def test_only_what_rules_read_is_kept() -> None:
    last = "    - {state: progressing}"
    table, _ = read(f"{RULE.rstrip()}\n{last}\n".replace("self.spec.colour", "self.spec.colour + self.metadata.name"))
    assert HealthRules(table).paths(GADGET) == {
        ("spec", "colour"),
        ("status", "phase"),
        ("status", "conditions"),
        ("status", "observedGeneration"),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: [", ["r: is not valid YAML: line 2, column 1: while parsing a flow node: did not find expected node content"], id="no YAML"),
        pytest.param("a: b", ["r, line 1: must be a list of rules, each with kinds and cases"], id="no list"),
        pytest.param("- {kind: [x/Y], cases: [{state: ready}]}", ["r, line 1: a rule has no 'kind'; did you mean 'kinds'?", "r, line 1: kinds must be a list, e.g. [cert-manager.io/Certificate]"], id="a word that is not there"),
        pytest.param("- {kinds: [x/v1/Y], cases: [{state: ready}]}", ["r, line 1: 'x/v1/Y' is not a kind; write group/Kind without a version, or Kind in the core group"], id="a version"),
        pytest.param("- {kinds: [x/Y]}", ["r, line 1: cases must be a list of cases, each with a state"], id="no cases"),
        pytest.param("- {kinds: [x/Y], cases: [{state: broken}]}", ["r, line 1: a case needs a state, one of progressing, ready, failed and unknown, found 'broken'"], id="no state"),
        pytest.param("- {kinds: [x/Y], cases: [{state: ready, terminal: true}]}", ["r, line 1: terminal requires state: failed; remove terminal, or set state: failed"], id="terminal"),
        pytest.param("- {kinds: [x/Y], cases: [{state: failed, terminal: maybe}]}", ["r, line 1: must be true or false"], id="neither true nor false"),
        pytest.param("- {kinds: [x/Y], cases: [{state: ready, condition: Ready}]}", ["r, line 1: 'Ready' is not a condition; write Type=Status, e.g. Ready=False or Ready=False|Unknown"], id="a condition without status"),
        pytest.param("- kinds: [x/Y]\n  cases:\n  - state: ready\n    when: self.status.", ["r, line 4: unexpected '.' (at column 13 of `self.status.`)"], id="no CEL"),
        pytest.param("- {kinds: [x/Y], cases: [{state: ready, when: object.a == 1}]}", ["r, line 1: the name 'object' is not defined in `object.a == 1`; the object is self, the condition that the case matches is condition"], id="a name that is not there"),
        pytest.param("- {kinds: [x/Y], cases: [{state: ready, when: 'condition.reason == \"\"'}]}", ["r, line 1: `condition.reason == \"\"` uses condition, but its case matches no condition; add e.g. condition: Ready=False"], id="a condition that is not asked about"),
        pytest.param("- {kinds: [x/Y], cases: [{state: ready, when: self.a + 'x' }]}", ["r, line 1: must give true or false, `self.a + 'x'` gives text; add a comparison"], id="no test"),
        pytest.param("- {kinds: [x/Y], cases: [{state: ready, message: '${self.a'}]}", ["r, line 1: a ${ has no closing brace in '${self.a'"], id="an open brace"),
        pytest.param("- {kinds: [x/Y], cases: [{state: ready}]}\n- {kinds: [x/Y], cases: [{state: failed}]}", ["r, line 2: x/Y already has a rule (r, line 1); remove one of them"], id="twice"),
        pytest.param("- {kinds: [Secret], cases: [{state: ready, message: '${self.data.password}'}]}", ["r, line 1: a rule for Secrets must not read their data, which would appear in statuses; read its type or metadata"], id="a Secret's data"),
        pytest.param("- {kinds: ['*'], cases: [{state: ready, message: '${self.data}'}]}", ["r, line 1: a rule for Secrets must not read their data, which would appear in statuses; read its type or metadata"], id="a Secret's data by a pattern"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line(text: str, expected: list[str]) -> None:
    table, mistakes = read(text)
    assert mistakes == expected
    assert not any(entry for entry in table.health.entries.values() if entry.rule({}).state is HealthState.FAILED)


def test_a_mistake_leaves_the_other_rules_as_they_are() -> None:
    sound = "- {kinds: [x/Good], cases: [{state: ready}]}\n- {kinds: [x/Bad], cases: [{when: '(', state: ready}]}"
    table, mistakes = rule_parser.read({"a": sound, "b": "- {kinds: [x/Other], cases: [{state: ready}]}", "c": "["})
    assert sorted(table.health.entries) == ["x/Good", "x/Other"]
    assert [mistake.path for mistake in mistakes] == ["a, line 2", "c"]


def test_an_exact_kind_goes_before_a_pattern() -> None:
    text = "- {kinds: ['*.com/*'], cases: [{state: ready, reason: Pattern}]}\n- {kinds: [example.com/Gadget], cases: [{state: ready, reason: Exact}]}\n- {kinds: ['*/*'], cases: [{state: ready, reason: Last}]}"
    assert assess(text, {}) == ("ready", "Exact", "")
    assert assess(text, {}, Kind(group="a.com", version="v1", name="B", plural="bs", namespaced=True))[1] == "Pattern"
    assert assess(text, {}, DEPLOYMENT)[1] == "Last"


@functools.cache
def ours() -> RuleTable:
    """All built-in rules, parsed like users' rules."""
    table, mistakes = rule_parser.read(health_rules.read_built_in())
    assert mistakes == ()
    return table


def test_ours_have_no_mistake() -> None:
    assert len(ours().health.entries) >= 100


def test_a_rule_of_ours_is_the_same_when_it_is_read_alone() -> None:
    library = health_rules.built_in()
    names = [*ours().health.entries, *ours().suspension.entries, "any.crossplane.io/Gadget", "example.com/Gadget"]
    for written in names:
        group, _, name = written.rpartition("/")
        kind = Kind(group=group, version="v1", name=name, plural="any", namespaced=True)
        assert outline(library.find(kind)) == outline(ours().find(kind)), written
        assert outline(library.find_suspension(kind)) == outline(ours().find_suspension(kind)), written


def outline(rule: HealthRuleEntry | SuspendRule | None) -> object:
    """The comparable parts of a rule, without compiled expressions."""
    if isinstance(rule, HealthRuleEntry):
        assert isinstance(rule.rule, RuleCases)
        return rule.paths, [
            (case.matches, case.state, case.terminal, len(case.expressions)) for case in rule.rule.cases
        ]
    return None if rule is None else (rule.paths, rule.sets, rule.done_when is None, rule.unless is None)


def test_the_rules_of_another_cluster_follow_those_of_users() -> None:
    rules = HealthRules(read(RULE)[0])
    derived = rules.derive(health_rules.SingleSchema(None))

    assert derived.paths(GADGET) == rules.paths(GADGET)
    rules.replace(rule_parser.EMPTY)
    assert derived.paths(GADGET) == HealthRules(schemas=health_rules.SingleSchema(None)).paths(GADGET)
