"""The blueprint of a restore: which claims get content, and what waits for them."""

from __future__ import annotations

import dataclasses

from hearth.model.kinds import Kind
from hearth.plan.target import volume_restore
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.template.blueprint import Blueprint, Replacement, RestoredVolume
from support.units.blueprints import make_blueprint

REQUEST = RollbackRequest(
    to_revision=1,
    spec_hash="x",
    revision=1,
    snapshot="before",
    token="t1",
    claims=(RestoredClaim(resource="data", snapshot="before-data"),),
)
CLAIM = Kind(group="", version="v1", name="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)


def restore(blueprint: Blueprint) -> Blueprint:
    """The same with content."""
    return volume_restore.restore_volumes(blueprint, REQUEST)


def test_a_claim_gets_its_content_and_may_be_replaced() -> None:
    """The annotation with the restore decides whether it is."""
    found = restore(make_blueprint({"data": []}, kind=CLAIM)).resources["data"]
    assert found.restored == RestoredVolume(token="t1", snapshot="before-data")
    assert found.replacement is Replacement.CREATE_FIRST
    assert volume_restore.RESTORED in found.replace_on


def test_a_claim_with_a_name_of_its_own_is_deleted_first() -> None:
    """Two objects cannot have one name."""
    made = make_blueprint({"data": []}, kind=CLAIM)
    pinned = dataclasses.replace(made.resources["data"], is_name_pinned=True)
    found = restore(dataclasses.replace(made, resources={"data": pinned}))
    assert found.resources["data"].replacement is Replacement.DELETE_FIRST


def test_all_that_a_claim_does_not_require_waits_for_it() -> None:
    """What it requires comes before it; the order stays a valid one."""
    made = make_blueprint({"web": [], "settings": [], "data": ["settings"], "other": ["web"]}, kind=CLAIM)
    found = restore(made).resources
    assert list(found) == ["settings", "data", "web", "other"]
    assert [each.index for each in found.values()] == [0, 1, 2, 3]
    after = {name: each.after for name, each in found.items()}
    assert after == {"settings": (), "data": (), "web": ("data",), "other": ("data",)}
    assert found["data"].dependents == ("web", "other")
    assert found["web"].dependents == ("other",)


def test_a_claim_that_the_revision_does_not_have_is_named() -> None:
    """Or that is no claim there."""
    assert volume_restore.find_missing(make_blueprint({"data": []}, kind=CLAIM), REQUEST) == []
    assert volume_restore.find_missing(make_blueprint({"data": []}), REQUEST) == ["data"]
    assert volume_restore.find_missing(make_blueprint({}), REQUEST) == ["data"]
