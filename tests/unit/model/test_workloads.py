"""Workloads whose Pods must not run next to Pods of an earlier object."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import workloads


def mounting(claim: Any) -> dict[str, Any]:
    """The spec of a Pod that mounts a claim."""
    return {"containers": [{"name": "main"}], "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]}


POD: dict[str, Any] = {"containers": [{"name": "main"}], "volumes": [{"name": "d", "emptyDir": {}}]}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        pytest.param("v1/Pod", mounting("data"), "it mounts claim data", id="pod"),
        pytest.param("apps/v1/Deployment", {"template": {"spec": mounting("data")}}, "it mounts claim data", id="deployment"),
        pytest.param(
            "batch/v1/CronJob", {"jobTemplate": {"spec": {"template": {"spec": mounting("data")}}}}, "it mounts claim data", id="cron-job"
        ),
        pytest.param("example.com/v1/Database", {"pod": mounting("data")}, "it mounts claim data", id="custom-kind"),
        pytest.param("apps/v1/Deployment", {"template": {"spec": mounting(None)}}, "it mounts a claim", id="name-not-known-yet"),
        pytest.param("apps/v1/Deployment", {"strategy": {"type": "Recreate"}}, "its strategy is Recreate", id="recreate"),
        pytest.param("apps/v1/Deployment", {"strategy": {"type": "RollingUpdate"}, "template": {"spec": POD}}, "", id="no-claim"),
        pytest.param("apps/v1/Deployment", {"strategy": "Recreate"}, "", id="mistaken-strategy"),
        pytest.param("hearth.dev/v1alpha1/Stack", {"template": mounting("shared")}, "it mounts claim shared", id="nested-given-a-claim"),
        pytest.param("hearth.dev/v1alpha1/Stack", {"template": mounting("${params.claim}")}, "it mounts a claim", id="nested-parameter"),
        pytest.param("hearth.dev/v1alpha1/Stack", {"template": mounting("${data.metadata.name}")}, "", id="nested-with-its-own-claim"),
    ],
)  # fmt: skip
def test_pods_that_mount_a_claim_or_are_recreated_stop_first(kind: str, spec: dict[str, Any], expected: str) -> None:
    api_version, _, name = kind.rpartition("/")
    assert workloads.find_stop_reason({"apiVersion": api_version, "kind": name, "spec": spec}) == expected
