"""How a rollback undoes a creation, a deletion, a replacement, an adoption and a release."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from hearth.plan.resource import reversal
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.template.blueprint import Replacement

REVERSIBLE, RECREATES, ONE_WAY = UndoGrade
JOB, SET, CLAIM, SERVICE = "Job.batch", "StatefulSet.apps", "PersistentVolumeClaim", "Service"
RETENTION = "persistentVolumeClaimRetentionPolicy"


def owned(fields: Object, *, by: str = f"{names.FIELD_MANAGER_PREFIX}prod/shop") -> Object:
    return {"manager": by, "operation": "Apply", "fieldsV1": fields}


def make(spec: Object | None = None, *entries: Object, **more: Any) -> Object:
    return {"metadata": {"managedFields": list(entries)}, "spec": spec or {}, **more}


def claims(size: object = "1Gi", **spec: Any) -> Object:
    storage = {"resources": {"requests": {"storage": size}}}
    return make({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": storage}], **spec})


@pytest.mark.parametrize(
    ("kind", "after", "options", "grade", "field"),
    [
        pytest.param("ConfigMap", make(), {}, REVERSIBLE, "", id="usual"),
        pytest.param(CLAIM, make(), {}, REVERSIBLE, "", id="claim"),
        pytest.param("ConfigMap", make(), {"kept_by": "deletionPolicy"}, ONE_WAY, "deletionPolicy", id="retained"),
        pytest.param(JOB, make({"template": {}}), {}, ONE_WAY, "spec.template", id="job"),
        pytest.param(JOB, make({"suspend": True}), {}, REVERSIBLE, "", id="suspended-job"),
        pytest.param(JOB, make({"parallelism": 0}), {}, REVERSIBLE, "", id="job-without-pods"),
        pytest.param("Pod", make({"restartPolicy": "Never"}), {}, ONE_WAY, "spec", id="pod-that-ends"),
        pytest.param("Pod", make({"restartPolicy": "Always"}), {}, REVERSIBLE, "", id="pod-that-stays"),
        pytest.param("Backup.example.com", make(), {"is_once": True}, ONE_WAY, "completion", id="completion-once"),
        pytest.param("Backup.example.com", make(), {}, REVERSIBLE, "", id="custom"),
    ],
)
def test_a_creation(kind: str, after: Object, options: dict[str, Any], grade: UndoGrade, field: str) -> None:
    found = reversal.grade_creation(kind, after, **options)
    assert (found.grade, found.field) == (grade, field)


@pytest.mark.parametrize(
    ("kind", "before", "grade", "field"),
    [
        pytest.param(CLAIM, make(), ONE_WAY, "", id="claim"),
        pytest.param("Namespace", make(), ONE_WAY, "", id="namespace"),
        pytest.param("CustomResourceDefinition.apiextensions.k8s.io", make(), ONE_WAY, "", id="kind"),
        pytest.param("PersistentVolume", make(), ONE_WAY, "spec.persistentVolumeReclaimPolicy", id="volume"),
        pytest.param(
            "PersistentVolume", make({"persistentVolumeReclaimPolicy": "Retain"}), RECREATES, "", id="retained-volume"
        ),
        pytest.param(SET, claims(), RECREATES, "", id="set-leaves-claims"),
        pytest.param(
            SET, claims(**{RETENTION: {"whenDeleted": "Delete"}}), ONE_WAY, f"spec.{RETENTION}.whenDeleted", id="set-deletes-claims"
        ),
        pytest.param(SET, make({RETENTION: {"whenDeleted": "Delete"}}), RECREATES, "", id="set-without-claims"),
        pytest.param(
            "Secret", make(None, owned({"f:data": {"f:a": {}}}, by="issuer"), data={"a": "MQ=="}), ONE_WAY, "data.a", id="secret-of-others"
        ),
        pytest.param("Secret", make(None, owned({"f:data": {"f:a": {}}}), data={"a": "MQ=="}), RECREATES, "", id="own-secret"),
        pytest.param("Role.rbac.authorization.k8s.io", make(), RECREATES, "", id="usual"),
    ],
)  # fmt: skip
def test_a_deletion(kind: str, before: Object, grade: UndoGrade, field: str) -> None:
    found = reversal.grade_deletion(kind, before)
    assert (found.grade, found.field) == (grade, field)


@pytest.mark.parametrize(
    ("kind", "before", "lost"),
    [
        pytest.param("Role.rbac.authorization.k8s.io", make(), (), id="nothing"),
        pytest.param("Deployment.apps", make(), (reversal.HISTORY,), id="history"),
        pytest.param("Database.example.com", make(), (reversal.CUSTOM_LOSS,), id="custom"),
        pytest.param("Stack.hearth.dev", make(), ("what its objects lose",), id="nested"),
        pytest.param(SERVICE, make({"clusterIP": "10.0.0.1"}), ("its cluster IP",), id="address"),
        pytest.param(SERVICE, make({"clusterIP": "None"}), (), id="headless"),
        pytest.param(
            SERVICE, make({"clusterIP": "10.0.0.1"}, owned({"f:spec": {"f:clusterIP": {}}})), (), id="address-in-the-template"
        ),
        pytest.param(SERVICE, make({"ports": [{"port": 80, "nodePort": 30080}]}), ("its node port",), id="node-port"),
        pytest.param(
            SERVICE,
            make({"ports": [{"port": 80, "nodePort": 30080}]}, owned({"f:spec": {"f:ports": {'k:{"port":80}': {"f:nodePort": {}}}}})),
            (),
            id="node-port-in-the-template",
        ),
        pytest.param(
            "Gateway.gateway.networking.k8s.io", make(status={"addresses": [{"value": "192.0.2.7"}]}),
            (reversal.EXTERNAL, reversal.CUSTOM_LOSS), id="external-address",
        ),
    ],
)  # fmt: skip
def test_what_a_deletion_loses(kind: str, before: Object, lost: tuple[str, ...]) -> None:
    assert reversal.grade_deletion(kind, before).lost == lost


def replaced(kind: str, before: Object, after: Object, replacement: Replacement) -> Undo:
    return reversal.grade_replacement((kind, before), (kind, after), replacement)


@pytest.mark.parametrize(
    ("kind", "before", "after", "replacement", "grade", "field"),
    [
        pytest.param("Service", make(), make(), Replacement.DELETE_FIRST, RECREATES, "", id="usual"),
        pytest.param(JOB, make(), make(), Replacement.CREATE_FIRST, ONE_WAY, "spec.template", id="job"),
        pytest.param(JOB, make(), make({"suspend": True}), Replacement.CREATE_FIRST, RECREATES, "", id="job-then-suspended"),
        pytest.param(CLAIM, make(), make(), Replacement.CREATE_FIRST, ONE_WAY, "", id="claim"),
        pytest.param(SET, claims(), claims("2Gi"), Replacement.DELETE_FIRST, RECREATES, "", id="claims-of-the-same-name"),
        pytest.param(SET, claims(), claims(), Replacement.KEEP_CLAIMS, RECREATES, "", id="kept-claims"),
        pytest.param(
            SET, claims(), claims("2Gi"), Replacement.KEEP_CLAIMS, ONE_WAY,
            "spec.volumeClaimTemplates[data].spec.resources.requests.storage", id="larger-claims",
        ),
        pytest.param(SET, claims("2Gi"), claims("2048Mi"), Replacement.KEEP_CLAIMS, RECREATES, "", id="the-same-size"),
        pytest.param(SET, claims("2Gi"), claims("1Gi"), Replacement.KEEP_CLAIMS, RECREATES, "", id="claims-that-stay-larger"),
        pytest.param(
            SET, claims(), claims("(known after a is ready)"), Replacement.KEEP_CLAIMS, ONE_WAY,
            "spec.volumeClaimTemplates[data].spec.resources.requests.storage", id="unknown-size",
        ),
    ],
)  # fmt: skip
def test_a_replacement(
    kind: str, before: Object, after: Object, replacement: Replacement, grade: UndoGrade, field: str
) -> None:
    found = replaced(kind, before, after, replacement)
    assert (found.grade, found.field) == (grade, field)


def test_claims_of_a_new_set_stay_unless_it_deletes_them() -> None:
    assert reversal.grade_creation(SET, claims()) == reversal.CLAIMS_STAY
    assert reversal.grade_creation(SET, claims(**{RETENTION: {"whenDeleted": "Delete"}})) == reversal.COMPLETE
    assert reversal.grade_creation(SET, make()) == reversal.COMPLETE


def test_new_claims_lack_the_data_of_the_old_ones() -> None:
    found = replaced(SET, claims(), claims(), Replacement.CREATE_FIRST)
    assert found.lost == (reversal.HISTORY, "the data since then, whose claims stay, unused")


@pytest.mark.parametrize(
    ("is_adopted", "adopts", "grade"),
    [
        pytest.param(True, False, REVERSIBLE, id="adopted"),
        pytest.param(False, True, REVERSIBLE, id="adopted-again"),
        pytest.param(False, False, ONE_WAY, id="retained"),
    ],
)
def test_a_release(*, is_adopted: bool, adopts: bool, grade: UndoGrade) -> None:
    assert reversal.grade_release(is_adopted=is_adopted, adopts=adopts).grade is grade


def test_an_adoption_with_the_same_fields_is_reversible_and_one_that_changes_fields_is_not() -> None:
    tracked = {"metadata": {"labels": {names.LABEL_STACK: "shop"}}, "data": {"a": "1"}}
    assert reversal.grade_adoption(make(data={"a": "1"}), {**tracked, "spec": {}}) == reversal.COMPLETE
    applied = {**make(data={"a": "1"}), "metadata": {"annotations": {names.KUBECTL_LAST_APPLIED: "{}"}}}
    assert reversal.grade_adoption(applied, {**tracked, "spec": {}}) == reversal.COMPLETE
    assert reversal.grade_adoption(make(data={"a": "1"}), {**tracked, "spec": {}, "data": {"a": "2"}}).field == "data.a"


def test_the_worst_grade_counts() -> None:
    assert reversal.find_worst([REVERSIBLE, ONE_WAY, RECREATES]) is ONE_WAY
    assert reversal.find_worst([]) is REVERSIBLE
