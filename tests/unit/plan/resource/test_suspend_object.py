"""What is written to suspend one object and to let it go again."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.model import child, names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.health.suspend_rules import SuspendRule
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.resource import suspend_object
from support.units import suspended
from support.units.suspended import RECORDS

DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
REPLICAS = ("spec", "replicas")
LOST = LostField(path=REPLICAS, text="spec.replicas")


def rule() -> SuspendRule:
    """That of Deployments."""
    found = health_rules.DEFAULT_RULES.find_suspension(DEPLOYMENT)
    assert found is not None
    return found


def make(replicas: int, *, holder: str = "hearth:n/shop", record: Any = None) -> Child:
    """A Deployment whose replica count is held by a user. record: what it remembers."""
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
    """What a step has the object remember."""
    said = orjson.loads(manifest["metadata"]["annotations"][names.ANNOTATION_SUSPENDED])
    del said["signature"]
    return said


def test_a_step_states_what_suspends_and_nothing_else() -> None:
    """Of that very object."""
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
    """By whom it is held when it is suspended."""
    assert read_said(suspend_object.suspend(make(5, holder=holder), rule(), RECORDS).manifest) == expected


def test_what_another_client_starts_meanwhile_is_not_taken_for_how_it_was() -> None:
    """The first record stays, and the step says what it is for."""
    found = make(9, holder="kubectl", record={"theirs": {"spec.replicas": 5}})
    step = suspend_object.suspend(found, rule(), RECORDS)
    assert read_said(step.manifest) == {"theirs": {"spec.replicas": 5}}
    assert step.repaired_paths == (("spec", "replicas"),)


def test_what_was_another_clients_is_put_back_and_the_rest_let_go() -> None:
    """By an apply that states no more than that: the server takes away what is stated no more."""
    step = suspend_object.resume(make(0, holder="x", record={"theirs": {"spec.replicas": 5}}), RECORDS)
    assert step.manifest["spec"] == {"replicas": 5}
    step = suspend_object.resume(make(0, holder="x", record={"theirs": {"spec.replicas": None}}), RECORDS)
    assert step.manifest.keys() == {"apiVersion", "kind", "metadata"}
    assert "annotations" not in step.manifest["metadata"]


def test_what_an_apply_takes_back_as_a_whole_needs_no_second_one() -> None:
    """The definition's own apply says so then."""
    found = make(0, holder=names.SUSPEND_FIELD_MANAGER, record={"ours": {"spec.replicas": 5}})
    manifest = {"metadata": {"annotations": {}}, "spec": {"replicas": 2}}
    said = suspend_object.mark_resumed(manifest, found, DriftFinding(to_repair=(LOST,)), RECORDS)
    assert said["metadata"]["annotations"] == {names.ANNOTATION_SUSPENDED: "false"}
    assert manifest["metadata"]["annotations"] == {}
    assert suspend_object.mark_resumed(manifest, found, DriftFinding(tolerated=(LOST,)), RECORDS) is manifest
    unstated = {"metadata": {"annotations": {}}, "spec": {}}
    assert suspend_object.mark_resumed(unstated, found, DriftFinding(), RECORDS) is unstated
    assert not RECORDS.is_suspended(make(2, record="false"))


def test_what_suspending_took_is_no_one_elses() -> None:
    """However the resource treats what others take; what was theirs before is."""
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
    """A StatefulSet of the Stack. policy: what its controller does with the claims of replicas that are scaled down."""
    annotations = {}
    if record:
        annotations[names.ANNOTATION_SUSPENDED] = suspended.sign(record, uid="u1", kind=STATEFUL_SET)
    spec: Object = {"replicas": 3, **({WHEN_SCALED[1]: {WHEN_SCALED[2]: policy}} if policy else {})}
    owned = {"f:replicas": {}, f"f:{WHEN_SCALED[1]}": {f"f:{WHEN_SCALED[2]}": {}}}
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
    """What suspends it."""
    found_rule = health_rules.DEFAULT_RULES.find_suspension(STATEFUL_SET)
    assert found_rule is not None
    return suspend_object.suspend(found, found_rule, RECORDS).manifest


def test_claims_of_replicas_stay_when_they_are_suspended() -> None:
    """Without it, the StatefulSet's controller deletes all of them: the same apply says that they stay."""
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
    """So resuming costs one apply."""
    manifest = suspend_set(make_set(policy))
    assert manifest["spec"] == {"replicas": 0}
    assert read_said(manifest) == {"ours": {"spec.replicas": 3}}
