"""Every object that is not ready comes with a text, by each rule and in each status."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.health.health_rules import HealthState

WORDS = st.sampled_from(
    ["", " ", "Ready", "Failed", "Progressing", "Pending", "Degraded", "True", "False", "Error", "Running"]
)
CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(["Ready", "Synced", "Available", "Healthy", "Failed", "Progressing", "Stalled"])},
    optional={"status": st.sampled_from(["True", "False", "Unknown"]), "reason": WORDS, "message": st.just("")},
)  # fmt: skip
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "conditions": st.lists(CONDITION, max_size=3),
        "phase": WORDS,
        "state": WORDS,
        "message": st.just(""),
        "health": st.fixed_dictionaries({}, optional={"status": WORDS, "message": st.just("")}),
        "observedGeneration": st.integers(1, 2),
        "replicas": st.integers(0, 2),
    },
)
OTHERS = (Kind(group="example.org", version="v1", name="Widget", plural="widgets", namespaced=True),)


def list_kinds() -> list[Kind]:
    """Every kind with a rule, in code or in the shipped table, and one that only the general rule judges."""
    keys = [*health_rules.TABLE, *list_shipped()]
    found = []
    for key in dict.fromkeys(keys):
        name, _, group = key.partition(".")
        found.append(Kind(group=group, version="v1", name=name, plural=f"{name.lower()}s", namespaced=True))
    return [*found, *OTHERS]


def list_shipped() -> list[str]:
    """The kinds of the shipped table, each as `Kind.group`."""
    from hearth.template.text import kubectl_yaml

    text = health_rules.read_built_in()["health_rules.yaml"]
    entries = [each for document in kubectl_yaml.parse_documents(text) for each in document.value]
    named = [kind for entry in entries for kind in entry["kinds"]]
    return [f"{name}.{group}" for group, _, name in (each.rpartition("/") for each in named if "*" not in each)]


KINDS = list_kinds()


def assert_told(kind: Kind, fields: dict[str, Any]) -> None:
    verdict = health_rules.assess(fields, kind=kind)
    assert verdict.reason
    if verdict.state is not HealthState.READY:
        assert verdict.message.strip(), f"{kind.key}: {verdict}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.key)
def test_an_object_without_a_status_waits_for_something(kind: Kind) -> None:
    """Just created: nothing has looked at it."""
    for status in ({}, {"status": {}}, {"status": {"conditions": []}}):
        assert_told(kind, {"metadata": {"name": "a", "uid": "1", "generation": 1}, "spec": {}, **status})


@given(kind=st.sampled_from(KINDS), status=STATUS)
def test_no_status_leaves_the_reader_without_a_text(kind: Kind, status: dict[str, Any]) -> None:
    """Also where it reports a state, and no word about it."""
    assert_told(
        kind, {"metadata": {"name": "a", "uid": "1", "generation": 2}, "spec": {"replicas": 1}, "status": status}
    )
