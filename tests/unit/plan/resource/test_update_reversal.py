"""How a rollback undoes a change in place."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from hearth.plan.resource import reversal, update_reversal
from hearth.plan.resource.reversal import UndoGrade

REVERSIBLE, RECREATES, ONE_WAY = UndoGrade
STACK, HPA = f"{names.FIELD_MANAGER_PREFIX}prod/shop", "kube-controller-manager"
CLAIM, SET = "PersistentVolumeClaim", "StatefulSet.apps"
DEFINITION = "CustomResourceDefinition.apiextensions.k8s.io"
SCALED = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}, "volumeClaimTemplates": [{}]}
REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


def make(spec: Object | None = None, *, owned: dict[str, Object] | None = None, **more: Any) -> Object:
    """An object. owned: the fields by manager."""
    entries = [{"manager": key, "operation": "Apply", "fieldsV1": value} for key, value in (owned or {}).items()]
    return {"metadata": {"managedFields": entries, **more.pop("metadata", {})}, "spec": spec or {}, **more}


def size(text: str) -> Object:
    return {"resources": {"requests": {"storage": text}}}


def definition(*versions: str, stored: str = "v1", properties: Object | None = None) -> Object:
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": properties or {}}}}}
    return make({"versions": [{"name": each, "storage": each == stored, "schema": schema} for each in versions]})


ROWS = [
    ("custom-spec", "Database.example.com", make({"a": 1}), make({"a": 2}), REVERSIBLE, ""),
    ("own-field", "Deployment.apps", make({"replicas": 1}, owned={STACK: REPLICAS}), make({"replicas": 2}), REVERSIBLE, ""),
    ("default-count", "Deployment.apps", make({"replicas": 1}), make({"replicas": 2}), ONE_WAY, "spec.replicas"),
    ("count-of-others", "Scaler.example.com", make({"replicas": 4}, owned={HPA: REPLICAS}), make({"replicas": 2}), ONE_WAY, "spec.replicas"),
    ("shared-field", "Deployment.apps", make({"replicas": 1}, owned={STACK: REPLICAS, HPA: REPLICAS}), make({"replicas": 2}), REVERSIBLE, ""),
    ("suspended", "Deployment.apps", make({"replicas": 0}, owned={STACK: {}, names.SUSPEND_FIELD_MANAGER: REPLICAS}), make({"replicas": 0}), REVERSIBLE, ""),
    (
        "label-of-others", "ConfigMap",
        make(metadata={"labels": {"tier": "a"}, "managedFields": [{"manager": HPA, "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:tier": {}}}}}]}),
        make(metadata={"labels": {"tier": "b"}}), ONE_WAY, "metadata.labels.tier",
    ),
    (
        "item-of-others", "Pool.example.com",
        make({"ports": [{"port": 80, "weight": 1}]}, owned={HPA: {"f:spec": {"f:ports": {'k:{"port":80}': {".": {}, "f:port": {}, "f:weight": {}}}}}}),
        make({"ports": [{"port": 80, "weight": 2}]}), ONE_WAY, "spec.ports[port=80].weight",
    ),
    ("claim-grows", CLAIM, make(size("1Gi")), make(size("2Gi")), ONE_WAY, "spec.resources.requests.storage"),
    ("claim-is-bound", CLAIM, make(), make({"volumeName": "v"}), ONE_WAY, "spec.volumeName"),
    ("claim-gets-a-class-of-attributes", CLAIM, make(), make({"volumeAttributesClassName": "v"}), REVERSIBLE, ""),
    ("claim-gets-a-label", CLAIM, make(size("1Gi")), make(size("1Gi"), metadata={"labels": {"a": "b"}}), REVERSIBLE, ""),
    ("fewer-replicas-delete-claims", SET, make({"replicas": 2, **SCALED}), make({"replicas": 1, **SCALED}), ONE_WAY, "spec.replicas"),
    ("more-replicas", SET, make({"replicas": 1, **SCALED}, owned={STACK: REPLICAS}), make({"replicas": 2, **SCALED}), REVERSIBLE, ""),
    ("job-resumes", "Job.batch", make({"suspend": True}), make({"suspend": False}), ONE_WAY, "spec.suspend"),
    ("job-is-suspended", "Job.batch", make({"suspend": False}), make({"suspend": True}), REVERSIBLE, ""),
    ("immutable", "ConfigMap", make(), make(immutable=True), RECREATES, ""),
    ("pod-tolerates-more", "Pod", make(), make({"tolerations": [{}]}), RECREATES, ""),
    ("pod-gets-an-image", "Pod", make({"containers": [{"image": "a"}]}), make({"containers": [{"image": "b"}]}), REVERSIBLE, ""),
    ("service-gets-a-node-port", "Service", make({"type": "ClusterIP"}), make({"type": "NodePort", "ports": [{"nodePort": 30080}]}), REVERSIBLE, ""),
    ("service-loses-a-node-port", "Service", make({"ports": [{"nodePort": 30080}]}), make({"ports": [{}]}), RECREATES, ""),
    (
        "service-keeps-its-balancer", "Service", make({"type": "LoadBalancer"}, status={"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}),
        make({"type": "LoadBalancer"}), REVERSIBLE, "",
    ),
    (
        "service-loses-its-balancer", "Service", make({"type": "LoadBalancer"}, status={"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}),
        make({"type": "ClusterIP"}), RECREATES, "",
    ),
    ("kind-loses-a-version", DEFINITION, definition("v1", "v2"), definition("v1"), ONE_WAY, "spec.versions[v2]"),
    ("kind-gets-a-version", DEFINITION, definition("v1"), definition("v1", "v2"), REVERSIBLE, ""),
    ("kind-stores-a-new-version", DEFINITION, definition("v1"), definition("v1", "v2", stored="v2"), ONE_WAY, "spec.versions[v2].storage"),
    ("kind-stores-a-present-version", DEFINITION, definition("v1", "v2"), definition("v1", "v2", stored="v2"), REVERSIBLE, ""),
    ("kind-loses-a-field", DEFINITION, definition("v1", properties={"a": {}}), definition("v1"), ONE_WAY, "spec.versions[v1].schema: spec.a"),
    (
        "kind-loses-a-field-of-items", DEFINITION, definition("v1", properties={"a": {"items": {"properties": {"b": {}}}}}),
        definition("v1", properties={"a": {"items": {"properties": {"c": {}}}}}), ONE_WAY, "spec.versions[v1].schema: spec.a[].b",
    ),
    ("kind-accepts-more", DEFINITION, definition("v1"), definition("v1", properties={"a": {}}), REVERSIBLE, ""),
    (
        "kind-keeps-unknown-fields", DEFINITION, definition("v1", properties={"a": {"properties": {"b": {}}}}),
        definition("v1", properties={"a": {"x-kubernetes-preserve-unknown-fields": True}}), REVERSIBLE, "",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "before", "after", "grade", "field"), [pytest.param(*row, id=id_) for id_, *row in ROWS]
)
def test_a_change_in_place(kind: str, before: Object, after: Object, grade: UndoGrade, field: str) -> None:
    found = update_reversal.grade_update(kind, before, after)
    assert (found.grade, found.field) == (grade, field)


def test_claims_of_more_replicas_stay_unless_the_set_deletes_them() -> None:
    claims: Object = {"volumeClaimTemplates": [{}]}
    before, after = make({"replicas": 1, **claims}, owned={STACK: REPLICAS}), make({"replicas": 2, **claims})
    assert update_reversal.grade_update(SET, before, after) == reversal.CLAIMS_STAY
    after["spec"] |= SCALED
    assert update_reversal.grade_update(SET, before, after) == reversal.COMPLETE


def test_work_that_runs_once_runs_again_when_its_definition_changes() -> None:
    found = update_reversal.grade_update("Backup.example.com", make({"a": 1}), make({"a": 2}), is_once=True)
    assert (found.grade, found.field) == (ONE_WAY, "completion")


@pytest.mark.parametrize("kind", [CLAIM, SET, "Service", "ConfigMap", "Secret", "Pod", "Job.batch", DEFINITION])
@pytest.mark.parametrize("spec", [None, 3, "x", [], {"replicas": "x", "ports": 3, "versions": [3, {}], "suspend": []}])
def test_objects_of_any_shape_are_graded(kind: str, spec: Any) -> None:
    def wrap(each: Any) -> Object:
        return {"metadata": {"managedFields": 3, "labels": spec}, "spec": each, "status": spec}

    for before, after in ((spec, {}), ({}, spec)):
        assert update_reversal.grade_update(kind, wrap(before), wrap(after)).grade in UndoGrade
