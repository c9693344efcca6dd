"""Server-side apply: created objects, rejections, and response bodies. On the fake and on a real API server."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from contract import bench as benches
from contract.bench import CONFIG_MAP, OURS, PROBE, THEIRS, Bench, Refusal
from hearth.model import field_paths
from hearth.model.child import Child, Object
from support.stories.world import Address
from support.units import lost_fields

RULES_NOT_RUN = ("FieldValueInvalid", "<nil>")
"""The cause that reports that CEL rules were not evaluated, because the object has wrong types."""


def owned(child: Child) -> Object:
    """The fields under `data` in Hearth's `managedFields` entry."""
    assert child.ownership is not None
    fields: Object = orjson.loads(child.ownership.fields).get("f:data", {})
    return fields


def scaled(child: Child) -> bool:
    """Whether a user owns the replica count through its subresource."""
    return child.ownership is not None and child.ownership.is_scaled


async def test_apply_creates(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    assert (child.name, child.resource, child.stack_uid) == ("web", "web", benches.STACK_UID)
    assert (child.is_identified, child.deleting, owned(child)) == (True, False, {"f:a": {}})


async def test_same_apply_changes_nothing(bench: Bench) -> None:
    first = await bench.apply(bench.config(a="1"))
    again = await bench.apply(bench.config(a="1"))
    assert (again.uid, again.resource_version) == (first.uid, first.resource_version)


async def test_version_one_creates_or_is_refused(bench: Bench) -> None:
    manifest = bench.config(metadata={"resourceVersion": "1"}, a="1")
    await bench.apply(manifest, force=False)
    before = await bench.live(manifest)
    found = await benches.refused(bench.apply(manifest, force=False))
    assert (found, await bench.live(manifest)) == (Refusal(409, "Conflict", "configmaps", ()), before)


async def test_version_one_is_refused_even_by_force(bench: Bench) -> None:
    await bench.apply(bench.config(a="1"))
    found = await benches.refused(bench.apply(bench.config(metadata={"resourceVersion": "1"}, a="2")))
    assert found == Refusal(409, "Conflict", "configmaps", ())


async def test_uid_of_nothing_is_a_conflict(bench: Bench) -> None:
    found = await benches.refused(bench.apply(bench.config(metadata={"uid": benches.STACK_UID}, a="1")))
    assert found == Refusal(409, "Conflict", "configmaps", ())


async def test_uid_of_another_is_invalid(bench: Bench) -> None:
    await bench.apply(bench.config(a="1"))
    found = await benches.refused(bench.apply(bench.config(metadata={"uid": benches.STACK_UID}, a="2")))
    # Kubernetes before 1.37 lists the cause twice.
    found = replace(found, causes=tuple(dict.fromkeys(found.causes)))
    assert found == Refusal(422, "Invalid", "ConfigMap", (("FieldValueInvalid", "metadata.uid"),))


async def test_right_uid_is_fine(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    changed = await bench.apply(bench.config(metadata={"uid": child.uid}, a="2"))
    assert changed.resource_version > child.resource_version


async def test_field_of_others_is_a_conflict(bench: Bench) -> None:
    await bench.apply(bench.config(a="1", b="1"), manager=THEIRS)
    found = await benches.refused(bench.apply(bench.config(a="2", b="2"), force=False))
    assert found == Refusal(
        409, "Conflict", None, (("FieldManagerConflict", ".data.a"), ("FieldManagerConflict", ".data.b"))
    )


async def test_equal_field_of_others_is_shared(bench: Bench) -> None:
    await bench.apply(bench.config(a="1"), manager=THEIRS)
    child = await bench.apply(bench.config(a="1"), force=False)
    assert owned(child) == {"f:a": {}}


async def test_force_takes_the_field(bench: Bench) -> None:
    await bench.apply(bench.config(a="1", b="1"), manager=THEIRS)
    await bench.apply(bench.config(a="2"))
    theirs = await bench.apply(bench.config(b="1"), manager=THEIRS, force=False)
    live = await bench.live(bench.config())
    assert (live["data"], theirs.name) == ({"a": "2", "b": "1"}, "web")


async def test_field_no_longer_stated_goes(bench: Bench) -> None:
    manifest = bench.config(a="1", b="1")
    await bench.apply(manifest)
    await bench.user.patch(Address.of(manifest), {"data": {"c": "1"}})
    child = await bench.apply(bench.config(a="1"))
    assert ((await bench.live(manifest))["data"], owned(child)) == ({"a": "1", "c": "1"}, {"f:a": {}})


async def test_field_that_two_state_stays(bench: Bench) -> None:
    await bench.apply(bench.config(a="1", b="1"))
    await bench.apply(bench.config(b="1"), manager=THEIRS, force=False)
    await bench.apply(bench.config(a="1"))
    assert (await bench.live(bench.config()))["data"] == {"a": "1", "b": "1"}


async def test_patch_by_others_takes_the_field(bench: Bench) -> None:
    manifest = bench.config(a="1", b="1")
    await bench.apply(manifest)
    await bench.follow(CONFIG_MAP, ("data",))
    await bench.user.patch(Address.of(manifest), {"data": {"a": "2", "c": "1"}})
    await bench.until(lambda: (child := bench.cached("web")) is not None and child.fields["data"]["a"] == "2")
    child = bench.cached("web")
    assert child is not None
    assert owned(child) == {"f:b": {}}


async def test_removal_by_others_takes_the_field(bench: Bench) -> None:
    manifest = bench.config(a="1", b="1")
    await bench.apply(manifest)
    await bench.follow(CONFIG_MAP, ("data",))
    await bench.user.patch(Address.of(manifest), {"data": {"a": None}})
    await bench.until(lambda: (child := bench.cached("web")) is not None and "a" not in child.fields["data"])
    child = bench.cached("web")
    assert child is not None
    assert owned(child) == {"f:b": {}}


async def test_taking_a_field_back_restores_the_entry(bench: Bench) -> None:
    first = await bench.apply(bench.config(a="1", b="1"))
    await bench.user.patch(Address.of(bench.config()), {"data": {"a": "2"}})
    repaired = await bench.apply(bench.config(a="1", b="1"))
    assert (repaired.ownership, repaired.uid) == (first.ownership, first.uid)


async def test_scaling_takes_the_replica_count(bench: Bench) -> None:
    manifest = bench.probe(value=1, replicas=2)
    child = await bench.apply(manifest)
    assert (scaled(child), lost_fields.find_first_lost(manifest, child.ownership)) == (False, None)
    await bench.user.scale(Address.of(manifest), 5, manager=THEIRS)
    child = await bench.apply({**manifest, "spec": {"value": 1}})
    assert (scaled(child), lost_fields.find_first_lost(manifest, child.ownership)) == (True, "spec.replicas")
    live = await bench.live(manifest)
    assert live["spec"] == {"value": 1, "replicas": 5}
    [entry] = [each for each in live["metadata"]["managedFields"] if each.get("subresource") == "scale"]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == (
        THEIRS,
        "Update",
        {"f:spec": {"f:replicas": {}}},
    )
    await bench.user.patch(Address.of(manifest), {"spec": {"replicas": 6}})
    child = await bench.apply({**manifest, "spec": {"value": 1}})
    assert (scaled(child), lost_fields.find_first_lost(manifest, child.ownership)) == (False, "spec.replicas")


async def test_scaling_to_none_hides_who_scales_from_then_on(bench: Bench) -> None:
    manifest = bench.probe(value=1, replicas=2)
    await bench.apply(manifest)
    for replicas in (5, 0, 3):
        await bench.user.scale(Address.of(manifest), replicas, manager=THEIRS)
        child = await bench.apply({**manifest, "spec": {"value": 1}})
        assert (scaled(child), lost_fields.find_first_lost(manifest, child.ownership)) == (True, "spec.replicas")
        live = await bench.live(manifest)
        entries = [each for each in live["metadata"]["managedFields"] if each.get("subresource") == "scale"]
        assert (live["spec"]["replicas"], len(entries)) == (replicas, int(replicas == 5))
    child = await bench.apply(manifest)
    assert (scaled(child), lost_fields.find_first_lost(manifest, child.ownership)) == (False, None)
    await bench.user.scale(Address.of(manifest), 0, manager=THEIRS)
    await bench.user.patch(Address.of(manifest), {"spec": {"replicas": 6}})
    child = await bench.apply({**manifest, "spec": {"value": 1}})
    assert (scaled(child), lost_fields.find_first_lost(manifest, child.ownership)) == (False, "spec.replicas")


async def test_taking_the_replica_count_back(bench: Bench) -> None:
    manifest = bench.probe(value=1, replicas=2)
    await bench.apply(manifest)
    await bench.user.scale(Address.of(manifest), 5, manager=THEIRS)
    child = await bench.apply(manifest)
    assert (scaled(child), lost_fields.find_first_lost(manifest, child.ownership)) == (False, None)


async def test_what_others_took_outlives_an_apply_without_it(bench: Bench) -> None:
    manifest = bench.config(a="1", b="2")
    await bench.apply(manifest)
    await bench.user.patch(Address.of(manifest), {"data": {"a": "theirs"}})
    await bench.apply(field_paths.without(manifest, [("data", "a"), ("data", "b")]))
    assert (await bench.live(manifest))["data"] == {"a": "theirs"}


async def test_generation_follows_the_spec_alone(bench: Bench) -> None:
    manifest = bench.probe(value=1)
    await bench.apply(manifest)
    await bench.user.patch(Address.of(manifest), {"metadata": {"labels": {"x": "y"}}})
    await bench.user.patch_status(Address.of(manifest), {"ready": True})
    still = (await bench.live(manifest))["metadata"]["generation"]
    await bench.apply(bench.probe(value=2))
    assert (still, (await bench.live(manifest))["metadata"]["generation"]) == (1, 2)


async def test_last_key_of_a_map_becomes_null(bench: Bench) -> None:
    await bench.apply(bench.probe(value=1))
    found = await benches.refused(bench.apply(bench.probe()))
    assert found == Refusal(422, "Invalid", "Probe", (("FieldValueTypeInvalid", "spec"), RULES_NOT_RUN))


async def test_namespace_that_is_missing(bench: Bench) -> None:
    """The response is a 404 about the namespace."""
    manifest = bench.config(metadata={"namespace": "no-such-place"}, a="1")
    assert await benches.refused(bench.apply(manifest)) == Refusal(404, "NotFound", "namespaces", ())


async def test_kind_that_is_not_served(bench: Bench) -> None:
    kind = replace(PROBE, name="Ghost", plural="ghosts", group="nowhere.example.com")
    manifest = bench.manifest(kind, "web", spec={})
    found = await benches.refused(bench.cluster.apply(manifest, kind=kind, manager=OURS, force=True))
    assert found == Refusal(404, None, None, ())


@pytest.mark.parametrize(
    ("spec", "by_apply", "by_dry_run"),
    [
        pytest.param(
            {"readyAfter": "soon"},
            Refusal(500, None, None, ()),
            Refusal(422, "Invalid", "Probe", (("FieldValueTypeInvalid", "spec.readyAfter"), RULES_NOT_RUN)),
            id="a wrong type",
        ),
        pytest.param(
            {"nonsense": 1},
            Refusal(500, None, None, ()),
            Refusal(400, "BadRequest", None, ()),
            id="a field that the kind does not have",
        ),
        pytest.param(
            {"readyAfter": -1},
            Refusal(422, "Invalid", "Probe", (("FieldValueInvalid", "spec.readyAfter"),)),
            Refusal(422, "Invalid", "Probe", (("FieldValueInvalid", "spec.readyAfter"),)),
            id="a value that is out of bounds",
        ),
    ],
)
async def test_mistakes_in_a_manifest(bench: Bench, spec: Object, by_apply: Refusal, by_dry_run: Refusal) -> None:
    """An apply may hide mistakes behind a 500; a dry-run create reports them."""
    manifest = bench.probe(**spec)
    assert await benches.refused(bench.apply(manifest)) == by_apply
    assert await benches.refused(bench.cluster.create_dry_run(manifest, kind=PROBE)) == by_dry_run


async def test_immutable_field_of_a_custom_kind(bench: Bench) -> None:
    await bench.apply(bench.probe(replaceValue="x"))
    changed = bench.probe(replaceValue="y")
    found = await benches.refused(bench.apply(changed))
    await bench.cluster.create_dry_run(changed, kind=PROBE)
    assert found == Refusal(422, "Invalid", "Probe", (("FieldValueInvalid", "spec.replaceValue"),))


async def test_immutable_config_map(bench: Bench) -> None:
    await bench.apply({**bench.config(a="1"), "immutable": True})
    found = await benches.refused(bench.apply({**bench.config(a="2"), "immutable": True}))
    assert found == Refusal(422, "Invalid", "ConfigMap", (("FieldValueForbidden", "data"),))


async def test_a_dry_run_of_an_apply_tells_what_it_would_change(bench: Bench) -> None:
    await bench.apply(bench.config(a="1", b="1"))
    await bench.user.patch(Address.of(bench.config()), {"data": {"a": "2"}})
    found = await bench.cluster.apply_dry_run(bench.config(a="1", b="1"), kind=CONFIG_MAP, manager=benches.OURS)
    live = await bench.live(bench.config())
    assert (found["data"], live["data"]) == ({"a": "1", "b": "1"}, {"a": "2", "b": "1"})


async def test_dry_run_makes_nothing(bench: Bench) -> None:
    await bench.cluster.create_dry_run(bench.config(a="1"), kind=CONFIG_MAP)
    assert await bench.cluster.list_children(CONFIG_MAP, benches.STACK_UID) == []


async def test_apply_to_what_is_being_deleted(bench: Bench) -> None:
    manifest = bench.config(metadata=bench.held(), a="1")
    child = await bench.apply(manifest)
    await bench.cluster.delete(child)
    changed = await bench.apply(bench.config(metadata=bench.held(), a="2"))
    assert (changed.uid, changed.deleting) == (child.uid, True)
    await bench.release(manifest)


async def test_namespace_that_is_terminating(bench: Bench) -> None:
    manifest = bench.config(metadata=bench.held(), a="1")
    await bench.apply(manifest)
    await bench.user.delete(Address(api_version="v1", kind="Namespace", namespace="", name=bench.namespace))
    found = await benches.refused(bench.apply(bench.config("other", a="1")))
    assert found == Refusal(403, "Forbidden", "configmaps", (("NamespaceTerminating", "metadata.namespace"),))
    await bench.release(manifest)


async def test_dry_run_of_a_change(bench: Bench) -> None:
    manifest = bench.probe(replaceValue="x", value=1)
    child = await bench.apply(manifest)
    found = await benches.refused(bench.cluster.change_dry_run(child.ref, {"spec": {"replaceValue": "y"}}, kind=PROBE))
    await bench.cluster.change_dry_run(child.ref, {"spec": {"value": 2}}, kind=PROBE)
    assert found == Refusal(422, "Invalid", "Probe", (("FieldValueInvalid", "spec.replaceValue"),))
    assert (await bench.live(manifest))["spec"] == {"replaceValue": "x", "value": 1}


async def test_dry_run_of_a_change_of_nothing(bench: Bench) -> None:
    child = await bench.apply(bench.probe(value=1))
    await bench.user.delete(Address.of(bench.probe()))
    found = await benches.refused(bench.cluster.change_dry_run(child.ref, {"spec": {"value": 2}}, kind=PROBE))
    assert found == Refusal(404, "NotFound", "probes", ())
