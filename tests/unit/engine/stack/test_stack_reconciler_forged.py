"""Changes by tenants to children, or to objects that imitate children, while an operator works."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from hearth.engine.work_queue import WorkQueue
from hearth.engine.writes import step_execution
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.state.steps import Apply
from hearth.plan.status import conditions
from support import repository
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_connection import FakeWire
from support.ports.fake_workload_cluster import FakeWorkloadCluster
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address
from support.units import blueprints
from support.units.blueprints import HASHER

CONFIG_MAP = fake_kinds.CONFIG_MAP.kind
SECRET = Kind(group="", version="v1", name="Secret", plural="secrets", namespaced=True)
MANAGER = "hearth:default/shop"
A: Object = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "one"}}}
B: Object = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"first": "${a.metadata.name}"}}}


async def converge(world: FakeWorld, **resources: Object) -> Object:
    """Create a Stack of these resources, wait for completion, and return it."""
    await world.start_controller()
    spec = {"template": {"resources": resources}}
    await world.user.create(stack_manifests.make_stack(spec))
    await world.wait_rest()
    return get_stack(world)


def get_stack(world: FakeWorld) -> Object:
    return get(world, fake_kinds.STACK.kind, "shop")


def get(world: FakeWorld, kind: Kind, name: str) -> Object:
    found = world.server.find(kind, "default", name)
    assert found is not None
    return found


async def annotate(world: FakeWorld, name: str, **annotations: str | None) -> None:
    """As `kubectl annotate --overwrite` of a ConfigMap; None removes."""
    address = Address(api_version="v1", kind="ConfigMap", namespace="default", name=name)
    changes = {f"{names.GROUP}/{key}": value for key, value in annotations.items()}
    await world.user.patch(address, {"metadata": {"annotations": changes}})


def find_events(world: FakeWorld, reason: str) -> list[str]:
    """The messages of all Events with that reason."""
    return [message for _, _, found, message in world.traffic.events if found == reason]


def read_signature(world: FakeWorld, name: str) -> str | None:
    annotations: Object = get(world, CONFIG_MAP, name)["metadata"]["annotations"]
    return annotations.get(names.ANNOTATION_SIGNATURE)


def apply_as_operator(world: FakeWorld, name: str, *, kind: Kind = CONFIG_MAP, **fields: Any) -> None:
    """A write under the operator's own field manager name, of all its fields except these."""
    live = get(world, kind, name)
    kept = {part: live["metadata"][part] for part in ("labels", "annotations")}
    metadata = {"name": name, "namespace": "default", **kept}
    manifest = {"apiVersion": "v1", "kind": kind.name, "metadata": metadata, **fields}
    world.server.apply(manifest, kind=kind, manager=MANAGER, force=True)


async def check(world: FakeWorld, number: int = 1) -> Object:
    """Request a check and return the status once it has the result."""
    await world.user.patch(STACK, {"metadata": {"annotations": {names.REQUEST_CHECK: str(number)}}})

    async def find_missing() -> list[str]:
        handled = (get_stack(world)["status"].get("handled") or {}).get("check")
        return [] if handled == str(number) else ["the check is not done"]

    assert await world.wait_until(find_missing) == []
    found: Object = get_stack(world)["status"]["check"]
    return found


@fake_world.in_world
async def test_a_removed_signature_is_put_back_by_one_write(world: FakeWorld) -> None:
    await converge(world, a=A, b=B)
    before = get(world, CONFIG_MAP, "shop-a")
    sent = len(world.traffic.requests)
    await annotate(world, "shop-a", signature=None, identity=None)
    await world.wait_rest()
    after = get(world, CONFIG_MAP, "shop-a")
    assert (after["metadata"]["uid"], after["metadata"]["annotations"]) == (
        before["metadata"]["uid"],
        before["metadata"]["annotations"],
    )
    assert [each.verb for each in world.traffic.requests[sent:] if each.verb not in ("status", "event")] == ["apply"]
    assert get_stack(world)["status"]["phase"] == "CreateComplete"


@fake_world.in_world
async def test_a_signature_that_goes_while_unobserved_is_put_back_too(world: FakeWorld) -> None:
    await converge(world, a=A, b=B)
    before = {name: get(world, CONFIG_MAP, name)["metadata"] for name in ("shop-a", "shop-b")}
    await world.kill_controller()
    for name in before:
        await annotate(world, name, signature=None, hash=None, requires=None)
    await world.start_controller()
    await world.wait_rest()
    after = {name: get(world, CONFIG_MAP, name)["metadata"] for name in before}
    assert [each["uid"] for each in after.values()] == [each["uid"] for each in before.values()]
    assert [each["annotations"] for each in after.values()] == [each["annotations"] for each in before.values()]


@fake_world.in_world
async def test_an_object_with_a_forged_label_is_named_and_left_alone(world: FakeWorld) -> None:
    stack = await converge(world, a=A, b=B)
    genuine = get(world, CONFIG_MAP, "shop-a")["metadata"]
    labels = {**genuine["labels"], names.LABEL_RESOURCE: "x"}
    metadata = {"name": "forged", "namespace": "hearth", "labels": labels, "annotations": genuine["annotations"]}
    await world.user.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "finalizers": ["example.org/held"]}}
    )
    await world.wait_rest()
    forged = Address(api_version="v1", kind="ConfigMap", namespace="hearth", name="forged")
    await world.user.patch(forged, {"data": {"a": "b"}})
    await world.wait_rest()
    [message] = find_events(world, "UnprovenObjects")
    assert "configmap/forged in hearth" in message

    await world.user.delete(STACK)
    await world.wait_rest()
    assert world.server.find(fake_kinds.STACK.kind, "default", "shop") is None
    live = world.server.find(CONFIG_MAP, "hearth", "forged")
    assert live is not None
    assert "deletionTimestamp" not in live["metadata"]
    assert stack["status"]["phase"] == "CreateComplete"


@pytest.mark.parametrize(
    ("manager", "is_meant", "is_taken"),
    [
        pytest.param(blueprints.MANAGER, True, True, id="labeled by an apply of ours"),
        pytest.param("kubectl", True, False, id="labeled by another client"),
        pytest.param(blueprints.MANAGER, False, False, id="another object"),
    ],
)
@fake_world.in_world
async def test_an_unsigned_object_is_taken_up_as_it_is_on_the_server(
    world: FakeWorld, manager: str, *, is_meant: bool, is_taken: bool
) -> None:
    planner = blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    blueprints.World().refresh(planner)
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    metadata = {**step.manifest["metadata"], "annotations": {}}
    live = world.server.apply({**step.manifest, "metadata": metadata}, kind=CONFIG_MAP, manager=manager, force=True)
    step = dataclasses.replace(step, reclaims_uid=live["metadata"]["uid"] if is_meant else "another")
    executor = step_execution.StepExecutor(
        cluster=FakeWorkloadCluster(FakeWire(world.server, world.traffic), WorkQueue(), signatures=HASHER),
        manager=blueprints.MANAGER,
        may_exist=lambda uid, namespace: uid == blueprints.STACK.uid,
        our_signatures=HASHER,
        boundary=blueprints.TRUSTED,
    )
    result = await executor.execute_step(step)
    if is_taken:
        assert isinstance(result, step_execution.StepDone)
        assert result.child is not None
        assert (result.child.uid, result.child.is_identified) == (live["metadata"]["uid"], True)
    else:
        assert isinstance(result, StepFailure)
        assert result.reason == "NotOwned"


@fake_world.in_world
async def test_a_value_changed_under_our_own_name_is_found_by_a_check_and_repaired(world: FakeWorld) -> None:
    await converge(world, a=A, b=B)
    apply_as_operator(world, "shop-a", data={"value": "evil"})
    await world.wait_rest()
    assert get(world, CONFIG_MAP, "shop-a")["data"] == {"value": "evil"}

    found = await check(world)
    [problem] = found["problems"]
    assert (found["problemCount"], problem["resource"], problem["reason"]) == (1, "a", "Drifted")
    assert problem["message"] == (
        "data.value, under the operator's own field manager name: changed by another field manager"
    )
    await world.wait_rest()
    assert get(world, CONFIG_MAP, "shop-a")["data"] == {"value": "one"}
    assert (await check(world, 2))["problemCount"] == 0


@fake_world.in_world
async def test_a_check_tells_such_a_change_and_leaves_it_where_the_policy_says_so(world: FakeWorld) -> None:
    await converge(world, a={**A, "driftPolicy": "Report"}, b={**A, "driftPolicy": "Ignore"})
    for name in ("shop-a", "shop-b"):
        apply_as_operator(world, name, data={"value": "evil"})
    found = await check(world)
    assert [(each["resource"], each["reason"]) for each in found["problems"]] == [("a", "FieldOwnershipLost")]
    await world.wait_rest()
    assert [get(world, CONFIG_MAP, name)["data"]["value"] for name in ("shop-a", "shop-b")] == ["evil", "evil"]


@fake_world.in_world
async def test_a_secret_changed_under_our_own_name_is_found_without_its_value(world: FakeWorld) -> None:
    secret = {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "swordfish"}}}
    await converge(world, s=secret)
    assert (await check(world))["problemCount"] == 0
    apply_as_operator(world, "shop-s", kind=SECRET, data={"password": "ZXZpbA=="})
    found = await check(world, 2)
    assert [each["message"] for each in found["problems"]] == [
        "data.password, under the operator's own field manager name: changed by another field manager"
    ]


@fake_world.in_world
async def test_objects_of_the_version_before_are_taken_up_by_one_write_each(world: FakeWorld) -> None:
    recorded = orjson.loads((repository.DATA / "before_signatures.json").read_bytes())
    for raw in recorded:
        world.server.restore(raw)
    stack = get_stack(world)
    resources = {name: each for name, each in stack["spec"]["template"]["resources"].items() if name != "gone"}
    await world.user.replace_spec(STACK, {"template": {"resources": resources}})
    wanted = ("shop-a", "shop-b", "pinned")
    before = {name: get(world, CONFIG_MAP, name)["metadata"]["uid"] for name in wanted}

    sent = len(world.traffic.requests)
    await world.start_controller()
    await world.wait_rest()
    written = [each for each in world.traffic.requests[sent:] if each.verb in ("apply", "delete", "release")]
    assert sorted((each.verb, each.name) for each in written) == sorted(("apply", name) for name in wanted)
    assert {name: get(world, CONFIG_MAP, name)["metadata"]["uid"] for name in wanted} == before
    assert all(read_signature(world, name) for name in wanted)
    assert read_signature(world, "shop-gone") is None
    [message] = find_events(world, "UnprovenObjects")
    assert "configmap/shop-gone" in message
    assert get_stack(world)["status"]["phase"] == "UpdateComplete"

    await world.user.delete(STACK)
    await world.wait_rest()
    assert world.server.find(fake_kinds.STACK.kind, "default", "shop") is None
    assert [world.server.find(CONFIG_MAP, "default", name) for name in wanted] == [None, None, None]
    assert world.server.find(CONFIG_MAP, "default", "shop-gone") is not None


# ---------------------------------------------------------------- records on suspended objects

CHILD = Address(api_version="apps/v1", kind="Deployment", namespace="default", name="shop-web")
ATTACK = '{"theirs":{"spec.paused":true,"spec.minReadySeconds":77}}'
OVERLAPPING = '{"theirs":{"spec.minReadySeconds":1,"spec.minReadySeconds.y":2}}'


def make_spec(replicas: int, **more: object) -> Object:
    labels = {"app": "web"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
        },
    }
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    return {"template": {"resources": {"web": {"manifest": manifest}}}, **more}


async def begin(world: FakeWorld) -> Object:
    """Create a Stack, wait until it is at rest, and return its child."""
    await world.start_controller()
    await world.user.create(stack_manifests.make_stack(make_spec(2)))
    await world.wait_rest()
    return await find(world, CHILD)


async def find(world: FakeWorld, address: Address) -> Object:
    found = await world.user.find(address)
    assert found is not None
    return found


async def write_record(world: FakeWorld, text: str | None) -> None:
    """Write the annotation as a user."""
    await world.user.patch(CHILD, {"metadata": {"annotations": {names.ANNOTATION_SUSPENDED: text}}})
    await world.wait_rest()


@pytest.mark.parametrize(
    "text", [ATTACK, OVERLAPPING, "{", "7", "[" * 3_000], ids=["any", "overlap", "no", "7", "deep"]
)
@fake_world.in_world
async def test_a_forged_record_is_named_and_nothing_of_it_written(world: FakeWorld, text: str) -> None:
    before = await begin(world)
    await write_record(world, text)
    assert (await find(world, CHILD))["spec"] == before["spec"]
    found = conditions.find((await find(world, STACK))["status"], "SuspendRecordInvalid")
    assert (found["status"], found["reason"]) == ("True", "SignatureInvalid")
    assert "kubectl annotate deployments.apps shop-web -n default hearth.dev/suspended-" in found["message"]
    await world.user.replace_spec(STACK, make_spec(3))
    await world.wait_rest()
    assert (await find(world, CHILD))["spec"] == {**before["spec"], "replicas": 3}
    await write_record(world, None)
    status = (await find(world, STACK))["status"]
    assert (status["phase"], conditions.find(status, "SuspendRecordInvalid")["status"]) == (
        "UpdateComplete",
        "False",
    )


@pytest.mark.parametrize("text", [ATTACK, None], ids=["forged", "removed"])
@fake_world.in_world
async def test_a_suspended_object_without_its_record_gets_what_its_definition_states(
    world: FakeWorld, text: str | None
) -> None:
    before = await begin(world)
    await world.user.replace_spec(STACK, make_spec(2, suspended=True))
    await world.wait_rest()
    assert (await find(world, CHILD))["spec"]["replicas"] == 0
    await write_record(world, text)
    await world.user.replace_spec(STACK, make_spec(2))
    await world.wait_rest()
    stack = await find(world, STACK)
    assert ((await find(world, CHILD))["spec"], stack["status"]["phase"]) == (before["spec"], "ResumeComplete")


@fake_world.in_world
async def test_an_earlier_record_of_the_same_object_is_not_trusted_again(world: FakeWorld) -> None:
    await begin(world)
    await world.user.replace_spec(STACK, make_spec(2, suspended=True))
    await world.wait_rest()
    record = (await find(world, CHILD))["metadata"]["annotations"][names.ANNOTATION_SUSPENDED]
    await world.user.replace_spec(STACK, make_spec(2))
    await world.wait_rest()
    await write_record(world, record)
    found = conditions.find((await find(world, STACK))["status"], "SuspendRecordInvalid")
    assert found["status"] == "True"
