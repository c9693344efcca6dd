"""A status of any size is assessed in a short time: what is beyond the limit does not count."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import limits
from hearth.plan.health.general.general_rule import OF_ANY_KIND
from hearth.plan.health.health_result import HealthState

LAST = limits.HEALTH_PARTS - 1


def make_items(number: int, failing: int) -> list[dict[str, Any]]:
    """Nodes of which one is failing."""
    return [{"phase": "Failed" if index == failing else "Ready"} for index in range(number)]


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        pytest.param(LAST, HealthState.PROGRESSING, id="the last one within the limit"),
        pytest.param(LAST + 1, HealthState.READY, id="the first one beyond it"),
    ],
)
def test_parts_count_up_to_the_limit(failing: int, expected: HealthState) -> None:
    """In a list, and in several together."""
    items = make_items(10 * limits.HEALTH_PARTS, failing)

    assert OF_ANY_KIND({"status": {"nodes": items}}).state is expected
    halves = {"aNodes": items[: LAST // 2], "bNodes": items[LAST // 2 :]}
    assert OF_ANY_KIND({"status": halves}).state is expected


def test_fields_and_conditions_count_up_to_the_limit() -> None:
    """Fields in the order of their names."""
    fields = {f"f{index:05}Phase": "Ready" for index in range(2 * limits.HEALTH_PARTS)}
    conditions = [{"type": f"C{index}Ready", "status": "True"} for index in range(2 * limits.HEALTH_PARTS)]

    assert OF_ANY_KIND({"status": {**fields, "z-phase": "Failed", "phase": "Ready"}}).state is HealthState.READY
    conditions[-1]["status"] = "False"
    assert OF_ANY_KIND({"status": {"conditions": conditions}}).state is HealthState.READY
    conditions[0]["status"] = "False"
    assert OF_ANY_KIND({"status": {"conditions": conditions}}).state is HealthState.PROGRESSING
