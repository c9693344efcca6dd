"""The writes that suspend and resume one object, and the parts of its record that are trusted."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from hearth.model import child, limits, names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind
from hearth.model.phases import ConditionType
from hearth.plan.health import health_rules
from hearth.plan.health.suspend_rules import SuspendRule
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.resource import resource_planner, suspend_object
from hearth.plan.resource.suspend_object import SuspendRecord
from hearth.plan.retry.backoff import Attempt, SuspendAttempt, SuspendPurpose
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.steps import Delete, Suspend
from support.units import suspended
from support.units.suspended import RECORDS

DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
REPLICAS = ("spec", "replicas")
LOST = LostField(path=REPLICAS, text="spec.replicas")


def rule() -> SuspendRule:
    found = health_rules.DEFAULT_RULES.find_suspension(DEPLOYMENT)
    assert found is not None
    return found


def make(replicas: int, *, holder: str = "hearth:n/shop", record: Any = None) -> Child:
    """A Deployment whose replica count belongs to a user. record: its recorded earlier values."""
    text = record if isinstance(record, str) else suspended.sign(record, uid="u1", kind=DEPLOYMENT) if record else ""
    annotations = {names.ANNOTATION_SUSPENDED: text}
    entries = [
        {"manager": "hearth:n/shop", "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}}}},
        {"manager": holder, "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}, "f:replicas": {}}}},
    ]
    raw = {
        "metadata": {
            "name": "web",
            "namespace": "n",
            "uid": "u1",
            "resourceVersion": "1",
            "annotations": annotations if record is not None else {},
            "managedFields": [*(entries[1:] if holder.startswith("hearth:") else entries), suspended.OWNED],
        },
        "spec": {"replicas": replicas},
    }
    return child.parse_child(raw, kind=DEPLOYMENT, paths=[REPLICAS])


def read_said(manifest: Object) -> Any:
    """The record that a step stores in the object."""
    said = orjson.loads(manifest["metadata"]["annotations"][names.ANNOTATION_SUSPENDED])
    del said["signature"]
    return said


def test_a_step_states_what_suspends_and_nothing_else() -> None:
    step = suspend_object.suspend(make(2), rule(), RECORDS)
    metadata = {key: value for key, value in step.manifest["metadata"].items() if key != "annotations"}
    assert metadata == {"name": "web", "namespace": "n", "uid": "u1"}
    assert step.manifest["spec"] == {"replicas": 0}
    assert step.repaired_paths == ()


@pytest.mark.parametrize(
    ("holder", "expected"),
    [("hearth:n/shop", {"ours": {"spec.replicas": 5}}), ("hpa", {"theirs": {"spec.replicas": 5}})],
    ids=["the definition puts it back", "no other client would"],
)
def test_what_is_not_the_definitions_is_remembered(holder: str, expected: object) -> None:
    assert read_said(suspend_object.suspend(make(5, holder=holder), rule(), RECORDS).manifest) == expected


def test_what_another_client_starts_meanwhile_is_not_taken_for_how_it_was() -> None:
    found = make(9, holder="kubectl", record={"theirs": {"spec.replicas": 5}})
    step = suspend_object.suspend(found, rule(), RECORDS)
    assert read_said(step.manifest) == {"theirs": {"spec.replicas": 5}}
    assert step.repaired_paths == (("spec", "replicas"),)


def test_what_was_another_clients_is_put_back_and_the_rest_let_go() -> None:
    step = suspend_object.resume(make(0, holder="x", record={"theirs": {"spec.replicas": 5}}), RECORDS)
    assert step.manifest["spec"] == {"replicas": 5}
    step = suspend_object.resume(make(0, holder="x", record={"theirs": {"spec.replicas": None}}), RECORDS)
    assert step.manifest.keys() == {"apiVersion", "kind", "metadata"}
    assert "annotations" not in step.manifest["metadata"]


def test_what_an_apply_takes_back_as_a_whole_needs_no_second_one() -> None:
    found = make(0, holder=names.SUSPEND_FIELD_MANAGER, record={"ours": {"spec.replicas": 5}})
    manifest: Object = {"metadata": {"annotations": {}}, "spec": {"replicas": 2}}
    said = suspend_object.mark_resumed(manifest, found, DriftFinding(to_repair=(LOST,)), RECORDS)
    assert said["metadata"]["annotations"] == {names.ANNOTATION_SUSPENDED: "false"}
    assert manifest["metadata"]["annotations"] == {}
    assert suspend_object.mark_resumed(manifest, found, DriftFinding(tolerated=(LOST,)), RECORDS) is manifest
    unstated: Object = {"metadata": {"annotations": {}}, "spec": {}}
    assert suspend_object.mark_resumed(unstated, found, DriftFinding(), RECORDS) is unstated
    assert not RECORDS.is_suspended(make(2, record="false"))


def test_what_suspending_took_is_no_one_elses() -> None:
    ours = make(0, holder=names.SUSPEND_FIELD_MANAGER, record={"ours": {"spec.replicas": 5}})
    theirs = make(0, holder=names.SUSPEND_FIELD_MANAGER, record={"theirs": {"spec.replicas": 5}})
    assert suspend_object.without_suspend_fields(ours, DriftFinding(tolerated=(LOST,)), RECORDS) == DriftFinding(
        to_repair=(LOST,)
    )
    assert suspend_object.without_suspend_fields(theirs, DriftFinding(tolerated=(LOST,)), RECORDS) == DriftFinding(
        tolerated=(LOST,)
    )
    assert ours.ownership is not None
    assert ours.ownership.is_scaled


STATEFUL_SET = Kind(group="apps", version="v1", name="StatefulSet", plural="statefulsets", namespaced=True)
WHEN_SCALED = ("spec", "persistentVolumeClaimRetentionPolicy", "whenScaled")


def make_set(policy: str | None, *, record: Any = None) -> Child:
    """A StatefulSet of the Stack. policy: the fate of claims of replicas that are scaled down."""
    annotations = {}
    if record:
        annotations[names.ANNOTATION_SUSPENDED] = suspended.sign(record, uid="u1", kind=STATEFUL_SET)
    spec: Object = {"replicas": 3, **({WHEN_SCALED[1]: {WHEN_SCALED[2]: policy}} if policy else {})}
    owned: Object = {"f:replicas": {}, f"f:{WHEN_SCALED[1]}": {f"f:{WHEN_SCALED[2]}": {}}}
    metadata = {
        "name": "db",
        "namespace": "n",
        "uid": "u1",
        "resourceVersion": "1",
        "annotations": annotations,
        "managedFields": [
            {"manager": "hearth:n/shop", "operation": "Apply", "fieldsV1": {"f:spec": owned}},
            suspended.OWNED,
        ],
    }
    return child.parse_child({"metadata": metadata, "spec": spec}, kind=STATEFUL_SET, paths=[REPLICAS, WHEN_SCALED])


def suspend_set(found: Child) -> Object:
    found_rule = health_rules.DEFAULT_RULES.find_suspension(STATEFUL_SET)
    assert found_rule is not None
    return suspend_object.suspend(found, found_rule, RECORDS).manifest


def test_claims_of_replicas_stay_when_they_are_suspended() -> None:
    manifest = suspend_set(make_set("Delete"))
    assert manifest["spec"] == {"replicas": 0, WHEN_SCALED[1]: {"whenScaled": "Retain"}}
    record = {"ours": {"spec.replicas": 3, ".".join(WHEN_SCALED): "Delete"}}
    assert read_said(manifest) == record
    again = make_set("Retain", record=record)
    assert suspend_set(again)["spec"] == manifest["spec"]
    assert suspend_object.restore(again, RECORDS).manifest["spec"] == {
        "replicas": 3,
        WHEN_SCALED[1]: {"whenScaled": "Delete"},
    }


@pytest.mark.parametrize("policy", ["Retain", None])
def test_a_policy_that_keeps_claims_is_not_taken_over(policy: str | None) -> None:
    manifest = suspend_set(make_set(policy))
    assert manifest["spec"] == {"replicas": 0}
    assert read_said(manifest) == {"ours": {"spec.replicas": 3}}


# ---------------------------------------------------------------- trusted parts of the record


def make_suspended(text: str | None, *, is_owned: bool = True, uid: str = "u", kind: Kind = DEPLOYMENT) -> Child:
    """An object with that annotation."""
    metadata: Object = {"name": "web", "namespace": "n", "uid": uid, "resourceVersion": "1"}
    metadata["annotations"] = {names.ANNOTATION_SUSPENDED: text} if text is not None else {}
    metadata["managedFields"] = [suspended.OWNED] if is_owned else []
    return child.parse_child({"metadata": metadata, "spec": {"replicas": 0}}, kind=kind, paths=[REPLICAS])


def sign(said: Object, **changes: Any) -> str:
    """The annotation, signed for the Deployment."""
    return suspended.sign(said, **{"uid": "u", "kind": DEPLOYMENT, **changes})


GOOD: Object = {"theirs": {"spec.replicas": 5}}


def test_a_record_of_our_own_is_trusted() -> None:
    assert RECORDS.find(make_suspended(sign(GOOD))) == SuspendRecord(theirs={REPLICAS: 5})
    record = SuspendRecord(ours={REPLICAS: 2}, is_resumed=True)
    assert RECORDS.find(make_suspended(RECORDS.write(make_suspended(None), record))) == record
    assert RECORDS.describe(make_suspended(sign(GOOD))) == ()
    assert RECORDS.describe(make_suspended(None)) == RECORDS.describe(make_suspended("false")) == ()


ATTACK = {"theirs": {"spec.paused": True, "spec.template.spec.hostPID": True}}
OVERLAPPING = {"theirs": {"spec.minReadySeconds": 1, "spec.minReadySeconds.y": 2}}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(make_suspended(orjson.dumps(GOOD).decode()), id="unsigned"),
        pytest.param(make_suspended(orjson.dumps(ATTACK).decode()), id="any field"),
        pytest.param(make_suspended(orjson.dumps(OVERLAPPING).decode()), id="overlapping fields"),
        pytest.param(make_suspended(sign(GOOD), is_owned=False), id="written by another field manager"),
        pytest.param(make_suspended(sign(GOOD), uid="v"), id="copied from another object"),
        pytest.param(make_suspended(sign(GOOD), kind=STATEFUL_SET), id="copied from another kind"),
        pytest.param(make_suspended(sign(GOOD, stack_uid="s")), id="of another Stack"),
        pytest.param(make_suspended(sign(GOOD).replace("5", "6", 1)), id="another value"),
        pytest.param(make_suspended(sign({"theirs": {"spec.replicas": "5"}})), id="a text for a number"),
        pytest.param(make_suspended(sign({"theirs": {"spec.replicas": True}})), id="a truth value for a number"),
        pytest.param(make_suspended(sign({"theirs": {"spec.replicas": {"a": 1}}})), id="a map for a number"),
        pytest.param(make_suspended(sign({"theirs": [1]})), id="a list of fields"),
        pytest.param(make_suspended("{"), id="no JSON"),
        pytest.param(make_suspended("[]"), id="a list"),
        pytest.param(make_suspended("7"), id="a number"),
        pytest.param(make_suspended(""), id="nothing"),
        pytest.param(make_suspended("[" * 5_000), id="too deep"),
        pytest.param(make_suspended('{"signature": 7}'), id="a number for a signature"),
        pytest.param(make_suspended(sign({"theirs": {}, "x": "a" * limits.ANNOTATION_BYTES})), id="too long"),
    ],
)
def test_any_other_record_is_ignored_and_named(found: Child) -> None:
    assert (RECORDS.find(found), RECORDS.is_suspended(found), RECORDS.read(found)) == (None, False, SuspendRecord())
    (condition,) = RECORDS.describe(found)
    assert (condition.type, "hearth.dev/suspended-" in condition.message) == (
        ConditionType.SUSPEND_RECORD_INVALID,
        True,
    )
    for step in (suspend_object.resume(found, RECORDS), suspend_object.restore(found, RECORDS)):
        assert step.manifest.keys() == {"apiVersion", "kind", "metadata"}


def test_only_what_the_rule_of_the_kind_sets_is_written() -> None:
    found = make_suspended(
        sign({"theirs": {"spec.replicas": 5, "spec.template.spec.hostPID": True, "metadata.name": "x"}})
    )
    assert suspend_object.resume(found, RECORDS).manifest["spec"] == {"replicas": 5}


def test_of_a_kind_without_a_rule_nothing_is_written() -> None:
    kind = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
    found = make_suspended(sign(GOOD, kind=kind), kind=kind)
    assert RECORDS.is_suspended(found)
    assert suspend_object.resume(found, RECORDS).manifest.keys() == {"apiVersion", "kind", "metadata"}


# ---------------------------------------------------------------- workloads that keep running


def make_remembering(record: Object | None) -> Child:
    """A Deployment with this record."""
    return make_suspended(suspended.sign(record, uid="u", kind=DEPLOYMENT) if record is not None else None)


ASLEEP = make_remembering({"ours": {"spec.replicas": 2}})
AWAKE = make_remembering({"ours": {"spec.replicas": 2}, "awake": True})
FAILED = ResourceStatus(state=ResourceState.FAILED, reason="Broken", message="", is_stuck=True)
GOING = ResourceStatus(state=ResourceState.PROGRESSING, reason="Resuming", message="")


def settle(
    state: ResourceState, found: child.Child | None, *others: ResourceStatus, cause: Cause = Cause.ORDER
) -> ResourceStatus:
    """The resulting status."""
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
        pytest.param(settle(ResourceState.FAILED, make_remembering(None)), False, id="it never was suspended"),
        pytest.param(settle(ResourceState.WAITING, None, FAILED), False, id="there is not an object"),
    ],
)
def test_what_is_stuck_is_restored(status: ResourceStatus, is_restored: bool) -> None:
    assert isinstance(status.restore_step, Suspend) is is_restored
    if is_restored:
        assert not status.is_stuck


@pytest.mark.parametrize(
    "found", [AWAKE, make_remembering(None), None], ids=["restored", "never suspended", "no object"]
)
def test_those_above_follow_once_it_runs(found: child.Child | None) -> None:
    assert settle(ResourceState.FAILED, found).is_stuck
    assert settle(ResourceState.WAITING, found, FAILED).is_stuck
    assert not settle(ResourceState.RETRYING, found).is_stuck


def test_what_is_restored_says_how_it_was_and_remembers_it() -> None:
    step = settle(ResourceState.FAILED, ASLEEP).restore_step
    assert isinstance(step, Suspend)
    assert step.purpose is SuspendPurpose.RESTORE
    assert step.manifest["spec"] == {"replicas": 2}
    assert '"awake":true' in step.manifest["metadata"]["annotations"][names.ANNOTATION_SUSPENDED]


def test_a_step_that_is_planned_goes_before_and_a_refused_one_waits() -> None:
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
