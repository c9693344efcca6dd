"""Argo CD's health scripts among the rules of users: their keys, and the meaning of their verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from hearth.model.kinds import Kind
from hearth.plan.health import rule_parser
from hearth.plan.health.health_rules import HealthRules
from hearth.template.cel import evaluation
from hearth.template.cel.evaluation import Answer, Excess, Failure, Value

GADGET = Kind(group="example.com", version="v1", name="Gadget", plural="gadgets", namespaced=True)
POD = Kind(group="", version="v1", name="Pod", plural="pods", namespaced=True)
KEY = "resource.customizations.health.example.com_Gadget"


class Scripts(evaluation.Untimed):
    """Answers every request."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def ask_script(self, text: str, data: Mapping[str, Any]) -> Answer | None:
        """As the port says."""
        self.asked.append((text, data))
        return self.answer


def verdict(status: str, message: str = "") -> Value:
    """The result of a script."""
    return Value(orjson.dumps([status, message]))


def make(uid: str = "1", generation: int = 1, **status: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "generation": generation}, "spec": {}, "status": status}


def make_rules(scripts: Scripts, key: str = KEY, text: str = "return hs") -> HealthRules:
    """Rules of users with one script."""
    table, mistakes = rule_parser.read({key: text})
    assert mistakes == ()
    return HealthRules(table, scripts=scripts)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (verdict("Healthy", "fine"), ("ready", "Healthy", "fine")),
        (verdict("Suspended"), ("ready", "Suspended", "")),
        (verdict("Progressing", "soon"), ("progressing", "Progressing", "soon")),
        (verdict("Degraded", "no"), ("failed", "Degraded", "no")),
        (verdict("Missing"), ("unknown", "Missing", "its controller has not reported why")),
        (verdict("Unknown"), ("unknown", "Unknown", "its controller has not reported why")),
        (verdict("Sunny"), ("unknown", "HealthScriptFailed", "health script of example.com/Gadget: 'Sunny' is not a health status")),
        (verdict(""), ("unknown", "HealthScriptFailed", "health script of example.com/Gadget: '' is not a health status")),
        (Value(b"null"), ("progressing", "Booting", "its phase is Booting")),
        (Failure("script:1: boom"), ("unknown", "HealthScriptFailed", "health script of example.com/Gadget: script:1: boom")),
        (Excess("took more than 1 s of CPU"), ("unknown", "HealthScriptFailed", "health script of example.com/Gadget: took more than 1 s of CPU")),
        (None, ("progressing", "Evaluating", "its health script is being run")),
    ],
)  # fmt: skip
def test_a_script_gives_the_health(answer: Answer | None, expected: tuple[str, str, str]) -> None:
    found = make_rules(Scripts(answer)).assess(make(phase="Booting"), kind=GADGET)
    assert (found.state.value, found.reason, found.message) == expected
    assert not found.terminal


def test_a_verdict_counts_until_the_next_one_is_there() -> None:
    scripts = Scripts(verdict("Healthy"))
    rules = make_rules(scripts)
    assert rules.assess(make(), kind=GADGET).reason == "Healthy"
    scripts.answer = None
    later = rules.assess(make(phase="Other"), kind=GADGET)
    assert (later.reason, later.is_pending) == ("Healthy", True)
    changed = rules.assess(make(generation=2), kind=GADGET)
    assert (changed.reason, changed.is_pending) == ("Evaluating", True)
    assert rules.assess(make(uid="2"), kind=GADGET).reason == "Evaluating"


def test_a_settled_verdict_is_asked_for_once() -> None:
    scripts, fields = Scripts(None), make()
    rules = make_rules(scripts)
    rules.assess(fields, kind=GADGET)
    scripts.answer = verdict("Healthy")
    assert [rules.assess(fields, kind=GADGET).reason for _ in range(3)] == ["Healthy"] * 3
    assert len(scripts.asked) == 2


class Turns(Scripts):
    """Counts the assessments, of which each turn has time for one."""

    def __init__(self) -> None:
        super().__init__()
        self.is_free, self.work, self.put_offs = True, 0, 0

    def begin_work(self, resource: str = "") -> float | None:
        """None after the first assessment."""
        return 0.0 if self.is_free else None

    def end_work(self, began: float) -> None:
        """No more in this turn."""
        self.is_free, self.work = False, self.work + 1

    def put_off(self) -> None:
        """Count it."""
        self.put_offs += 1


def test_objects_are_assessed_in_turns_and_a_known_result_needs_none() -> None:
    turns = Turns()
    rules = HealthRules(scripts=turns)
    objects = [make(uid=str(number), phase="Running") for number in range(3)]

    def assess() -> list[bool]:
        return [rules.assess(each, kind=POD).is_pending for each in (*objects, *objects)]

    first = assess()
    turns.is_free = True
    second = assess()

    assert first == [False, True, True, False, True, True]
    assert second == [False, False, True, False, False, True]
    assert (turns.work, turns.put_offs) == (2, 6)


def test_a_script_waits_for_the_generation_and_reads_status_and_spec() -> None:
    scripts = Scripts(verdict("Healthy"))
    rules = make_rules(scripts)
    assert rules.assess(make(generation=2, observedGeneration=1), kind=GADGET).reason == "NotObserved"
    assert scripts.asked == []
    assert rules.paths(GADGET) == {("status",), ("spec",)} | {path for path in rules.paths(GADGET) if path[0] == "spec"}


REFUSED: dict[str, Any] = {
    "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 2}],
    "observedGeneration": 1,
}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(verdict("Degraded", "no"), ("failed", "Degraded", False), id="failed"),
        pytest.param(verdict("Healthy"), ("progressing", "NotObserved", False), id="not ready by that"),
        pytest.param(None, ("progressing", "Evaluating", True), id="runs"),
    ],
)
def test_a_script_judges_an_object_that_is_refused(answer: Answer | None, expected: tuple[str, str, bool]) -> None:
    found = make_rules(Scripts(answer)).assess(make(generation=2, **REFUSED), kind=GADGET)
    assert (found.state.value, found.reason, found.is_pending) == expected


def test_kinds_are_named_as_argo_cd_names_them() -> None:
    table, mistakes = rule_parser.read(
        {
            KEY: "exact",
            "resource.customizations.health.Pod": "core",
            "resource.customizations": 'example.com/*: {health.lua: wild}\n"*.example.com/Thing": {health.lua: half, actions: x}',
            "resource.customizations.useOpenLibs.example.com_Gadget": "true",
            "resource.customizations.actions.example.com_Gadget": "discovery.lua: |",
            "ours": "- {kinds: [x/Y], cases: [{state: ready}]}",
        }
    )
    assert mistakes == ()
    texts = {
        written: table.find(Kind(group=group, version="v1", name=name, plural="x", namespaced=True)).rule.text  # type: ignore[union-attr]  # a failed lookup fails the test
        for written, group, name in (
            ("exact", "example.com", "Gadget"),
            ("core", "", "Pod"),
            ("wild", "example.com", "Widget"),
            ("half", "a.example.com", "Thing"),
        )
    }
    assert all(written == text for written, text in texts.items())
    assert "x/Y" in table.health.entries


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ({"resource.customizations.health.": "x"}, "resource.customizations.health.: names no kind; write resource.customizations.health.<group>_<Kind>, or only the kind in the core group"),
        ({"resource.customizations.health._Pod": "x"}, "resource.customizations.health._Pod: names no kind; write resource.customizations.health.<group>_<Kind>, or only the kind in the core group"),
        ({"resource.customizations": "["}, "resource.customizations: is not valid YAML: line 2, column 1: while parsing a flow node: did not find expected node content"),
        ({"resource.customizations": "[]"}, "resource.customizations: must be a map of kinds, each with health.lua"),
        ({KEY: "x", "ours": "- {kinds: [example.com/Gadget], cases: [{state: ready}]}"}, f"{KEY}: example.com/Gadget already has a rule (ours, line 1); remove one of them"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_key(documents: dict[str, str], expected: str) -> None:
    _, mistakes = rule_parser.read(documents)
    assert [str(mistake) for mistake in mistakes] == [expected]


def test_the_same_script_read_twice_changes_nothing() -> None:
    first, _ = rule_parser.read({KEY: "a"})
    again, _ = rule_parser.read({KEY: "a", "resource.customizations.health.Pod": "b"})
    change = HealthRules(first).replace(again)
    assert (change.touches(GADGET), change.touches(POD)) == (False, True)


def test_where_no_process_runs_scripts_the_health_is_unknown() -> None:
    table, _ = rule_parser.read({KEY: "return hs"})
    assert HealthRules(table).assess(make(), kind=GADGET).reason == "HealthScriptFailed"
