"""The author of a Stack, from its metadata."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.engine import cluster_objects


def entry(manager: str, time: str, *fields: str, **more: Any) -> dict[str, Any]:
    return {"manager": manager, "time": time, "fieldsV1": {f"f:{field}": {} for field in fields}, **more}


FLUX = entry("kustomize-controller", "2026-01-01T00:00:00Z", "spec", "metadata", operation="Apply")


@pytest.mark.parametrize(
    ("managed_fields", "expected"),
    [
        pytest.param([], "", id="nothing is kept"),
        pytest.param([FLUX], "kustomize-controller", id="one"),
        pytest.param([entry("kubectl-edit", "2026-01-02T00:00:00Z", "spec"), FLUX], "kubectl-edit", id="the newest"),
        pytest.param(
            [FLUX, entry("kubectl-label", "2026-01-02T00:00:00Z", "metadata")], "kustomize-controller", id="only labels"
        ),
        pytest.param(
            [FLUX, entry("hearth", "2026-01-02T00:00:00Z", "status", subresource="status")],
            "kustomize-controller",
            id="only the status",
        ),
    ],
)
def test_author(managed_fields: list[dict[str, Any]], expected: str) -> None:
    assert cluster_objects.find_author(managed_fields) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, ""),
        ({"configmanagement.gke.io/token": "abc"}, "abc"),
        ({"configmanagement.gke.io/token": "abc", "hearth.dev/commit": "def"}, "def"),
        ({"configmanagement.gke.io/token": "abc", "hearth.dev/commit": " "}, "abc"),
        ({"hearth.dev/commit": "x" * 5000}, "x" * 256),
    ],
    ids=["not stated", "Config Sync", "ours first", "ours is empty", "no book"],
)
def test_commit(annotations: dict[str, str], expected: str) -> None:
    assert cluster_objects.find_commit(annotations) == expected
