"""Special rules of workloads."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.child_fields import project_fields
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.health.health_rules import HealthState

STATEFUL_SET = Kind(group="apps", version="v1", name="StatefulSet", plural="statefulsets", namespaced=True)


def make_set(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """A StatefulSet of three pods whose controller has observed it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "uid": "1", "generation": 2},
        "spec": {"replicas": 3, **(spec or {})},
        "status": {"observedGeneration": 2, "replicas": 3, "currentRevision": "a", "updateRevision": "a", **status},
    }


@pytest.mark.parametrize(
    ("found", "pod"),
    [
        pytest.param(make_set(readyReplicas=2, currentReplicas=2, updatedReplicas=2), "db-2", id="changed back"),
        pytest.param(
            make_set(readyReplicas=2, currentReplicas=1, updatedReplicas=1),
            "db-1",
            id="changed back after one that started",
        ),
        pytest.param(
            make_set(readyReplicas=2, currentReplicas=2, updatedReplicas=0, updateRevision="c"),
            "db-2",
            id="changed again",
        ),
        pytest.param(
            make_set({"ordinals": {"start": 5}}, readyReplicas=2, currentReplicas=2, updatedReplicas=2),
            "db-7",
            id="with other ordinals",
        ),
        pytest.param(
            make_set(readyReplicas=2, currentReplicas=2, updatedReplicas=1, updateRevision="b"),
            "",
            id="while it updates",
        ),
        pytest.param(make_set(readyReplicas=2, currentReplicas=3, updatedReplicas=3), "", id="a pod restarts"),
        pytest.param(
            make_set({"podManagementPolicy": "Parallel"}, readyReplicas=2, currentReplicas=2, updatedReplicas=2),
            "",
            id="pods do not wait for each other",
        ),
        pytest.param(
            make_set(replicas=2, readyReplicas=2, currentReplicas=2, updatedReplicas=2), "", id="it is created"
        ),
    ],
)
def test_a_pod_that_its_controller_does_not_replace_is_named(found: dict[str, Any], pod: str) -> None:
    paths = health_rules.DEFAULT_RULES.paths(STATEFUL_SET)
    for fields in (found, project_fields(found, kind=STATEFUL_SET, paths=paths)):
        result = health_rules.assess(fields, kind=STATEFUL_SET)
        assert result.state is HealthState.PROGRESSING
        assert (f"kubectl delete pod {pod}" in result.message) == bool(pod)
        assert (result.reason == "PodNotReplaced") == bool(pod)
