"""Whose an object is, in the words of a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names
from hearth.plan.ownership import object_owner

APPLIED = {"manager": "hearth:prod/shop"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (
            {"managedFields": [{"manager": "helm"}, APPLIED], "annotations": {names.ANNOTATION_IDENTITY: "u/"}},
            "belongs to the Stack prod/shop",
        ),
        (
            {"managedFields": [{"manager": "helm"}, APPLIED]},
            "is not managed by any Stack (released by the Stack prod/shop)",
        ),
        ({"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1"}]}, "belongs to replicaset/web-1"),
        ({"annotations": {"meta.helm.sh/release-name": "db"}}, "belongs to the Helm release db"),
        (
            {"labels": {"app.kubernetes.io/managed-by": "argo"}},
            "belongs to 'argo' (its label app.kubernetes.io/managed-by)",
        ),
        (
            {"managedFields": [{"manager": "kubectl-create"}]},
            "is not managed by any Stack (written by 'kubectl-create')",
        ),
        ({}, "is not managed by any Stack"),
    ],
    ids=[
        "another stack",
        "released by one",
        "a controller",
        "helm",
        "a label",
        "a person with kubectl",
        "nothing known",
    ],
)
def test_the_best_that_is_known_is_named(metadata: dict[str, Any], expected: str) -> None:
    """The most telling sign first."""
    assert object_owner.describe_owner({"metadata": metadata}) == expected
