"""Whether a value equals the last applied one: decided by a record that reveals nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hearth.model import field_paths
from hearth.model.child import Object
from hearth.model.field_paths import ElementPath
from hearth.plan.ownership import applied_fields
from hearth.plan.ownership.applied_fields import AppliedFields
from hearth.plan.ownership.keyed_hash import KeyedHasher

KEY = KeyedHasher(b"a key for tests, long enough")
MANIFEST: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"tier": "front"}},
    "spec": {
        "replicas": 2,
        "template": {"spec": {"containers": [{"name": "web", "image": "a", "args": ["-v"]}, {"name": "log", "image": "b"}]}},
    },
}  # fmt: skip
CONTAINERS: ElementPath = ("spec", "template", "spec", "containers")


def make(
    manifest: Object = MANIFEST, *, owner: str = "uid/web", hasher: KeyedHasher = KEY, **options: Any
) -> AppliedFields:
    """The fields that a manifest sets; others may keep all of them."""
    found = applied_fields.make_applied_fields(
        manifest, **{"whole": True, "ignored": (), **options}, owner=owner, hashes=hasher
    )
    assert found is not None
    return found


def changed(place: ElementPath, value: Any) -> Object:
    """The manifest with another value at a place."""
    other = copy.deepcopy(MANIFEST)
    field_paths.read(other, place[:-1])[place[-1]] = value
    return other


def test_without_anything_to_leave_there_is_no_record() -> None:
    assert applied_fields.make_applied_fields({"kind": "ConfigMap", "data": {"a": "b"}}, whole=False, ignored=(), owner="x", hashes=KEY) is None  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("spec", "replicas"), 3),
        (("metadata", "labels", "tier"), "back"),
        ((*CONTAINERS, 0, "image"), "c"),
        ((*CONTAINERS, 0, "args"), ["-q"]),
    ],
    ids=str,
)
def test_a_changed_value_is_known_and_nothing_else_is(place: ElementPath, value: Any) -> None:
    record, after = make().record, make(changed(place, value))
    assert not after.is_recorded(place, record)
    others: list[ElementPath] = [
        ("spec", "replicas"),
        ("metadata", "labels", "tier"),
        (*CONTAINERS, 0, "image"),
        (*CONTAINERS, 1),
    ]
    assert all(after.is_recorded(other, record) for other in others if other != place)


def test_items_of_lists_go_by_their_names() -> None:
    turned = changed(CONTAINERS, [{"name": "new", "image": "n"}, *reversed(field_paths.read(MANIFEST, CONTAINERS))])
    record, after = make().record, make(turned)
    assert after.is_recorded((*CONTAINERS, 1), record)
    assert not after.is_recorded((*CONTAINERS, 0), record)
    assert not after.is_recorded(CONTAINERS, record)


def test_only_what_may_stay_is_recorded() -> None:
    assert len(applied_fields.split(make(whole=False).record)) == 1
    pattern = field_paths.parse("spec.template.spec.containers[name=web].image")
    assert pattern is not None
    found = make(whole=False, ignored=(pattern,))
    assert len(applied_fields.split(found.record)) == 2
    assert found.is_tolerable((*CONTAINERS, 0, "image"), is_scaled=False)
    assert not found.is_tolerable((*CONTAINERS, 1, "image"), is_scaled=False)
    assert (
        found.is_tolerable(applied_fields.REPLICAS, is_scaled=True),
        found.is_tolerable(applied_fields.REPLICAS, is_scaled=False),
    ) == (
        True,
        False,
    )


def test_equal_values_do_not_show() -> None:
    assert not applied_fields.split(make().record) & applied_fields.split(make(owner="uid/other").record)
    assert not applied_fields.split(make().record) & applied_fields.split(
        make(hasher=KeyedHasher(b"another key, long enough")).record
    )
    twice = {"kind": "ConfigMap", "data": {"a": "same", "b": "same"}}
    assert len(applied_fields.split(make(twice).record)) == 2


def test_a_record_is_bounded() -> None:
    huge = {"kind": "ConfigMap", "data": {f"k{number}": "v" for number in range(20_000)}}
    assert len(make(huge).record) < 40_000
