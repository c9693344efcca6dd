"""The HealthMark of `mark` and `unmark`."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import mark_requests


def make_stack(**metadata: Any) -> StackState:
    spec = {"template": {"resources": {"web": {}, "cacheDb": {}}}}
    known = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1}
    return StackState({"metadata": known | metadata, "spec": spec, "status": {"observedGeneration": 1}})


def test_a_mark_is_deleted_with_its_stack() -> None:
    """Its name is made by the API server: each mark is one of its own."""
    mark = mark_requests.make_mark(make_stack(), "cacheDb/disk", reason="broken")

    assert mark["metadata"]["generateName"] == "shop-cache-db-disk-"
    assert mark["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert mark["spec"] == {
        "stackName": "shop",
        "resource": "cacheDb/disk",
        "markUnhealthy": True,
        "reason": "broken",
    }
    assert mark_requests.make_mark(make_stack(), "web", reason=None)["spec"]["markUnhealthy"] is False


def make_group(**spec: Any) -> StackState:
    known = {"name": "queue", "namespace": "prod", "uid": "u-2", "generation": 1}
    status = {"observedGeneration": 1, "controllerState": {"removedMembers": [1], "surge": 1}}
    head = {"kind": "ResourceGroup", "metadata": known}
    return StackState({**head, "spec": {"replicas": 2, **spec}, "status": status})


@pytest.mark.parametrize(
    ("stack", "resource", "said"),
    [
        pytest.param(make_group(), "2", "", id="a member"),
        pytest.param(make_group(), "3/db", "", id="within a member beyond the size"),
        pytest.param(make_group(), "1", "rg/queue has no member 1; it has 0, 2, 3", id="a removed member"),
        pytest.param(make_group(), "9", "rg/queue has no member 9", id="no member yet"),
        pytest.param(make_stack(), "web", "", id="fine"),
        pytest.param(make_stack(), "web/any", "", id="a path is resolved by the operator"),
        pytest.param(make_stack(), "wep", "has no resource 'wep'; resources: cacheDb, web", id="unknown"),
        pytest.param(make_stack(), "Web!", "is not the name of a resource", id="no name"),
        pytest.param(make_stack(deletionTimestamp="now"), "web", "is being deleted", id="in deletion"),
    ],
)
def test_a_mark_that_does_not_apply_is_refused(stack: StackState, resource: str, said: str) -> None:
    """Before it is written."""
    assert said in mark_requests.find_refusal(stack, resource)
    assert bool(said) == bool(mark_requests.find_refusal(stack, resource))


def test_the_state_of_a_mark_is_read() -> None:
    """Rejected, accepted or resolved."""
    conditions = [
        {"type": "Ready", "status": "False", "reason": "ResourceNotFound", "message": "there is web"},
        {"type": "Resolved", "status": "False"},
    ]

    state = mark_requests.read_state({"status": {"conditions": conditions}})

    assert state.is_rejected
    assert state.message == "ResourceNotFound: there is web"
    assert mark_requests.read_state(None).is_rejected
    assert not mark_requests.read_state({}).is_settled
