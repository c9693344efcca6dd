"""Whose an object is, in the words of a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names
from hearth.plan.ownership import adoption

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
    assert adoption.describe_owner({"metadata": metadata}, is_proven=True) == expected


def test_what_proves_nothing_is_said_to_belong_to_no_stack() -> None:
    """Another client copied the annotations of some child onto it; it may well be this Stack that applied it."""
    metadata = {"managedFields": [APPLIED], "annotations": {names.ANNOTATION_IDENTITY: "u/"}}
    found = adoption.describe_owner({"metadata": metadata}, is_proven=False)
    assert found == (
        "was applied by the Stack prod/shop, but its labels and annotations hearth.dev/… were changed since"
    )
