"""When a suspended object that cannot have its definition runs on as it was."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.model import child, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.resource import resource_planner
from hearth.plan.retry.backoff import Attempt, SuspendAttempt, SuspendPurpose
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.steps import Delete, Suspend
from support.units import suspended
from support.units.suspended import RECORDS

DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)


def make(record: Object | None) -> child.Child:
    """A Deployment that remembers so."""
    text = suspended.sign(record, uid="u", kind=DEPLOYMENT) if record is not None else ""
    annotations = {names.ANNOTATION_SUSPENDED: text} if record is not None else {}
    metadata = {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "1", "annotations": annotations}
    metadata["managedFields"] = [suspended.OWNED]
    return child.parse_child(
        {"metadata": metadata, "spec": {"replicas": 0}}, kind=DEPLOYMENT, paths=[("spec", "replicas")]
    )


ASLEEP = make({"ours": {"spec.replicas": 2}})
AWAKE = make({"ours": {"spec.replicas": 2}, "awake": True})
FAILED = ResourceStatus(state=ResourceState.FAILED, reason="Broken", message="", is_stuck=True)
GOING = ResourceStatus(state=ResourceState.PROGRESSING, reason="Resuming", message="")


def settle(
    state: ResourceState, found: child.Child | None, *others: ResourceStatus, cause: Cause = Cause.ORDER
) -> ResourceStatus:
    """The status that comes of it."""
    status = ResourceStatus(state=state, reason="Any", message="", cause=cause, child=found)
    return resource_planner.restore_if_stuck("web", status, others, memory=InMemoryState(), records=RECORDS, now=10.0)


@pytest.mark.parametrize(
    ("status", "is_restored"),
    [
        pytest.param(settle(ResourceState.FAILED, ASLEEP), True, id="it failed itself"),
        pytest.param(settle(ResourceState.STOPPED, ASLEEP), True, id="it is stopped"),
        pytest.param(settle(ResourceState.WAITING, ASLEEP, FAILED), True, id="what it waits for failed"),
        pytest.param(
            settle(ResourceState.WAITING, ASLEEP, cause=Cause.VALUE_MISSING), True, id="a value will not come"
        ),
        pytest.param(settle(ResourceState.RETRYING, ASLEEP), False, id="another try may do"),
        pytest.param(settle(ResourceState.WAITING, ASLEEP, FAILED, GOING), False, id="something is in progress still"),
        pytest.param(
            settle(ResourceState.WAITING, ASLEEP, cause=Cause.KIND_NOT_AVAILABLE), False, id="it cannot be known yet"
        ),
        pytest.param(settle(ResourceState.FAILED, AWAKE), False, id="it runs already"),
        pytest.param(settle(ResourceState.FAILED, make(None)), False, id="it never was suspended"),
        pytest.param(settle(ResourceState.WAITING, None, FAILED), False, id="there is no object"),
    ],
)
def test_what_is_stuck_is_restored(status: ResourceStatus, is_restored: bool) -> None:
    """Once, and only where waiting is of no use."""
    assert isinstance(status.restore_step, Suspend) is is_restored
    if is_restored:
        assert not status.is_stuck


@pytest.mark.parametrize("found", [AWAKE, make(None), None], ids=["restored", "never suspended", "no object"])
def test_those_above_follow_once_it_runs(found: child.Child | None) -> None:
    """In the order in which all is resumed."""
    assert settle(ResourceState.FAILED, found).is_stuck
    assert settle(ResourceState.WAITING, found, FAILED).is_stuck
    assert not settle(ResourceState.RETRYING, found).is_stuck


def test_what_is_restored_says_how_it_was_and_remembers_it() -> None:
    """So that its definition can take it back later."""
    step = settle(ResourceState.FAILED, ASLEEP).restore_step
    assert isinstance(step, Suspend)
    assert step.purpose is SuspendPurpose.RESTORE
    assert step.manifest["spec"] == {"replicas": 2}
    assert '"awake":true' in step.manifest["metadata"]["annotations"][names.ANNOTATION_SUSPENDED]


def test_a_step_that_is_planned_goes_before_and_a_refused_one_waits() -> None:
    """One step a resource at a time."""
    planned = ResourceStatus(
        state=ResourceState.FAILED, reason="x", message="", child=ASLEEP, step=Delete(child=ASLEEP)
    )
    assert (
        resource_planner.restore_if_stuck("web", planned, (), memory=InMemoryState(), records=RECORDS, now=10.0)
        is planned
    )
    memory = InMemoryState()
    attempt = Attempt(
        attempt_id=SuspendAttempt(uid="u", purpose=SuspendPurpose.RESTORE),
        failures=1,
        retry_at=20.0,
        reason="Denied",
        message="no",
        is_final=False,
    )
    memory.attempts["u"] = attempt
    failed = dataclasses.replace(planned, step=None, requeue_at=30.0)
    status = resource_planner.restore_if_stuck("web", failed, (), memory=memory, records=RECORDS, now=10.0)
    assert (status.restore_step, status.requeue_at, status.reason) == (None, 20.0, "x")
