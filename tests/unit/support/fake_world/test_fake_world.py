"""The fake cluster in cases that a real one cannot produce on demand: death at a write, late events, violated
invariants.
"""

from __future__ import annotations

import asyncio

import pytest
import structlog

from hearth.model import errors, names
from hearth.model.child import Object
from support import virtual_time
from support.checks.invariants import Witness
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_connection import FakeWire
from support.ports.fake_workload_cluster import FakeWorkloadCluster
from support.ports.silent_ports import DeafListener
from support.server import api_errors, fake_kinds, request_faults
from support.server.fake_server import FakeServer
from support.server.request_faults import Interruption, Request, Traffic, Trouble
from support.stories import probe_controller
from support.stories.world import Address
from support.units import signing

CONFIG_MAP = fake_kinds.CONFIG_MAP.kind
OURS = "hearth:default/shop"


def config(name: str = "web", **data: str) -> Object:
    labels = {names.LABEL_STACK_UID: "s", names.LABEL_STACK: "shop", names.LABEL_RESOURCE: name}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return signing.sign({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


async def apply(cluster: FakeWorkloadCluster, manifest: Object) -> None:
    """Apply it as the engine would."""
    await cluster.apply(manifest, kind=CONFIG_MAP, manager=OURS, force=True)


@pytest.mark.parametrize(
    ("how", "is_made"),
    [
        pytest.param("kill-before", False, id="killed before"),
        pytest.param("kill-after", True, id="killed after"),
        pytest.param("lost", True, id="answer lost"),
        pytest.param("unreachable", False, id="never arrived"),
        pytest.param("conflict", False, id="refused"),
    ],
)
def test_interruption_at_a_write(how: str, is_made: bool) -> None:
    """Only the second write is disturbed; a dead engine sends no more requests."""

    async def test() -> tuple[bool, bool]:
        server = FakeServer(lambda: 0.0)
        log = Traffic(interruption=Interruption(write=2, how=how))
        wire = FakeWire(server, log)
        log.kill = wire.cut
        cluster = FakeWorkloadCluster(wire, DeafListener(), signatures=signing.Trusting())
        await apply(cluster, config("first"))
        with pytest.raises((errors.ApiStatusError, errors.Unreachable, asyncio.CancelledError)):
            await apply(cluster, config("second"))
        is_alive = "kill" not in how
        try:
            await apply(cluster, config("third"))
        except asyncio.CancelledError:
            assert not is_alive
        there = [server.find(CONFIG_MAP, "default", name) is not None for name in ("second", "third")]
        return there[0], there[1] == is_alive

    assert virtual_time.run(test) == (is_made, True)


def test_trouble_ends_after_so_many_times() -> None:
    log = Traffic(troubles=[Trouble(refusal=request_faults.REFUSALS["quota"], resource="web", times=2)])

    def send(resource: str) -> bool:
        request = Request(verb="apply", kind=CONFIG_MAP, namespace="default", name="x", resource=resource)
        return log.find_refusal(request, log.record(request)) is None

    assert [send(name) for name in ("web", "db", "web", "web")] == [False, True, False, True]


def test_every_refusal_can_be_raised() -> None:
    request = Request(verb="apply", kind=CONFIG_MAP, namespace="default", name="x")
    made = [make(request) for make in request_faults.REFUSALS.values()]
    known = (errors.ApiStatusError, errors.Unreachable, request_faults.Lost)
    assert all(isinstance(each, known) for each in made)


def test_held_events_come_late_and_in_order() -> None:
    async def test() -> tuple[list[str], list[str]]:
        server = FakeServer(lambda: 0.0)
        wire = FakeWire(server, Traffic())
        cluster = FakeWorkloadCluster(wire, DeafListener(), signatures=signing.Trusting())
        cluster.follow(CONFIG_MAP, ())
        await asyncio.sleep(1)
        wire.hold("ConfigMap")
        server.create(config("theirs"), manager="another")
        await apply(cluster, config("ours"))
        await asyncio.sleep(10)
        stale = sorted(cluster.children("s"))
        wire.release("ConfigMap")
        await asyncio.sleep(1)
        return stale, sorted(cluster.children("s"))

    assert virtual_time.run(test) == (["ours"], ["ours", "theirs"])


def test_error_in_a_log_fails_the_story() -> None:
    async def test(world: FakeWorld) -> None:
        structlog.get_logger("hearth").error("internal error")

    with pytest.raises(fake_world.InternalError):
        fake_world.run(test)


@fake_world.in_world
async def test_something_that_never_rests_is_reported(world: FakeWorld) -> None:
    manifest = world.server.create(config(a="0"), manager="another")
    stopped = False

    async def fight() -> None:
        for number in range(10**6):
            await asyncio.sleep(10)
            await world.user.patch(Address.of(manifest), {"data": {"a": str(number)}})

    fighting = asyncio.ensure_future(fight())
    try:
        await world.wait_rest(nothing)
    except fake_world.NeverRests:
        stopped = True
    fighting.cancel()
    assert stopped


async def nothing() -> list[str]:
    """Nothing is wrong."""
    return []


@fake_world.in_world
async def test_probe_does_what_its_spec_says(world: FakeWorld) -> None:
    spec = {"value": 7, "readyAfter": 5, "deleteAfter": 4}
    made = probe_controller.manifest(spec)
    made["metadata"] |= {"name": "p", "namespace": "default"}
    address = Address.of(await world.user.create(made))
    await asyncio.sleep(4)
    early = (await world.user.find(address) or {})["status"]
    await asyncio.sleep(2)
    ready = (await world.user.find(address) or {})["status"]
    await world.user.patch(address, {"spec": {"fails": "no", "readyAfter": 0}})
    await asyncio.sleep(1)
    failed = (await world.user.find(address) or {})["status"]
    await world.user.delete(address)
    await asyncio.sleep(3)
    lingering = await world.user.find(address)
    await asyncio.sleep(2)
    gone = await world.user.find(address)
    assert (early["ready"], ready["ready"], ready["value"], ready["observedGeneration"]) == (False, True, 7, 1)
    assert (failed["ready"], failed["observedGeneration"], failed["conditions"][1]["status"]) == (False, 2, "True")
    assert (lingering is not None, gone) == (True, None)


def child(name: str, **annotations: str) -> Object:
    """A child as the invariant checks receive it."""
    made = config(name)
    made["metadata"] |= {"uid": name + annotations.get("uid", ""), "annotations": annotations}
    return made


def test_witness_sees_twins() -> None:
    witness = Witness()
    witness.on_change(CONFIG_MAP, None, child("web"))
    witness.on_change(CONFIG_MAP, None, child("web", uid="2"))
    assert witness.wrong == ["s/web/1 has two objects at the same time"]


def test_witness_sees_an_impossible_phase() -> None:
    witness = Witness()
    before, after = (
        {"metadata": {"uid": "s"}, "spec": {}, "status": {"phase": phase}}
        for phase in ("DeleteInProgress", "UpdateComplete")
    )
    witness.on_change(fake_kinds.STACK.kind, before, after)
    assert witness.wrong == ["UpdateComplete was written after DeleteInProgress"]


def test_namespace_goes_when_it_is_empty() -> None:
    server = FakeServer(lambda: 0.0)
    kind = fake_kinds.NAMESPACE.kind
    held = config("held")
    held["metadata"]["finalizers"] = ["a/b"]
    for manifest in (config("free"), held):
        server.create(manifest, manager="test")
    assert server.delete(kind, "", "default") is False
    assert server.find(CONFIG_MAP, "default", "free") is None
    server.patch(CONFIG_MAP, "default", "held", {"metadata": {"finalizers": None}}, manager="test")
    assert server.find(kind, "", "default") is None


def test_kind_goes_with_its_definition() -> None:
    server = FakeServer(lambda: 0.0)
    definition = server.create(probe_controller.definition(), manager="test")
    made = probe_controller.manifest({"value": 1})
    made["metadata"] = {"name": "p", "namespace": "default"}
    server.create(made, manager="test")
    is_gone = server.delete(fake_kinds.CUSTOM_RESOURCE_DEFINITION.kind, "", definition["metadata"]["name"])
    assert (is_gone, server.kinds.find("testing.hearth.dev/v1", "Probe")) == (True, None)
    with pytest.raises(errors.ApiStatusError) as refused:
        server.create(made, manager="test")
    assert refused.value.status == api_errors.unknown_kind().status
