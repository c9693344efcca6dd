"""The objects that `snapshot`, `mark` and `unmark` create, and the patch of `restore`."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import mark_requests, snapshot_requests, verbs
from hearth.cli.stack_views.steering.snapshot_requests import SnapshotState
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, Write

READY = [{"type": "Ready", "status": "True", "reason": "Complete", "message": "all is ready"}]
RESTORED = {"rollback": {"toSnapshot": "before"}}


def make_stack(
    spec: dict[str, Any] | None = None, *, cause: str = "Spec", is_ready: bool = True, **metadata: Any
) -> StackState:
    known = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 3}
    status = {"observedGeneration": 3, "phase": "UpdateComplete", "target": {"revision": 2, "cause": cause}}
    conditions = {"conditions": READY} if is_ready else {}
    return StackState({"metadata": known | metadata, "spec": spec or {}, "status": status | conditions})


def make_snapshot(*, stack: str = "shop", uid: str = "u-1", phase: str = "Complete", **metadata: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "False", "reason": "StackNotComplete", "message": "it is in progress"}
    return {
        "metadata": {"name": "before"} | metadata,
        "spec": {"stackName": stack},
        "status": {"phase": phase, "revision": 1, "stackUID": uid, "conditions": [ready]},
    }


def list_requests(result: object) -> list[dict[str, Any]]:
    assert isinstance(result, Write)
    return [patch["spec"]["rollback"] for patch in result.patches]


def test_a_snapshot_is_named_by_its_user_or_by_the_api_server() -> None:
    stack = make_stack()

    named = snapshot_requests.make_snapshot(stack, name="before", is_retained=True)
    unnamed = snapshot_requests.make_snapshot(stack, name="", is_retained=False)

    assert named["metadata"] == {"namespace": "prod", "name": "before"}
    assert named["spec"] == {"stackName": "shop", "deletionPolicy": "Retain"}
    assert unnamed["metadata"] == {"namespace": "prod", "generateName": "shop-"}
    assert unnamed["spec"] == {"stackName": "shop"}


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        pytest.param(make_stack(), "", id="fine"),
        pytest.param(make_stack(deletionTimestamp="now"), "is being deleted", id="in deletion"),
        pytest.param(make_stack({"kubeConfig": {"secretRef": {}}}), "in another cluster", id="elsewhere"),
    ],
)
def test_what_cannot_be_kept_is_refused(stack: StackState, said: str) -> None:
    refusal = snapshot_requests.find_refusal(stack)

    assert said in refusal
    assert bool(said) == bool(refusal)


def test_a_restore_takes_the_place_of_a_rollback() -> None:
    restored = snapshot_requests.restore(make_stack({"rollback": {"toRevision": 1}}), make_snapshot())
    rolled_back = verbs.rollback(make_stack(RESTORED), to_revision=1, stored={1, 2})

    assert list_requests(restored) == [{"toRevision": None, "toSnapshot": "before"}]
    assert list_requests(rolled_back) == [{"toRevision": 1, "toSnapshot": None}]


@pytest.mark.parametrize(
    ("stack", "between"),
    [
        pytest.param(make_stack(RESTORED), None, id="after an edit"),
        pytest.param(make_stack(RESTORED, cause="Rollback"), 1, id="after a complete restore"),
    ],
)
def test_a_repeated_restore_counts_again(stack: StackState, between: int | None) -> None:
    result = snapshot_requests.restore(stack, make_snapshot())

    assert list_requests(result) == [
        {"toRevision": between, "toSnapshot": None},
        {"toRevision": None, "toSnapshot": "before"},
    ]


def test_a_restore_in_progress_is_not_started_again() -> None:
    stack = make_stack(RESTORED, cause="Rollback", is_ready=False)

    assert isinstance(snapshot_requests.restore(stack, make_snapshot()), AlreadySo)


@pytest.mark.parametrize(
    ("stack", "snapshot", "said"),
    [
        pytest.param(make_stack(deletionTimestamp="now"), make_snapshot(), "is being deleted", id="stack in deletion"),
        pytest.param(make_stack(), make_snapshot(stack="web"), "is one of Stack web, not of stack/shop", id="other"),
        pytest.param(make_stack(), make_snapshot(uid="u-0"), "an earlier stack/shop", id="earlier"),
        pytest.param(
            make_stack(), make_snapshot(phase="InProgress"), "StackNotComplete: it is in progress", id="not complete"
        ),
        pytest.param(
            make_stack(), make_snapshot(deletionTimestamp="now"), "stacksnapshot/before is being deleted", id="deleting"
        ),
    ],
)
def test_a_restore_that_does_not_apply_says_why(stack: StackState, snapshot: dict[str, Any], said: str) -> None:
    result = snapshot_requests.restore(stack, snapshot)

    assert isinstance(result, Refusal)
    assert said in result.said


def test_a_wait_ends_when_a_snapshot_needs_help() -> None:
    rejected = make_snapshot(phase="InProgress")
    rejected["status"]["conditions"][0]["reason"] = "TooManySnapshots"

    assert not SnapshotState(make_snapshot(phase="InProgress")).needs_help
    assert SnapshotState(make_snapshot(phase="Failed")).needs_help
    assert SnapshotState(rejected).needs_help
    assert SnapshotState(None).needs_help
    assert SnapshotState({}).message == "waits for the operator; if this takes long, check that an operator is running"


# ---------------------------------------------------------------- HealthMarks


def make_marked(**metadata: Any) -> StackState:
    spec: dict[str, Any] = {"template": {"resources": {"web": {}, "cacheDb": {}}}}
    known = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1}
    return StackState({"metadata": known | metadata, "spec": spec, "status": {"observedGeneration": 1}})


def test_a_mark_is_deleted_with_its_stack() -> None:
    mark = mark_requests.make_mark(make_marked(), "cacheDb/disk", reason="broken")

    assert mark["metadata"]["generateName"] == "shop-cache-db-disk-"
    assert mark["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert mark["spec"] == {"stackName": "shop", "resource": "cacheDb/disk", "markUnhealthy": True, "reason": "broken"}
    assert mark_requests.make_mark(make_marked(), "web", reason=None)["spec"]["markUnhealthy"] is False


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
        pytest.param(make_marked(), "web", "", id="fine"),
        pytest.param(make_marked(), "web/any", "", id="a path is resolved by the operator"),
        pytest.param(make_marked(), "wep", "has no resource 'wep'; resources: cacheDb, web", id="unknown"),
        pytest.param(make_marked(), "Web!", "is not the name of a resource", id="no name"),
        pytest.param(make_marked(deletionTimestamp="now"), "web", "is being deleted", id="in deletion"),
    ],
)
def test_a_mark_that_does_not_apply_is_refused(stack: StackState, resource: str, said: str) -> None:
    assert said in mark_requests.find_refusal(stack, resource)
    assert bool(said) == bool(mark_requests.find_refusal(stack, resource))


def test_the_state_of_a_mark_is_read() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "reason": "ResourceNotFound", "message": "there is web"},
        {"type": "Resolved", "status": "False"},
    ]

    state = mark_requests.read_state({"status": {"conditions": conditions}})

    assert state.is_rejected
    assert state.message == "ResourceNotFound: there is web"
    assert mark_requests.read_state(None).is_rejected
    assert not mark_requests.read_state({}).is_settled
