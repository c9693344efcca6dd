"""Snapshots of a Stack: statuses that count, claims they find, and claims that cannot be restored."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection
from typing import Any

import pytest

from hearth.engine import stack_snapshots, stateful_set_claims
from hearth.engine.cluster_objects import StackSnapshotObject
from hearth.engine.definition import snapshot_restore
from hearth.engine.stateful_set_claims import Misses, TooManyMissing
from hearth.model import child, limits
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.snapshot_decision import SnapshotVolume
from support.server import api_errors
from support.units.blueprints import HASHER

# ---------------------------------------------------------------- statuses that count

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
    return dataclasses.replace(SNAPSHOT, status=status, **more)


def test_a_signed_status_counts() -> None:
    found = stack_snapshots.parse_snapshot(with_status(stack_snapshots.sign_status(SNAPSHOT, STATUS, HASHER)), HASHER)
    assert (found.is_tampered, found.memory.revision, found.memory.stack_uid) == (False, 3, "u1")


@pytest.mark.parametrize("status", [{}, {"observedGeneration": -1}])
def test_a_new_snapshot_is_not_tampered_with(status: Object) -> None:
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
    signed = {**stack_snapshots.sign_status(SNAPSHOT, STATUS, HASHER), **change}
    found = stack_snapshots.parse_snapshot(with_status(signed), HASHER)
    assert (found.is_tampered, found.memory.is_bound, found.memory.volumes) == (True, False, ())


@pytest.mark.parametrize(
    "other", [{"uid": "s2"}, {"name": "after"}, {"namespace": "other"}, {"spec": {"stackName": "elsewhere"}}]
)
def test_a_copied_status_does_not_count(other: dict[str, Any]) -> None:
    signed = stack_snapshots.sign_status(SNAPSHOT, STATUS, HASHER)
    assert stack_snapshots.parse_snapshot(with_status(signed, **other), HASHER).is_tampered


# ---------------------------------------------------------------- claims of a StatefulSet in a snapshot

CLAIM = Kind(group="", version="v1", name="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)
PREFIX = "data-db-"


class Claims:
    """A cluster that has the claims of these ordinals."""

    def __init__(self, ordinals: Collection[int]) -> None:
        self.ordinals = ordinals
        self.reads = 0

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """As the port says."""
        self.reads += 1
        if int(ref.name.removeprefix(PREFIX)) not in self.ordinals:
            raise api_errors.not_found(kind, ref.name)
        return {"metadata": {"name": ref.name, "namespace": ref.namespace}}


def find(claims: Any, **spec: Any) -> list[int]:
    """The ordinals of the claims that are found for a StatefulSet."""
    stateful_set = {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}
    found, _foreign = asyncio.run(
        stateful_set_claims.find_claims(claims, stateful_set, "data", kind=CLAIM, misses=Misses())
    )
    return [int(name.removeprefix(PREFIX)) for name in found]


@pytest.mark.parametrize(
    ("ordinals", "spec", "expected"),
    [
        pytest.param({0, 1}, {"replicas": 2}, [0, 1], id="of-all-replicas"),
        pytest.param({0}, {}, [0], id="of-one-replica-by-default"),
        pytest.param({0, 1, 2}, {"replicas": 1}, [0, 1, 2], id="of-replicas-scaled-down"),
        pytest.param({0, 1}, {"replicas": 0}, [0, 1], id="of-all-replicas-scaled-down"),
        pytest.param({0, 9}, {"replicas": 10}, [0, 9], id="with-claims-not-made-yet"),
        pytest.param({0, 3, 8}, {"replicas": 1}, [0, 3, 8], id="behind-a-gap"),
        pytest.param({0, 6}, {"replicas": 1}, [0], id="not-behind-a-gap-of-five"),
        pytest.param({5, 6}, {"replicas": 2, "ordinals": {"start": 5}}, [5, 6], id="from-the-first-ordinal"),
        pytest.param({2, 5, 7}, {"replicas": 1, "ordinals": {"start": 5}}, [5, 7, 2], id="below-the-first-ordinal"),
    ],
)
def test_claims_are_found_by_their_names(ordinals: set[int], spec: dict[str, Any], expected: list[int]) -> None:
    assert find(Claims(ordinals), **spec) == expected


def test_a_search_without_end_ends() -> None:
    claims = Claims(())
    with pytest.raises(TooManyMissing, match=r"reduce spec\.replicas"):
        find(claims, replicas=2**31 - 1, ordinals={"start": 2**31 - 1})
    assert claims.reads == limits.CLAIMS_MISSING + 1


def test_all_templates_share_one_limit() -> None:
    claims, misses = Claims({0}), Misses()
    stateful_set = {"metadata": {"name": "db", "namespace": "default"}, "spec": {"replicas": 300}}

    async def find_all() -> None:
        for _ in range(1000):
            await stateful_set_claims.find_claims(claims, stateful_set, "data", kind=CLAIM, misses=misses)  # type: ignore[arg-type]  # the only part that is used

    with pytest.raises(TooManyMissing):
        asyncio.run(find_all())
    assert claims.reads < limits.CLAIMS_MISSING + 10


def test_a_claim_that_the_set_did_not_make_is_not_found() -> None:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "db"}}}
    stateful_set = {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}
    claims: Any = Claims({0, 1})
    found = asyncio.run(stateful_set_claims.find_claims(claims, stateful_set, "data", kind=CLAIM, misses=Misses()))
    assert found == ([], ["data-db-0", "data-db-1"])


# ---------------------------------------------------------------- why claims of a StatefulSet cannot be restored

RESTORED_VOLUME = SnapshotVolume(
    claim="data-shop-db-0", namespace="n", resource="db", snapshot="before-db-0", is_of_stateful_set=True
)


def make(kind: str, name: str) -> Child:
    """An object of the resource."""
    found = Kind(group="apps", version="v1", name=kind, plural=f"{kind.lower()}s", namespaced=True)
    return child.parse_child(
        {"metadata": {"name": name, "namespace": "n", "uid": "u1", "resourceVersion": "1"}}, kind=found, paths=[]
    )


@pytest.mark.parametrize("found", [None, make("Deployment", "shop-db")], ids=["nothing", "another kind"])
def test_a_rollback_returns_a_stateful_set_that_is_gone(found: Child | None) -> None:
    assert "request toRevision: 3 first" in snapshot_restore.explain_missing_set(RESTORED_VOLUME, found, revision=3)


def test_no_rollback_is_advised_that_gives_another_name() -> None:
    why = snapshot_restore.explain_missing_set(RESTORED_VOLUME, make("StatefulSet", "shop-db-abcdefgh"), revision=3)
    assert "toRevision" not in why
    assert "statefulset/shop-db-abcdefgh replaced it" in why
    assert "volumesnapshot/before-db-0" in why


def test_the_stateful_set_of_the_claim_is_restored() -> None:
    assert not snapshot_restore.explain_missing_set(RESTORED_VOLUME, make("StatefulSet", "shop-db"), revision=3)
