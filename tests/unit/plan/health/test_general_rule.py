"""The general rule on small objects of kinds without a rule of their own (tests/data/general_health), and on any size."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model import limits
from hearth.model.child_fields import project_fields
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.health.general import condition_types, status_fields, vocabulary
from hearth.plan.health.general.condition_types import Shape
from hearth.plan.health.general.general_rule import OF_ANY_KIND
from hearth.plan.health.general.vocabulary import Meaning
from hearth.plan.health.health_rules import HealthState
from hearth.template.text import kubectl_yaml
from support import repository

DATA = repository.DATA / "general_health"
META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def read_rows() -> Iterator[Any]:
    """Every row of every file."""
    for file in sorted(DATA.glob("*.yaml")):
        for document in kubectl_yaml.parse_documents(file.read_text()):
            yield from (pytest.param(row, id=row["id"]) for row in document.value)


ROWS = list(read_rows())


def make_kind(name: str) -> Kind:
    """A kind that has no rule."""
    return Kind(group="example.com", version="v1", name=name, plural="any", namespaced=True)


def make_schema(status: Any) -> dict[str, Any]:
    """The schema of a kind with that status."""
    return {"type": "object", "properties": {"metadata": {"$ref": META}, "spec": OPEN, "status": status}}


OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def describe(value: Any) -> dict[str, Any]:
    """The schema of a value as a CustomResourceDefinition declares it."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: describe(inner) for key, inner in value.items()}}
    if isinstance(value, list):
        merged = {key: inner for item in value if isinstance(item, dict) for key, inner in item.items()}
        return {"type": "array", "items": describe(merged)}
    return {"type": "boolean" if isinstance(value, bool) else "string"}


def find_schema(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema that the row declares, or one of the fields that it has."""
    if "declares" in row:
        declared = {name: {"type": "string"} for name in row["declares"]}
        return make_schema({"type": "object", "properties": declared})
    return make_schema(describe(row["status"])) if row.get("status") else None


@pytest.mark.parametrize("row", ROWS)
def test_an_object_is_judged_by_what_it_says(row: dict[str, Any]) -> None:
    kind, schema = make_kind(row.get("kind", "Widget")), find_schema(row)
    parts: dict[str, Any] = {key: row[key] for key in ("spec", "status") if key in row}
    whole: dict[str, Any] = {"metadata": {"name": "a", "generation": 2}, **parts}
    verdict = health_rules.assess(whole, kind=kind, schema=schema)
    said = {"state": verdict.state.value, "reason": verdict.reason, "message": verdict.message}
    assert {key: said[key] for key in row["expect"]} == row["expect"]
    assert not verdict.terminal
    kept = project_fields(
        whole, kind=kind, paths=health_rules.HealthRules(schemas=health_rules.SingleSchema(schema)).paths(kind)
    )
    assert health_rules.assess(kept, kind=kind, schema=schema) == verdict


@pytest.mark.parametrize(
    ("type_", "shape"),
    [
        ("Ready", Shape.POSITIVE),
        ("MachinesReady", Shape.POSITIVE),
        ("ResolvedRefs", Shape.DEFINITE),
        ("example.com/Verified", Shape.DEFINITE),
        ("ReplicaFailure", Shape.ABNORMAL),
        ("InvalidSpec", Shape.ABNORMAL),
        ("NodeDegraded", Shape.MOMENTARY),
        ("NodeNotReady", Shape.NEGATED),
        ("Issuing", Shape.BUSY),
        ("RollingUpdate", Shape.BUSY),
        ("VolumeSnapshotPending", Shape.BUSY),
        ("Registered", Shape.MILESTONE),
        ("PodScheduled", Shape.SCHEDULED),
        ("Hibernation", Shape.RESTING),
        ("BackoffWarning", Shape.IGNORED),
        ("Quux", Shape.UNREAD),
        ("", Shape.UNREAD),
    ],
)
def test_a_type_of_a_condition_has_a_shape(type_: str, shape: Shape) -> None:
    assert condition_types.find_shape(type_) is shape


def test_a_word_has_one_meaning() -> None:
    lists = [(name, word) for name, words in vocabulary.load()["words"].items() for word in words.split()]
    words = [word for _, word in lists]
    assert sorted(word for word in words if words.count(word) > 1) == []


def test_only_what_reports_is_kept() -> None:
    status = {
        "type": "object",
        "properties": {
            "phase": {"type": "string"},
            "conditions": {"type": "array"},
            "endpoints": {"type": "array", "items": {"type": "object", "properties": {"url": {"type": "string"}}}},
            "members": {"type": "object", "additionalProperties": {"type": "object", "properties": {"state": {}}}},
            "lastBackupStatus": {"type": "string"},
        },
    }
    schema = make_schema(status)
    schema["properties"]["spec"] = {"type": "object", "properties": {"paused": {"type": "boolean"}, "size": {}}}
    assert health_rules.HealthRules(schemas=health_rules.SingleSchema(schema)).paths(make_kind("Widget")) == {
        ("spec", "paused"),
        ("status", "phase"),
        ("status", "conditions"),
        ("status", "members"),
    }


def test_a_built_in_kind_may_be_silent() -> None:
    schema = make_schema({"allOf": [{"$ref": "#/components/schemas/io.k8s.api.node.v1.ThingStatus"}], "default": {}})
    assert health_rules.assess({"metadata": {}}, kind=make_kind("Thing"), schema=schema).state is HealthState.READY


PARENTS = {
    "texts": {"type": "array", "items": {"type": "string"}},
    "items": {"type": "array", "items": describe({"conditions": [{"type": "Ready"}]})},
}


@pytest.mark.parametrize(("written", "reason"), [("texts", "Exists"), ("items", "NotObserved")])
def test_a_field_that_cannot_report_is_not_awaited(written: str, reason: str) -> None:
    status = {"type": "object", "properties": {"parents": PARENTS[written]}}
    assert health_rules.assess({"metadata": {}}, kind=make_kind("Any"), schema=make_schema(status)).reason == reason


def test_a_schema_that_changes_changes_the_rule() -> None:
    bare, reporting = make_schema({"type": "object"}), make_schema(describe({"conditions": []}))
    schemas = Loaded(bare)
    rules = health_rules.HealthRules(schemas=schemas)
    kind = make_kind("Widget")
    assert rules.assess({"metadata": {}}, kind=kind).reason == "Exists"
    schemas.schema = reporting
    assert rules.assess({"metadata": {}}, kind=kind).reason == "NotObserved"
    assert ("status", "conditions") in rules.paths(kind)


class Loaded:
    """The schema of the only kind."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """As the port says."""
        return self.schema

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """As the port says."""
        return None


texts = st.text(max_size=12) | st.sampled_from(
    ["Ready", "False", "True", "Failed", "1/2", "not found", "", "InProgress"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "status", "reason", "state", "conditions", "severity"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
names = st.sampled_from([*status_fields.ROLES, *status_fields.COUNTS, "conditions", "jobState", "shards"]) | texts


@given(st.dictionaries(names, values, max_size=5))
def test_any_status_is_judged(status: dict[str, Any]) -> None:
    verdict = health_rules.assess({"metadata": {"generation": 2}, "status": status}, kind=make_kind("Widget"))
    assert verdict.reason
    assert not verdict.terminal


def test_long_names_are_not_kept() -> None:
    name = ""
    status: dict[str, Any] = {}
    rules = health_rules.HealthRules()
    tracemalloc.start()
    try:
        for number in range(100):
            name = f"{number}" + "aReady" * 10_000
            status = {name: 1, f"{name}Flag": True, "nodeStatus": {f"{name}State": "Pulling", f"ready{name}": 1}}
            rules.assess({"metadata": {}, "status": status}, kind=make_kind("Widget"))
        # The last results are cached with their fields.
        del name, status, rules
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


def test_a_long_text_costs_little() -> None:
    hostile = {
        "conditions": [{"type": "Ready" * 9_000, "status": "False", "reason": "not " * 9_000}],
        "phase": "aA" * 9_000,
    }
    begun = time.perf_counter()
    verdict = health_rules.assess({"metadata": {}, "status": hostile}, kind=make_kind("Widget"))
    assert time.perf_counter() - begun < 0.1
    assert len(verdict.reason) <= limits.HEALTH_WORD_CHARACTERS


def test_a_pause_is_the_users_word_and_not_the_parts() -> None:
    assert vocabulary.read("Paused") is Meaning.RESTING


# ---------------------------------------------------------------- statuses of any size

LAST = limits.HEALTH_PARTS - 1


def make_items(number: int, failing: int) -> list[dict[str, Any]]:
    """Nodes; one of them is failing."""
    return [{"phase": "Failed" if index == failing else "Ready"} for index in range(number)]


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        pytest.param(LAST, HealthState.PROGRESSING, id="the last one within the limit"),
        pytest.param(LAST + 1, HealthState.READY, id="the first one beyond it"),
    ],
)
def test_parts_count_up_to_the_limit(failing: int, expected: HealthState) -> None:
    items = make_items(10 * limits.HEALTH_PARTS, failing)

    assert OF_ANY_KIND({"status": {"nodes": items}}).state is expected
    halves = {"aNodes": items[: LAST // 2], "bNodes": items[LAST // 2 :]}
    assert OF_ANY_KIND({"status": halves}).state is expected


def test_fields_and_conditions_count_up_to_the_limit() -> None:
    fields = {f"f{index:05}Phase": "Ready" for index in range(2 * limits.HEALTH_PARTS)}
    conditions = [{"type": f"C{index}Ready", "status": "True"} for index in range(2 * limits.HEALTH_PARTS)]

    assert OF_ANY_KIND({"status": {**fields, "z-phase": "Failed", "phase": "Ready"}}).state is HealthState.READY
    conditions[-1]["status"] = "False"
    assert OF_ANY_KIND({"status": {"conditions": conditions}}).state is HealthState.READY
    conditions[0]["status"] = "False"
    assert OF_ANY_KIND({"status": {"conditions": conditions}}).state is HealthState.PROGRESSING


@pytest.mark.parametrize("letters", ["Aa", "a1", "A-"], ids=["words", "digits", "capitals"])
def test_a_reason_of_many_short_words_is_read_up_to_a_limit(letters: str) -> None:
    words = vocabulary.split(letters * limits.HEALTH_WORD_CHARACTERS)

    assert len(words) == limits.HEALTH_WORDS
    assert vocabulary.read("Aa" * limits.HEALTH_WORDS + "Failed") is None
