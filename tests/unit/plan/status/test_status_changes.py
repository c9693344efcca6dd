"""What differs between two statuses, and whether a reader must know it at once."""

from __future__ import annotations

import pytest

from hearth.model.child import Object
from hearth.plan.status import status_changes

CONDITION = {"type": "Ready", "status": "False", "reason": "Progressing", "message": "1 of 3"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {}, {"a": None}),
        ({"m": {"a": 1, "b": 1}}, {"m": {"b": 2}}, {"m": {"a": None, "b": 2}}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": [1, 2]}),
        ({"m": {"a": 1}}, {"m": {"a": 1}}, {}),
    ],
    ids=["equal", "changed", "taken away", "within a map", "lists are replaced", "equal maps"],
)
def test_a_patch_holds_the_difference(before: Object, after: Object, expected: Object) -> None:
    """As a JSON merge patch."""
    assert status_changes.find_changes(before, after) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"summary": "2/3", "resources": {"ready": 2}}, True, id="counts"),
        pytest.param({"conditions": [CONDITION | {"message": "2 of 3"}]}, True, id="a message"),
        pytest.param({"conditions": [CONDITION | {"status": "True"}]}, False, id="a condition"),
        pytest.param({"conditions": [CONDITION | {"reason": "Stopped"}]}, False, id="a reason"),
        pytest.param({"phase": "CreateComplete"}, False, id="a phase"),
        pytest.param({"problems": [{"resource": "a"}]}, False, id="a problem"),
        pytest.param({"observedGeneration": 2}, False, id="another spec"),
    ],
)
def test_progress_is_what_only_counts_on(change: Object, expected: bool) -> None:
    """All else is news."""
    before = {"phase": "CreateInProgress", "summary": "1/3", "observedGeneration": 1, "conditions": [CONDITION]}
    assert status_changes.is_progress_only(before, before | change) is expected


READY = {"type": "Ready", "status": "True", "reason": "Complete", "message": "all 3 resources are ready"}
AT_WORK: Object = {"phase": "UpdateInProgress", "summary": "2/3", "conditions": [CONDITION]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, True, id="at work again"),
        pytest.param({"phase": "UpdateComplete"}, False, id="still complete"),
        pytest.param({"phase": "UpdateFailed"}, False, id="failed"),
        pytest.param({"phase": "RollbackInProgress"}, False, id="going back"),
        pytest.param({"conditions": [CONDITION, {**CONDITION, "type": "Drifted"}]}, False, id="a condition more"),
        pytest.param({"problems": [{"resource": "a"}]}, False, id="a problem"),
        pytest.param({"observedGeneration": 2}, False, id="another spec"),
        pytest.param({"target": {"revision": 2}}, False, id="another target"),
    ],
)
def test_a_setback_is_work_for_the_same_and_nothing_wrong(change: Object, expected: bool) -> None:
    """All else is reported at once."""
    before = {"phase": "UpdateComplete", "summary": "3/3", "observedGeneration": 1, "conditions": [READY]}
    assert status_changes.is_repair_only(before, before | AT_WORK | change) is expected
