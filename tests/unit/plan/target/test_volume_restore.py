"""A restore of volumes: the claims that get content, the resources that wait, and steps that depend only on the live
claims.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model import names
from hearth.model.kinds import Kind
from hearth.plan.target import volume_restore
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.plan.target.volume_restore import ClaimStep
from hearth.template.blueprint import Blueprint, Replacement, RestoredVolume
from support.units.blueprints import make_blueprint

REQUEST = RollbackRequest(
    to_revision=1,
    spec_hash="x",
    revision=1,
    snapshot="before",
    token="t1",
    claims=(RestoredClaim(resource="data", snapshot="before-data"),),
)
CLAIM = Kind(group="", version="v1", name="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)


def restore(blueprint: Blueprint) -> Blueprint:
    """The same with content."""
    return volume_restore.restore_volumes(blueprint, REQUEST)


def test_a_claim_gets_its_content_and_may_be_replaced() -> None:
    found = restore(make_blueprint({"data": []}, kind=CLAIM)).resources["data"]
    assert found.restored == RestoredVolume(token="t1", snapshot="before-data")
    assert found.replacement is Replacement.CREATE_FIRST
    assert volume_restore.RESTORED in found.replace_on


def test_a_claim_with_a_name_of_its_own_is_deleted_first() -> None:
    made = make_blueprint({"data": []}, kind=CLAIM)
    pinned = dataclasses.replace(made.resources["data"], is_name_pinned=True)
    found = restore(dataclasses.replace(made, resources={"data": pinned}))
    assert found.resources["data"].replacement is Replacement.DELETE_FIRST


def test_all_that_a_claim_does_not_require_waits_for_it() -> None:
    made = make_blueprint({"web": [], "settings": [], "data": ["settings"], "other": ["web"]}, kind=CLAIM)
    found = restore(made).resources
    assert list(found) == ["settings", "data", "web", "other"]
    assert [each.index for each in found.values()] == [0, 1, 2, 3]
    after = {name: each.after for name, each in found.items()}
    assert after == {"settings": (), "data": (), "web": ("data",), "other": ("data",)}
    assert found["data"].dependents == ("web", "other")
    assert found["web"].dependents == ("other",)


def test_a_claim_that_the_revision_does_not_have_is_named() -> None:
    assert volume_restore.find_missing(make_blueprint({"data": []}, kind=CLAIM), REQUEST) == []
    assert volume_restore.find_missing(make_blueprint({"data": []}), REQUEST) == ["data"]
    assert volume_restore.find_missing(make_blueprint({}), REQUEST) == ["data"]


# ---------------------------------------------------------------- the steps that replace a claim

RESTORED = RestoredClaim(resource="db", snapshot="before-x", claim="data-shop-db-0")
CLAIM_REQUEST = RollbackRequest(
    to_revision=1, spec_hash="x", revision=1, snapshot="before", token="t1", claims=(RESTORED,)
)
TEMPLATE = {"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
STATEFUL_SET: dict[str, Any] = {
    "metadata": {"name": "shop-db", "namespace": "default"},
    "spec": {"volumeClaimTemplates": [TEMPLATE], "selector": {"matchLabels": {"app": "db"}}},
}


def make(*, restore: str = "t1", source: str = "before-x", **metadata: Any) -> dict[str, Any]:
    """A live claim."""
    annotations = {names.ANNOTATION_RESTORED: restore} if restore else {}
    return {"metadata": {"annotations": annotations, **metadata}, "spec": {"dataSource": {"name": source}}}


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (None, ClaimStep.CREATE),
        ({"metadata": {}}, ClaimStep.DELETE),
        (make(restore="t0"), ClaimStep.DELETE),
        (make(source="another"), ClaimStep.DELETE),
        (make(), ClaimStep.DONE),
        (make(deletionTimestamp="2026-01-01T00:00:00Z"), ClaimStep.WAIT),
    ],
)
def test_each_state_has_one_next_step(live: dict[str, Any] | None, expected: ClaimStep) -> None:
    assert volume_restore.find_claim_step(RESTORED, CLAIM_REQUEST, live) is expected


@pytest.mark.parametrize("name", ["data-other-0", "logs-shop-db-0", "data-shop-db-x", "data-shop-db-", "data"])
def test_only_its_own_claims_have_a_template(name: str) -> None:
    assert volume_restore.find_claim_template(STATEFUL_SET, RESTORED.claim) is TEMPLATE
    assert volume_restore.find_claim_template(STATEFUL_SET, name) is None


@pytest.mark.parametrize(
    ("least", "size"), [("", "1Gi"), ("512Mi", "1Gi"), ("1073741824", "1Gi"), ("2Gi", "2Gi"), ("nonsense", "1Gi")]
)
def test_a_claim_is_made_as_its_set_would(least: str, size: str) -> None:
    made = volume_restore.make_claim(RESTORED, CLAIM_REQUEST, stateful_set=STATEFUL_SET, template=TEMPLATE, least=least)
    assert made["metadata"]["labels"] == {"a": "b", "app": "db"}
    assert made["spec"]["resources"]["requests"]["storage"] == size
    assert made["spec"]["dataSource"]["name"] == "before-x"
    live = {"metadata": made["metadata"], "spec": made["spec"]}
    assert volume_restore.find_claim_step(RESTORED, CLAIM_REQUEST, live) is ClaimStep.DONE


OWN = {"app": "db"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"labels": OWN}, ""),
        ({"labels": OWN, "ownerReferences": [{"kind": "StatefulSet", "name": "shop-db", "uid": "u1"}]}, ""),
        ({"labels": OWN, "ownerReferences": [{"kind": "Pod", "name": "shop-db-3", "uid": "p"}]}, ""),
        ({}, "does not have the labels of the selector of statefulset/shop-db"),
        ({"labels": {"app": "other"}}, "does not have the labels of the selector of statefulset/shop-db"),
        ({"labels": {**OWN, names.LABEL_STACK_UID: "x", names.LABEL_STACK: "other"}}, "belongs to Stack other"),
        (
            {"labels": OWN, "ownerReferences": [{"kind": "StatefulSet", "name": "shop-db", "uid": "earlier"}]},
            "belongs to statefulset/shop-db",
        ),
        ({"labels": OWN, "ownerReferences": [{"kind": "Pod", "name": "shop-dbx-0"}]}, "belongs to pod/shop-dbx-0"),
    ],
)
def test_a_claim_of_another_owner_is_named(metadata: dict[str, Any], expected: str) -> None:
    stateful_set = {**STATEFUL_SET, "metadata": {**STATEFUL_SET["metadata"], "uid": "u1"}}
    assert volume_restore.explain_foreign_claim({"metadata": metadata}, stateful_set) == expected
