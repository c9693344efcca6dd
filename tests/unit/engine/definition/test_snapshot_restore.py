"""Why a snapshot with claims of a StatefulSet cannot be restored, and what leads on."""

from __future__ import annotations

import pytest

from hearth.engine.definition import snapshot_restore
from hearth.model import child
from hearth.model.child import Child
from hearth.model.kinds import Kind
from hearth.plan.snapshot_decision import SnapshotVolume

VOLUME = SnapshotVolume(
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
    """Under its name, so the restore can follow."""
    assert "request toRevision: 3 first" in snapshot_restore.explain_missing_set(VOLUME, found, revision=3)


def test_no_rollback_is_advised_that_gives_another_name() -> None:
    """One that replaced the StatefulSet would itself be replaced under a further name."""
    why = snapshot_restore.explain_missing_set(VOLUME, make("StatefulSet", "shop-db-abcdefgh"), revision=3)
    assert "toRevision" not in why
    assert "statefulset/shop-db-abcdefgh replaced it" in why
    assert "volumesnapshot/before-db-0" in why


def test_the_stateful_set_of_the_claim_is_restored() -> None:
    """It finds its claims by their names."""
    assert not snapshot_restore.explain_missing_set(VOLUME, make("StatefulSet", "shop-db"), revision=3)
