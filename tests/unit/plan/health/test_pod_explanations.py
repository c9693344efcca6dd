"""The sentence that explains a failed workload from its Pods."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.health import object_reports


def make_pod(name: str, created: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": created}, "status": status}


def make_waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}


def test_the_newest_pod_with_a_reason_explains_its_workload() -> None:
    old = make_pod("web-1", "2026-01-01T00:00:00Z", containerStatuses=[make_waiting("ErrImagePull", "not\x1b found")])
    new = make_pod("web-2", "2026-01-02T00:00:00Z", containerStatuses=[make_waiting("ContainerCreating")])
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    pending = make_pod("web-3", "2026-01-03T00:00:00Z", conditions=[unscheduled])

    assert object_reports.explain_pods([old, new]) == "container main of pod/web-1: ErrImagePull: not found"
    assert object_reports.explain_pods([new]) == ""
    assert object_reports.explain_pods([old, pending]) == "pod/web-3 cannot be scheduled: 0/3 nodes are available"


@pytest.mark.parametrize(
    "status", [{"containerStatuses": 5}, {"containerStatuses": [{"state": 1}]}, {"conditions": [1]}]
)
def test_a_pod_of_any_shape_says_nothing(status: Any) -> None:
    assert object_reports.explain_pods([make_pod("web-1", "", **status)]) == ""
