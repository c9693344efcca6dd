"""What refusals hang on is watched alike by the fake cluster and on a real API server."""

from __future__ import annotations

import asyncio

import pytest

from contract.bench import CONFIG_MAP, Bench
from hearth.kube.watch import retry_trigger_watches
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.plan.retry import retry_triggers
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from support.stories.world import Address

QUIET = retry_trigger_watches.INTERVAL + 0.2
"""Seconds."""
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}


def quota(bench: Bench) -> Object:
    """A quota in the bench's namespace."""
    return {**QUOTA, "metadata": {"name": "small", "namespace": bench.namespace}}


async def begin(bench: Bench, trigger: RetryTrigger) -> None:
    """Watch it, until each of its watches has reported that it is there, and forget what was reported."""
    bench.cluster.watch_trigger(trigger)
    await bench.until(lambda: bool(bench.ears.causes))
    while bench.ears.causes:
        bench.ears.causes.clear()
        # Notices are gathered for a second: only after one without any is the next one sure to be news.
        await asyncio.sleep(QUIET)


async def test_a_quota_that_comes_changes_or_goes_is_reported(bench: Bench) -> None:
    """Each of them by the name of the cause, and nothing else."""
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
    """It alone: others of its kind are no news."""
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
    """A cause that is not awaited any more costs nothing more."""
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
