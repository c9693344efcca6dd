"""Who waits within a nested Stack, as that says itself."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.health import condition_rules
from hearth.plan.health.health_result import HealthState, NestedStop


def stack(reason: str, *waiting: Any, generation: int = 1) -> dict[str, Any]:
    """A Stack called `inner` that is not ready for that reason, with these entries in its list of breakpoints."""
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": "m"}
    status = {"observedGeneration": 1, "conditions": [condition], "breakpoints": list(waiting)}
    return {"metadata": {"name": "inner", "generation": generation}, "status": status}


DB = {"resource": "db", "hook": "PreCreate", "kind": "Probe", "name": "inner-db"}
DEEP = {"resource": "deep/db", "hook": "PostUpdate", "stack": "inner-deep"}


@pytest.mark.parametrize(
    ("fields", "stops"),
    [
        pytest.param(
            stack("Stopped", DB, DEEP),
            (
                NestedStop(resource="db", hook="PreCreate", kind="Probe", name="inner-db", stack="inner"),
                NestedStop(resource="deep/db", hook="PostUpdate", stack="inner-deep"),
            ),
            id="one of its own, and one further within",
        ),
        pytest.param(stack("Progressing", DB), (), id="while something else moves it is no stop"),
        pytest.param(stack("Stopped", DB, generation=2), (), id="what it said before it was changed counts no more"),
        pytest.param(
            stack("Stopped", {"resource": "db", "hook": "Tomorrow"}, {"hook": "PreCreate"}, "x", None),
            (),
            id="what makes no sense is passed over",
        ),
    ],
)
def test_who_waits(fields: dict[str, Any], stops: tuple[NestedStop, ...]) -> None:
    """Only where nothing within it can move before a person says so."""
    verdict = condition_rules.assess_stack(fields)
    assert (verdict.state, verdict.stops) == (HealthState.PROGRESSING, stops)
