"""The steps that replace a claim of a StatefulSet, each decided from the live claim alone."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names
from hearth.plan.target import volume_restore
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.plan.target.volume_restore import ClaimStep

CLAIM = RestoredClaim(resource="db", snapshot="before-x", claim="data-shop-db-0")
REQUEST = RollbackRequest(to_revision=1, spec_hash="x", revision=1, snapshot="before", token="t1", claims=(CLAIM,))
TEMPLATE = {"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
STATEFUL_SET = {
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
    """A claim of another restore, or one that only claims to be of this one, is replaced."""
    assert volume_restore.find_claim_step(CLAIM, REQUEST, live) is expected


@pytest.mark.parametrize("name", ["data-other-0", "logs-shop-db-0", "data-shop-db-x", "data-shop-db-", "data"])
def test_only_its_own_claims_have_a_template(name: str) -> None:
    """By all parts of the name."""
    assert volume_restore.find_claim_template(STATEFUL_SET, CLAIM.claim) is TEMPLATE
    assert volume_restore.find_claim_template(STATEFUL_SET, name) is None


@pytest.mark.parametrize(
    ("least", "size"), [("", "1Gi"), ("512Mi", "1Gi"), ("1073741824", "1Gi"), ("2Gi", "2Gi"), ("nonsense", "1Gi")]
)
def test_a_claim_is_made_as_its_set_would(least: str, size: str) -> None:
    """With the data, and at least as large as that needs."""
    made = volume_restore.make_claim(CLAIM, REQUEST, stateful_set=STATEFUL_SET, template=TEMPLATE, least=least)
    assert made["metadata"]["labels"] == {"a": "b", "app": "db"}
    assert made["spec"]["resources"]["requests"]["storage"] == size
    assert made["spec"]["dataSource"]["name"] == "before-x"
    live = {"metadata": made["metadata"], "spec": made["spec"]}
    assert volume_restore.find_claim_step(CLAIM, REQUEST, live) is ClaimStep.DONE


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
    """The name alone does not make it one of the StatefulSet: a restore would delete its data."""
    stateful_set = {**STATEFUL_SET, "metadata": {**STATEFUL_SET["metadata"], "uid": "u1"}}
    assert volume_restore.explain_foreign_claim({"metadata": metadata}, stateful_set) == expected
