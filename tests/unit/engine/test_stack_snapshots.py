"""Which statuses of StackSnapshots count: those that the operator signed for that very snapshot."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.engine import stack_snapshots
from hearth.engine.cluster_objects import StackSnapshotObject
from hearth.model.child import Object
from support.units.blueprints import HASHER

SNAPSHOT = StackSnapshotObject(
    name="before",
    namespace="default",
    uid="s1",
    generation=1,
    resource_version=1,
    created_at="",
    deleting=False,
    finalizers=(),
    spec={"stackName": "shop"},
    status={},
)
VOLUME = {"claim": "c", "namespace": "default", "resource": "data", "snapshot": "v", "ready": True, "snapshotUID": "u"}
STATUS: Object = {"phase": "Complete", "stackUID": "u1", "revision": 3, "volumes": [VOLUME]}


def with_status(status: Any, **more: Any) -> StackSnapshotObject:
    """The snapshot with that status."""
    return dataclasses.replace(SNAPSHOT, status=status, **more)


def test_a_signed_status_counts() -> None:
    """With the revision that it pins."""
    found = stack_snapshots.parse_snapshot(with_status(stack_snapshots.sign_status(SNAPSHOT, STATUS, HASHER)), HASHER)
    assert (found.is_tampered, found.memory.revision, found.memory.stack_uid) == (False, 3, "u1")


@pytest.mark.parametrize("status", [{}, {"observedGeneration": -1}])
def test_a_new_snapshot_is_not_tampered_with(status: Object) -> None:
    """What the API server sets counts for nothing."""
    found = stack_snapshots.parse_snapshot(with_status(status), HASHER)
    assert (found.is_tampered, found.memory.is_bound) == (False, False)


@pytest.mark.parametrize(
    "change",
    [
        {"revision": 4},
        {"stackUID": "u2"},
        {"phase": "Failed"},
        {"serviceAccountName": "admin"},
        {"volumes": [{**VOLUME, "snapshot": "other"}]},
        {"volumes": []},
        {"warnings": ["x"]},
        {"signature": "k:forged"},
        {"signature": 7},
        {"volumes": "text"},
    ],
)
def test_a_changed_status_does_not_count(change: Object) -> None:
    """It pins nothing, and names nothing to delete."""
    signed = {**stack_snapshots.sign_status(SNAPSHOT, STATUS, HASHER), **change}
    found = stack_snapshots.parse_snapshot(with_status(signed), HASHER)
    assert (found.is_tampered, found.memory.is_bound, found.memory.volumes) == (True, False, ())


@pytest.mark.parametrize(
    "other", [{"uid": "s2"}, {"name": "after"}, {"namespace": "other"}, {"spec": {"stackName": "elsewhere"}}]
)
def test_a_copied_status_does_not_count(other: dict[str, Any]) -> None:
    """The signature is for one snapshot of one Stack."""
    signed = stack_snapshots.sign_status(SNAPSHOT, STATUS, HASHER)
    assert stack_snapshots.parse_snapshot(with_status(signed, **other), HASHER).is_tampered
