"""The cache's contents and notifications, responses to deletions, and watches for the causes of refusals.

On the fake and on a real API server.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from contract import bench as benches
from contract.bench import CONFIG_MAP, PROBE, STACK_UID, Bench, Refusal
from hearth.kube.watch import retry_trigger_watches
from hearth.model import names
from hearth.model.child import UNPROVEN, Object
from hearth.model.kinds import ObjectRef
from hearth.plan.retry import retry_triggers
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from support.stories.world import Address

QUIET = retry_trigger_watches.INTERVAL + 0.2
"""Seconds."""
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}


async def test_follow_shows_what_is_there(bench: Bench) -> None:
    await bench.user.create(bench.config(a="1"))
    await bench.user.create(bench.config("foreign", metadata={"labels": {}}, a="1"))
    first = bench.cluster.follow(CONFIG_MAP, ())
    await bench.until(lambda: bool(bench.ears.synced))
    assert (first, bench.ears.synced, bench.cluster.follow(CONFIG_MAP, ())) == (False, [CONFIG_MAP], True)
    assert list(bench.cluster.children(STACK_UID)) == ["web"]


async def test_fields_appear_when_they_are_asked_for(bench: Bench) -> None:
    await bench.user.create(bench.config(a="1"))
    await bench.follow(CONFIG_MAP)
    slim = bench.cached("web")
    assert slim is not None
    assert "data" not in slim.fields
    await bench.follow(CONFIG_MAP, ("data", "a"))
    wide = bench.cached("web")
    assert wide is not None
    assert wide.fields["data"] == {"a": "1"}


async def test_own_writes_are_shown_at_once(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP, ("data",))
    child = await bench.apply(bench.config(a="1"))
    assert bench.cached("web") == child
    await bench.settle(CONFIG_MAP)
    assert bench.cached("web") == child


async def test_writes_of_others_are_reported(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP, ("data",))
    await bench.user.create(bench.config(a="1"))
    await bench.until(lambda: (STACK_UID, "web") in bench.ears.children)
    bench.ears.children.clear()
    await bench.user.patch(Address.of(bench.config()), {"data": {"a": "2"}})
    await bench.until(lambda: (STACK_UID, "web") in bench.ears.children)
    child = bench.cached("web")
    assert child is not None
    assert child.fields["data"] == {"a": "2"}


async def test_status_that_is_not_read_is_not_reported(bench: Bench) -> None:
    manifest = bench.probe(value=1)
    await bench.follow(PROBE, ("spec", "value"))
    await bench.apply(manifest)
    await bench.settle(PROBE)
    await bench.user.patch_status(Address.of(manifest), {"ready": True})
    # The later change is reported, so the earlier one would have arrived before it.
    await bench.user.patch(Address.of(manifest), {"spec": {"value": 2}})
    await bench.until(lambda: bool(bench.ears.children))
    child = bench.cached("web")
    assert child is not None
    assert (child.fields["spec"], bench.ears.children) == ({"value": 2}, [(STACK_UID, "web")])


async def test_status_that_is_read_is_reported(bench: Bench) -> None:
    manifest = bench.probe(value=1)
    await bench.follow(PROBE, ("status", "ready"))
    await bench.apply(manifest)
    await bench.settle(PROBE)
    await bench.user.patch_status(Address.of(manifest), {"ready": True})
    await bench.until(lambda: bool(bench.ears.children))
    child = bench.cached("web")
    assert child is not None
    assert child.fields["status"] == {"ready": True}


async def test_default_status_of_a_new_object(bench: Bench) -> None:
    await bench.follow(PROBE, ("status", "conditions"))
    child = await bench.apply(bench.probe(value=1))
    assert [each["reason"] for each in child.fields["status"]["conditions"]] == ["Pending"]


async def test_label_taken_away(bench: Bench) -> None:
    manifest = bench.config(a="1")
    await bench.apply(manifest)
    await bench.follow(CONFIG_MAP)
    await bench.user.patch(Address.of(manifest), {"metadata": {"labels": {names.LABEL_STACK_UID: None}}})
    await bench.until(lambda: bench.cached("web") is None)
    assert bench.ears.children == [(STACK_UID, "web")]
    await bench.apply(manifest)
    assert bench.cached("web") is not None


async def test_label_changed_to_another_resource(bench: Bench) -> None:
    manifest = bench.config(a="1")
    await bench.apply(manifest)
    await bench.follow(CONFIG_MAP)
    await bench.user.patch(Address.of(manifest), {"metadata": {"labels": {names.LABEL_RESOURCE: "other"}}})
    await bench.until(lambda: bool(bench.ears.children))
    child = bench.cached("web")
    assert child is not None
    assert (child.resource, bench.cached("other"), bench.ears.children) == ("web", None, [(STACK_UID, "web")])


async def test_a_copied_signature_proves_nothing(bench: Bench) -> None:
    copied = bench.config()["metadata"]["annotations"]
    await bench.apply(bench.config("copy", metadata={"annotations": copied}, a="1"))
    await bench.follow(CONFIG_MAP)
    assert bench.cached("copy") is None
    (child,) = bench.cluster.children_of(STACK_UID, UNPROVEN)
    assert (child.name, child.is_identified) == ("copy", False)


async def test_delete(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP)
    child = await bench.apply(bench.config(a="1"))
    is_gone = await bench.cluster.delete(child)
    at_once = bench.cached("web")
    await bench.settle(CONFIG_MAP)
    assert (is_gone, at_once, bench.cached("web")) == (True, None, None)


async def test_delete_that_a_finalizer_holds(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP)
    manifest = bench.config(metadata=bench.held(), a="1")
    is_gone = await bench.cluster.delete(await bench.apply(manifest))
    child = bench.cached("web")
    assert child is not None
    assert (is_gone, child.deleting, child.finalizers) == (False, True, ("testing.hearth.dev/hold",))
    await bench.release(manifest)
    await bench.until(lambda: bench.cached("web") is None)


async def test_delete_of_what_is_gone(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    await bench.user.delete(Address.of(bench.config()))
    assert await bench.cluster.delete(child) is True


async def test_delete_spares_the_next_of_that_name(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    await bench.user.delete(Address.of(bench.config()))
    successor = await bench.apply(bench.config(a="2"))
    is_gone = await bench.cluster.delete(child)
    assert (is_gone, (await bench.live(bench.config()))["metadata"]["uid"]) == (True, successor.uid)


async def test_deletion_by_others_is_reported(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP)
    await bench.apply(bench.config(a="1"))
    await bench.settle(CONFIG_MAP)
    await bench.user.delete(Address.of(bench.config()))
    await bench.until(lambda: bench.cached("web") is None)
    assert bench.ears.children == [(STACK_UID, "web")]


async def test_created_again_under_the_same_name(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP)
    first = await bench.apply(bench.config(a="1"))
    await bench.cluster.delete(first)
    second = await bench.apply(bench.config(a="1"))
    await bench.settle(CONFIG_MAP)
    shown = bench.cached("web")
    assert shown is not None
    assert (shown.uid == second.uid, second.uid == first.uid) == (True, False)


async def test_get(bench: Bench) -> None:
    await bench.apply(bench.config(a="1"))
    ref = ObjectRef(group="", kind="ConfigMap", namespace=bench.namespace, name="web")
    assert (await bench.cluster.get(ref, kind=CONFIG_MAP))["data"] == {"a": "1"}


async def test_get_of_nothing(bench: Bench) -> None:
    """The response is a 404 about the object."""
    ref = ObjectRef(group="", kind="ConfigMap", namespace=bench.namespace, name="web")
    found = await benches.refused(bench.cluster.get(ref, kind=CONFIG_MAP))
    assert found == Refusal(404, "NotFound", "configmaps", ())


async def test_list_children(bench: Bench) -> None:
    await bench.apply(bench.config("one", a="1"))
    await bench.apply(bench.config("two", a="1"))
    foreign = {names.LABEL_STACK_UID: "another", names.LABEL_RESOURCE: "three"}
    await bench.user.create(bench.config("three", metadata={"labels": foreign}, a="1"))
    found = await bench.cluster.list_children(CONFIG_MAP, STACK_UID)
    assert sorted(child.resource for child in found) == ["one", "two"]


async def test_list_children_whole(bench: Bench) -> None:
    """Including fields that the cache does not keep."""
    await bench.apply(bench.config("one", a="1"))
    [child] = await bench.cluster.list_children(CONFIG_MAP, STACK_UID, whole=True)
    assert child.fields["data"] == {"a": "1"}


async def test_list_children_brings_the_cache_up_to_date(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP, ("data",))
    gone = await bench.apply(bench.config("gone", a="1"))
    await bench.apply(bench.config("changed", a="1"))
    await bench.settle(CONFIG_MAP)
    bench.ears.children.clear()
    await bench.user.create(bench.config("new", a="1"))
    await bench.user.patch(Address.of(bench.config("changed")), {"data": {"a": "2"}})
    await bench.user.delete(Address.of(bench.config("gone")))
    await bench.cluster.list_children(CONFIG_MAP, STACK_UID)
    data = {name: each.fields["data"] for name in ("new", "changed") if (each := bench.cached(name)) is not None}
    assert data == {"new": {"a": "1"}, "changed": {"a": "2"}}
    assert bench.cached("gone") is None
    again = await bench.apply(bench.config("gone", a="1"))
    await bench.settle(CONFIG_MAP)
    assert (bench.cached("gone"), again.uid == gone.uid) == (again, False)


async def test_list_children_of_a_kind_that_is_not_served(bench: Bench) -> None:
    kind = replace(PROBE, name="Ghost", plural="ghosts", group="nowhere.example.com")
    assert await bench.cluster.list_children(kind, STACK_UID) == []


async def test_kinds(bench: Bench) -> None:
    find = bench.cluster.kinds.find
    assert (find("v1", "ConfigMap"), find("v2", "ConfigMap"), find("v1", "Ghost")) == (CONFIG_MAP, None, None)
    assert find(PROBE.api_version, "Probe") == PROBE


async def test_schemas(bench: Bench) -> None:
    await bench.cluster.load_schemas([PROBE])
    schema = bench.cluster.kinds.find_schema(PROBE)
    assert schema is not None
    assert schema["properties"]["spec"]["properties"]["readyAfter"]["type"] == "integer"
    assert schema["properties"].keys() >= {"apiVersion", "kind", "metadata", "spec", "status"}


async def test_access(bench: Bench) -> None:
    assert await bench.cluster.is_allowed("patch", kind=CONFIG_MAP, namespace=bench.namespace) is True


def quota(bench: Bench) -> Object:
    """A quota in the bench's namespace."""
    return {**QUOTA, "metadata": {"name": "small", "namespace": bench.namespace}}


async def begin(bench: Bench, trigger: RetryTrigger) -> None:
    """Watch it, wait until each watch has reported it, and clear the records."""
    bench.cluster.watch_trigger(trigger)
    await bench.until(lambda: bool(bench.ears.causes))
    while bench.ears.causes:
        bench.ears.causes.clear()
        # Notifications are collected for a second. Only after a second without any is the next one certainly new.
        await asyncio.sleep(QUIET)


async def test_a_quota_that_comes_changes_or_goes_is_reported(bench: Bench) -> None:
    limits = RetryTrigger(type=TriggerType.LIMITS, namespace=bench.namespace)
    await begin(bench, limits)
    made = await bench.user.create(quota(bench))
    await bench.until(lambda: limits in bench.ears.causes)
    bench.ears.causes.clear()
    await bench.user.patch(Address.of(quota(bench)), {"spec": {"hard": {"pods": "2"}}})
    await bench.until(lambda: limits in bench.ears.causes)
    bench.ears.causes.clear()
    await bench.user.delete(Address.of({**made, "apiVersion": "v1", "kind": "ResourceQuota"}))
    await bench.until(lambda: limits in bench.ears.causes)
    assert set(bench.ears.causes) == {limits}


async def test_an_object_in_the_way_is_watched_without_any_label(bench: Bench) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": bench.namespace}}
    await bench.user.create(theirs)
    taken = retry_triggers.object_trigger(
        CONFIG_MAP, ObjectRef(group="", kind="ConfigMap", namespace=bench.namespace, name="theirs")
    )
    await begin(bench, taken)
    await bench.user.delete(Address.of(theirs))
    await bench.until(lambda: taken in bench.ears.causes)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "let go"])
async def test_only_what_is_followed_is_notified_of(bench: Bench, kept: bool) -> None:
    limits, rights = (
        RetryTrigger(type=what, namespace=bench.namespace) for what in (TriggerType.LIMITS, TriggerType.RIGHTS)
    )
    for cause in (rights, limits):
        await begin(bench, cause)
    bench.cluster.retain_triggers({limits, rights} if kept else {rights})
    await bench.user.create(quota(bench))
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    await bench.user.create({**binding, "metadata": {"name": "b", "namespace": bench.namespace}, "roleRef": role})
    await bench.until(lambda: rights in bench.ears.causes)
    assert kept is False or await waited(bench, limits)
    assert kept or limits not in bench.ears.causes


async def waited(bench: Bench, trigger: RetryTrigger) -> bool:
    """True, once it was reported."""
    await bench.until(lambda: trigger in bench.ears.causes)
    return True
