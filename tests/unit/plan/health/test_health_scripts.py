"""Argo CD's health scripts among the rules of users: their keys, and the meaning of their verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.kinds import Kind
from hearth.plan.health import rule_parser
from hearth.plan.health.health_rules import HealthRules

GADGET = Kind(group="example.com", version="v1", name="Gadget", plural="gadgets", namespaced=True)
POD = Kind(group="", version="v1", name="Pod", plural="pods", namespaced=True)
KEY = "resource.customizations.health.example.com_Gadget"


def make(uid: str = "1", generation: int = 1, **status: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "generation": generation}, "spec": {}, "status": status}


def make_rules(text: str, key: str = KEY) -> HealthRules:
    """Rules of users with one script."""
    table, mistakes = rule_parser.read({key: text})
    assert mistakes == ()
    return HealthRules(table)


def report(status: str, message: str = "") -> str:
    """A script with that verdict."""
    return f"return {{status = '{status}', message = '{message}'}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (report("Healthy", "fine"), ("ready", "Healthy", "fine")),
        (report("Suspended"), ("ready", "Suspended", "")),
        (report("Progressing", "soon"), ("progressing", "Progressing", "soon")),
        (report("Degraded", "no"), ("failed", "Degraded", "no")),
        (report("Missing"), ("unknown", "Missing", "its controller has not reported why")),
        (report("Unknown"), ("unknown", "Unknown", "its controller has not reported why")),
        (report("Sunny"), ("unknown", "HealthScriptFailed", "health script of example.com/Gadget: 'Sunny' is not a health status")),
        (report(""), ("unknown", "HealthScriptFailed", "health script of example.com/Gadget: '' is not a health status")),
        ("return nil", ("progressing", "Booting", "its phase is Booting")),
        ("error('boom')", ("unknown", "HealthScriptFailed", "health script of example.com/Gadget: script:1: boom")),
        ("while true do end", ("unknown", "HealthScriptFailed", "health script of example.com/Gadget: takes more than 100000 steps")),
    ],
)  # fmt: skip
def test_a_script_gives_the_health(text: str, expected: tuple[str, str, str]) -> None:
    found = make_rules(text).assess(make(phase="Booting"), kind=GADGET)
    assert (found.state.value, found.reason, found.message) == expected
    assert not found.terminal


def test_a_script_waits_for_the_generation_and_reads_status_and_spec() -> None:
    rules = make_rules(report("Healthy"))
    assert rules.assess(make(generation=2, observedGeneration=1), kind=GADGET).reason == "NotObserved"
    assert rules.paths(GADGET) == {("status",), ("spec",)} | {path for path in rules.paths(GADGET) if path[0] == "spec"}


REFUSED: dict[str, Any] = {
    "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 2}],
    "observedGeneration": 1,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(report("Degraded", "no"), ("failed", "Degraded"), id="failed"),
        pytest.param(report("Healthy"), ("progressing", "NotObserved"), id="not ready by that"),
    ],
)
def test_a_script_judges_an_object_that_is_refused(text: str, expected: tuple[str, str]) -> None:
    found = make_rules(text).assess(make(generation=2, **REFUSED), kind=GADGET)
    assert (found.state.value, found.reason) == expected


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
