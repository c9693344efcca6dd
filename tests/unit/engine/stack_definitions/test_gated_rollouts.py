"""Rollouts with gates in a fake world, with the admission check of the operator between the user and the server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hearth.engine.admission.gate_decisions import GateCheck
from hearth.engine.admission.review import Author, Review
from hearth.model import names
from hearth.model.child import Object
from hearth.plan.rollouts import rollout_report
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories.world import Address

GROUP = fake_kinds.DEFINED_GROUP
NAME = f"sites.{GROUP}"
DEFINITION = Address(api_version=f"{names.GROUP}/{names.VERSION}", kind="StackDefinition", namespace="", name=NAME)
ROLLOUT = {
    "waves": [{"name": "canary", "select": {"matchLabels": {"tier": "canary"}}}],
    "maxUnavailable": "100%",
    "gates": [{"name": "release-manager", "approval": {}}],
}


class AllRights:
    """Every user has every right."""

    async def may(self, author: Author, verb: str, resource: str, **_: Any) -> bool:
        return True


def make_spec(layout: str, **rollout: Any) -> Object:
    page = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"layout": layout}}
    return {
        "group": GROUP,
        "names": {"kind": "Site", "plural": "sites"},
        "versions": [{"name": "v1alpha1"}],
        "scope": "Namespaced",
        "template": {"resources": {"page": {"manifest": page}}},
        "rollout": {**ROLLOUT, **rollout},
    }


async def start(world: FakeWorld, **rollout: Any) -> None:
    """Serve the definition with a canary and another instance, and begin the rollout of its second revision."""
    await world.start_controller()
    metadata = {"name": NAME}
    spec = make_spec("one", **rollout)
    await world.user.create(
        {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind, "metadata": metadata, "spec": spec}
    )
    await world.wait_rest()
    for name, labels in (("one", {"tier": "canary"}), ("two", {})):
        await world.user.create(
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "Site",
                "metadata": {"name": name, "namespace": "default", "labels": labels},
                "spec": {},
            }
        )
    await world.wait_rest()
    await world.user.replace_spec(DEFINITION, make_spec("two", **rollout))
    await world.wait_rest()


async def read(world: FakeWorld) -> Object:
    found = await world.user.find(DEFINITION)
    assert found is not None
    return found


async def read_layouts(world: FakeWorld) -> list[str]:
    """The layout of each instance, of the canary first."""
    found = []
    for name in ("one-page", "two-page"):
        page = await world.user.find(Address(api_version="v1", kind="ConfigMap", namespace="default", name=name))
        assert page is not None
        found.append(page["data"]["layout"])
    return found


async def read_evidence(world: FakeWorld, number: int) -> Object:
    """The results of gates that are stored with a revision."""
    revisions = await world.user.find_revisions((await read(world))["metadata"]["uid"])
    (text,) = [
        each["metadata"]["annotations"][names.ANNOTATION_EVIDENCE]
        for each in revisions
        if each["metadata"]["annotations"][names.ANNOTATION_REVISION] == str(number)
    ]
    found: Object = json.loads(text)
    return found


async def decide(world: FakeWorld, key: str = names.REQUEST_APPROVE) -> str:
    """Decide about the gate that waits; return the annotation of the stamps."""
    text = await write_decision(world, key)
    await world.wait_rest()
    return text


async def write_decision(world: FakeWorld, key: str) -> str:
    """As `decide`, without waiting for the operator."""
    old = await read(world)
    (digest,) = [each["digest"] for each in old["status"]["rollout"]["gates"] if each["state"] == "Waiting"]
    annotations = old["metadata"].get("annotations") or {}
    new = {**old, "metadata": {**old["metadata"], "annotations": {**annotations, key: f"{digest[:8]} soaked"}}}
    check = GateCheck(access=AllRights(), hashes=fake_world.HASHER, operator_namespace="hearth-system")
    result = await check.review(Review(new=new, old=old, author=Author(name="bob")), now=world.now())
    assert result.denial == ""
    text = str(result.annotations[names.ANNOTATION_APPROVALS])
    await stamp(world, text)
    return text


async def stamp(world: FakeWorld, text: str) -> None:
    await world.user.patch(DEFINITION, {"metadata": {"annotations": {names.ANNOTATION_APPROVALS: text}}})


def find_ready(raw: Object) -> tuple[str, str]:
    ready = next(each for each in raw["status"]["conditions"] if each["type"] == "Ready")
    return ready["status"], ready["reason"]


@fake_world.in_world
async def test_a_rollout_waits_for_an_approval_after_each_wave(world: FakeWorld) -> None:
    await start(world)
    assert await read_layouts(world) == ["two", "one"]
    assert find_ready(await read(world)) == ("False", "WaitingForApproval")

    await decide(world)
    assert await read_layouts(world) == ["two", "two"]
    rollout = (await read(world))["status"]["rollout"]
    assert (rollout["wave"], rollout["completed"]) == ("rest", 1)

    await decide(world)
    assert find_ready(await read(world)) == ("True", "Complete")
    rollout = (await read(world))["status"]["rollout"]
    listed = [(each["wave"], each["state"], each["user"], each["message"]) for each in rollout["gates"]]
    assert listed == [("canary", "Passed", "bob", "soaked"), ("rest", "Passed", "bob", "soaked")]
    evidence = await read_evidence(world, 2)
    assert evidence["gates"] == rollout["gates"]
    signature = evidence.pop("signature")
    uid = (await read(world))["metadata"]["uid"]
    assert fake_world.HASHER.is_signed(rollout_report.EVIDENCE, [uid, evidence], signature)
    said = [(type_, reason) for name, type_, reason, _ in world.traffic.events if name == NAME]
    assert said[-6:] == [
        ("Normal", "WaitingForApproval"),
        ("Normal", "RollingOut"),
        ("Normal", "GatePassed"),
        ("Normal", "WaitingForApproval"),
        ("Normal", "Complete"),
        ("Normal", "GatePassed"),
    ]


@fake_world.in_world
async def test_a_rejection_rolls_back_the_wave(world: FakeWorld) -> None:
    await start(world, onFailure="Rollback")

    await decide(world, names.REQUEST_REJECT)

    assert await read_layouts(world) == ["one", "one"]
    assert find_ready(await read(world)) == ("False", "RolledBack")
    assert [each["state"] for each in (await read_evidence(world, 2))["gates"]] == ["Failed"]
    assert ("Warning", "GateFailed") in [
        (type_, reason) for name, type_, reason, _ in world.traffic.events if name == NAME
    ]


@fake_world.in_world
async def test_an_approval_does_not_count_for_the_next_wave_or_for_the_same_content_later(world: FakeWorld) -> None:
    await start(world)
    text = await decide(world)
    await stamp(world, f"{text}\n{text}")
    await world.wait_rest()
    assert (await read(world))["status"]["rollout"]["wave"] == "rest"

    for layout in ("three", "two"):
        await world.user.replace_spec(DEFINITION, make_spec(layout))
        await world.wait_rest()

    rollout = (await read(world))["status"]["rollout"]
    assert (rollout["revision"], rollout["wave"]) == (4, "canary")
    assert await read_layouts(world) == ["two", "two"]
    assert [(each["wave"], each["state"]) for each in rollout["gates"]] == [("canary", "Waiting")]


@fake_world.in_world
async def test_a_restart_of_the_operator_keeps_the_gate_and_its_approval(world: FakeWorld) -> None:
    await start(world)
    before = (await read(world))["status"]["rollout"]["gates"]
    await world.kill_controller()
    await world.start_controller()
    await world.wait_rest()
    assert (await read(world))["status"]["rollout"]["gates"] == before

    await world.kill_controller()
    await decide(world)
    assert await read_layouts(world) == ["two", "one"]
    await world.start_controller()
    await world.wait_rest()
    assert await read_layouts(world) == ["two", "two"]
    assert (await read(world))["status"]["rollout"]["wave"] == "rest"


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.5, 1.0, 1.1, 1.6, 2.5])
@pytest.mark.parametrize(
    ("key", "layouts", "reason", "state"),
    [
        pytest.param(names.REQUEST_APPROVE, ["two", "two"], "WaitingForApproval", "Passed", id="approve"),
        pytest.param(names.REQUEST_REJECT, ["two", "one"], "RolloutStopped", "Failed", id="reject"),
    ],
)
@fake_world.in_world
async def test_a_decision_counts_once_when_the_operator_is_killed_soon_after_it(
    world: FakeWorld, key: str, layouts: list[str], reason: str, state: str, delay: float
) -> None:
    await start(world)
    await write_decision(world, key)
    await asyncio.sleep(delay)
    await world.kill_controller()

    await world.start_controller()
    await world.wait_rest()

    assert await read_layouts(world) == layouts
    assert find_ready(await read(world)) == ("False", reason)
    assert [(each["wave"], each["state"]) for each in (await read_evidence(world, 2))["gates"]] == [("canary", state)]


@pytest.mark.parametrize(
    "forged",
    [
        {"phase": "Complete", "completed": 2},
        {"wave": "rest"},
        {"gates": [{"wave": "canary", "name": "release-manager", "state": "Passed", "digest": "f" * 32}]},
    ],
    ids=["phase", "wave", "gates"],
)
@fake_world.in_world
async def test_a_forged_status_passes_no_gate(world: FakeWorld, forged: Object) -> None:
    await start(world)
    await world.kill_controller()
    await world.user.patch_status(DEFINITION, {"rollout": {**(await read(world))["status"]["rollout"], **forged}})

    await world.start_controller()
    await world.wait_rest()

    assert await read_layouts(world) == ["two", "one"]
    assert find_ready(await read(world)) == ("False", "WaitingForApproval")


@fake_world.in_world
async def test_a_definition_without_gates_has_a_signed_rollout_so_gates_can_be_added_later(world: FakeWorld) -> None:
    await start(world, gates=[])
    assert find_ready(await read(world)) == ("True", "Complete")

    await world.user.replace_spec(DEFINITION, make_spec("two"))
    await world.wait_rest()

    assert find_ready(await read(world)) == ("True", "Complete")
