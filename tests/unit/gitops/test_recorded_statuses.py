"""The recorded statuses contain each phase with the conditions of its row, so that what is judged on them is complete."""

from __future__ import annotations

import pytest

from hearth.model import names, phases
from hearth.model.phases import Phase
from hearth.plan.status import conditions
from support.gitops import recorded_statuses

ROWS = [
    *((phase, False) for phase in Phase if phase is not Phase.DELETE_COMPLETE),
    *((phase, True) for phase, row in phases.TABLE.items() if row.conditions_if_automatic is not None),
]
"""`DeleteComplete` is never stored: the Stack is removed at that moment."""


@pytest.mark.parametrize(("phase", "is_automatic"), ROWS)
def test_each_phase_of_a_stack_is_recorded(phase: Phase, is_automatic: bool) -> None:
    """With the conditions that `hearth.model.phases` gives it."""
    status = recorded_statuses.find(names.STACK, phase, is_automatic=is_automatic)["status"]
    row = phases.find_conditions(phase, is_unasked=is_automatic)

    found = {type_: conditions.find(status, type_)["status"] for type_ in ("Ready", "Reconciling", "Stalled")}
    assert found == {"Ready": row.ready, "Reconciling": str(row.reconciling), "Stalled": str(row.stalled)}


def test_each_other_kind_is_recorded() -> None:
    """Groups in the phases that they have, marks and snapshots from their first status to their end."""
    seen = {(each.kind, each.phase) for each in recorded_statuses.record()}

    assert {phase for kind, phase in seen if kind == names.GROUP_KIND} >= {
        *("CreateInProgress", "CreateComplete", "CreateFailed", "UpdateComplete", "UpdateFailed", "UpdateStopped"),
        *("SuspendInProgress", "SuspendComplete", "ResumeInProgress", "ResumeComplete"),
    }
    assert {phase for kind, phase in seen if kind == "HealthMark"} >= {"", "Pending", "Marked", "Replaced"}
    assert {phase for kind, phase in seen if kind == "StackSnapshot"} >= {"", "InProgress", "Complete", "Failed"}
