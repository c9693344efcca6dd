"""Conditions of a Stack: their metrics, and the table of their types."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.phases import ConditionType
from hearth.plan.state import condition_types
from hearth.plan.status import conditions
from hearth.plan.status.conditions import Judgement
from support import repository


def make(*entries: tuple[str, str, str]) -> dict[str, Any]:
    since = "2026-01-01T00:00:00Z"
    return {
        "conditions": [
            {"type": type_, "status": status, "reason": reason, "lastTransitionTime": since}
            for type_, status, reason in entries
        ]
    }


@pytest.mark.parametrize(
    ("status", "found"),
    [
        pytest.param(make(("Ready", "True", "Complete"), ("Stalled", "False", "NotStalled")), (), id="complete"),
        pytest.param(
            make(("Ready", "False", "RolledBack"), ("Stalled", "True", "RolledBack")),
            ("RolledBack", "Stalled"),
            id="rolled back automatically",
        ),
        pytest.param(
            make(("Drifted", "True", "FieldOwnershipLost"), ("DriftConflict", "False", "NotDriftConflict")),
            ("Drifted",),
            id="drifted",
        ),
        pytest.param(make(("my-own-series", "True", "Any")), (), id="a condition that another client invented"),
        pytest.param({"conditions": [{"type": ["Drifted"], "status": "True"}, 5, None]}, (), id="not conditions"),
        pytest.param({"conditions": "Drifted"}, (), id="not a list"),
        pytest.param(None, (), id="no status"),
    ],
)
def test_only_known_true_conditions_are_shown(status: Any, found: tuple[str, ...]) -> None:
    assert conditions.summarize(status)[0] == found


def test_equal_results_are_one_object() -> None:
    first, second = (conditions.summarize(make(("Drifted", "True", "R")))[0] for _ in range(2))

    assert first is second


def test_the_start_of_an_action_is_that_of_reconciling() -> None:
    assert conditions.summarize(make(("Reconciling", "True", "Progressing")))[1] == "2026-01-01T00:00:00Z"
    assert conditions.summarize(make(("Reconciling", "False", "Settled")))[1] == ""
    assert conditions.summarize({"conditions": [{"type": "Reconciling", "status": "True"}]})[1] == ""


# ---------------------------------------------------------------- the table of types

PAGE = repository.DOCS / "status.md"


def write_table() -> str:
    """The table of `docs/status.md`."""
    rows = [
        f"| `{type_}` | {traits.meaning} | {traits.event or '–'} | {traits.word or '–'} |\n"
        for type_, traits in condition_types.TABLE.items()
    ]
    return "".join(["| condition | True while | Event | in column STATE |\n", "|---|---|---|---|\n", *rows])


def test_each_type_has_a_row() -> None:
    assert list(condition_types.TABLE) == list(ConditionType)


def test_the_page_has_the_table() -> None:
    assert write_table() in PAGE.read_text(), f"replace the table in docs/status.md by:\n{write_table()}"


def test_a_command_has_no_other_fields_than_can_be_filled() -> None:
    for traits in condition_types.TABLE.values():
        assert "{" not in traits.command.format(name="shop", namespace="default")
        assert traits.is_cause or not traits.command


def test_defined_conditions_keep_the_time_of_their_transition() -> None:
    before = [*make(("Fast", "True", "Fast"), ("Gone", "True", "Gone"), ("Ready", "True", "Complete"))["conditions"]]
    judged = [Judgement("Fast", "True", "Faster", "now"), Judgement("New", "Unknown", "Pending", "")]

    found = conditions.build_defined(judged, generation=3, before=before, now="2026-02-02T00:00:00Z")

    assert [(each["type"], each["reason"], each["lastTransitionTime"]) for each in found] == [
        ("Fast", "Faster", "2026-01-01T00:00:00Z"),
        ("New", "Pending", "2026-02-02T00:00:00Z"),
    ]


def test_defined_conditions_stay_while_the_template_is_unknown() -> None:
    before = make(("Fast", "True", "Fast"), ("Ready", "True", "Complete"), ("Drifted", "False", "NotDrifted"))

    found = conditions.build_defined(None, generation=3, before=before["conditions"], now="2026-02-02T00:00:00Z")

    assert found == before["conditions"][:1]
