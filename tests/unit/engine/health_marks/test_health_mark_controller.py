"""HealthMarks in a fake world: their cost, created and deleted Stacks, paths into nested Stacks, and forged
statuses.
"""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.engine.health_marks import health_mark_controller
from hearth.engine.health_marks.mark_index import SignedMarks
from hearth.model import limits, names
from hearth.model.child import Object
from hearth.model.tenancy import Mode
from hearth.plan.ownership.keyed_hash import KeyedHasher
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import probe_controller, stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

API = f"{names.GROUP}/{names.VERSION}"


def stack(name: str = "shop", **spec: Any) -> Object:
    resources = {"a": {"manifest": probe_controller.manifest({"value": 1})}}
    return stack_manifests.make_stack({"template": {"resources": resources}, **spec}, name=name)


def mark(name: str = "bad", **spec: Any) -> Object:
    """A HealthMark on that probe."""
    said = {"markUnhealthy": True, **(spec or {"stackName": "shop", "resource": "a"})}
    return {"apiVersion": API, "kind": "HealthMark", "metadata": {"name": name, "namespace": "default"}, "spec": said}


async def begin(world: FakeWorld, made: Object) -> None:
    """Start an operator, and wait until it has no more work for that Stack."""
    await world.start_controller()
    await world.user.create(made)
    await world.wait_rest()


async def read(world: FakeWorld, name: str = "bad") -> dict[str, Any]:
    """The status and reason of each condition of a mark."""
    found = await world.user.find(Address.of(mark(name)))
    ready, resolved = (expectations.find_condition(found, each) for each in ("Ready", "Resolved"))
    return {"ready": ready.get("status"), "resolved": resolved.get("status"), "reason": ready.get("reason")}


@fake_world.in_world
async def test_a_mark_whose_stack_goes_is_done_with(world: FakeWorld) -> None:
    await begin(world, stack(healing={"policy": "OnUpdate"}))
    await world.user.create(mark())
    await world.wait_rest()
    assert await read(world) == {"ready": "True", "resolved": "False", "reason": "Marked"}
    await world.user.delete(Address.of(stack()))
    await world.wait_rest()
    assert await read(world) == {"ready": "True", "resolved": "True", "reason": "ObjectDeleted"}
    await world.user.create(stack())
    await world.wait_rest()
    assert world.traffic.count()["mark"] == 1


@fake_world.in_world
async def test_an_object_that_is_nobodys_is_looked_for_without_a_write(world: FakeWorld) -> None:
    await world.start_controller()
    target = {"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "name": "shop-a"}
    await world.user.create(mark(target=target))
    await world.wait_rest()
    assert (await read(world))["reason"] == "TargetNotFound"
    before = len(world.traffic.requests)
    for number in range(20):
        await world.user.patch(Address.of(mark()), {"metadata": {"labels": {"n": str(number)}}})
    await world.wait(3600)
    assert len(world.traffic.requests) == before


@fake_world.in_world
async def test_a_mark_that_may_not_be_written_says_so_and_is_tried_again(world: FakeWorld) -> None:
    await begin(world, stack(healing={"policy": "OnUpdate"}))
    world.traffic.denied.add(("patch", "Probe"))
    await world.user.create(mark())
    await world.wait(600)
    assert await read(world) == {"ready": "False", "resolved": "False", "reason": "Denied"}
    assert 4 <= world.traffic.count()["mark"] <= 12
    world.traffic.denied.clear()
    await world.wait(600)
    assert await read(world) == {"ready": "True", "resolved": "False", "reason": "Marked"}


@fake_world.in_world
async def test_marks_cost_nothing_while_nothing_changes(world: FakeWorld) -> None:
    await begin(world, stack())
    for number in range(30):
        await world.user.create(mark(f"m{number}"))
    await world.wait_rest()
    spent = world.traffic.count()
    assert spent["mark-status"] <= 4 * 30
    before = len(world.traffic.requests)
    await world.kill_controller()
    await world.start_controller()
    await world.wait(600)
    assert world.traffic.count(before)["mark"] == world.traffic.count(before)["mark-status"] == 0


def config_maps(count: int) -> Object:
    """A Stack of that many ConfigMaps."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    return stack("maps", template={"resources": {f"n{number}": {"manifest": manifest} for number in range(count)}})


@fake_world.in_world
async def test_marks_on_what_is_nowhere_cost_next_to_nothing(world: FakeWorld) -> None:
    marks, hours = 400, 1
    await begin(world, config_maps(300))
    for number in range(marks):
        target = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"nowhere-{number}"}
        await world.user.create(mark(f"m{number}", target=target))
    await world.wait_rest()
    assert (await read(world, "m0"))["reason"] == "TargetNotFound"
    began, requests = time.process_time(), len(world.traffic.requests)
    await world.wait(hours * 3600)
    share = (time.process_time() - began) / (hours * 3600)
    print(f"{share * 8000 / marks:.4%} of a core for 8,000")
    assert share < 0.01 * marks / 8000
    assert len(world.traffic.requests) == requests


@fake_world.in_world
async def test_a_mark_finds_its_object_as_soon_as_that_comes(world: FakeWorld) -> None:
    await world.start_controller()
    await world.user.create(mark(target={"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "name": "shop-a"}))
    await world.user.create(mark("other", target={"apiVersion": "v1", "kind": "Probe", "name": "shop-a"}))
    await world.wait(3600)
    await world.user.create(stack())
    await world.wait(1)
    assert (await read(world))["reason"] == "ObjectTooNew"
    assert (await read(world, "other"))["reason"] == "TargetNotFound"


@fake_world.in_world
async def test_an_object_that_went_is_no_longer_found(world: FakeWorld) -> None:
    await begin(world, stack())
    nowhere = {"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "name": "nowhere"}
    await world.user.create(mark("waits", target=nowhere))
    await world.wait_rest()
    await world.user.delete(Address.of(stack()))
    await world.wait_rest()
    await world.user.create(mark(target={**nowhere, "name": "shop-a"}))
    await world.wait_rest()
    assert (await read(world))["reason"] == "TargetNotFound"


@fake_world.in_world
async def test_there_are_only_so_many_open_marks(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEALTH_MARKS_PER_NAMESPACE", 2)
    await world.start_controller()
    for name in ("one", "two", "three", "four"):
        await world.user.create(mark(name, stackName="ghost", resource="a", markUnhealthy=True))
        await world.wait_rest()
    assert [(await read(world, name))["reason"] for name in ("one", "two", "three", "four")] == [
        "StackNotFound",
        "StackNotFound",
        "TooManyMarks",
        "TooManyMarks",
    ]
    await world.user.delete(Address.of(mark("one")))
    await world.wait_rest()
    reasons = [(await read(world, name))["reason"] for name in ("two", "three", "four")]
    assert reasons == ["StackNotFound", "StackNotFound", "TooManyMarks"]


def test_marks_of_one_namespace_leave_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEALTH_MARKS", 8)
    reached: list[str] = []
    slots = health_mark_controller.MarkSlots(reached.append)

    def make(uid: str) -> Any:
        return SimpleNamespace(uid=uid, namespace=uid[0])

    many = [f"a{number}" for number in range(20)]
    assert [uid for uid in many if slots.admit(make(uid))] == many[:4]
    assert [uid for uid in ("b0", "b1", "b2") if slots.admit(make(uid))] == ["b0", "b1"]
    assert slots.admit(make("c0"))
    assert len(reached) == 17
    assert [slots.release(uid) for uid in ("a0", "a1", "a2", "a3")] == [None, None, "a4", "b2"]
    assert [uid for uid in ("a4", "b2") if slots.admit(make(uid))] == ["a4", "b2"]


@fake_world.in_world
async def test_marks_that_are_done_with_take_no_place(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEALTH_MARKS_PER_NAMESPACE", 1)
    await begin(world, stack())
    for name in ("one", "two"):
        await world.user.create(mark(name, stackName="shop", resource="a", markUnhealthy=False))
        await world.wait_rest()
    assert [(await read(world, name))["reason"] for name in ("one", "two")] == ["Healthy", "Healthy"]


# ---------------------------------------------------------------- by paths into nested Stacks


def nested_stack(*, namespace: str | None = None) -> Object:
    """A Stack whose only resource is a nested Stack with the only resource `db`."""
    template = {"resources": {"db": {"manifest": probe_controller.manifest({"value": 1})}}}
    inner: Object = {"apiVersion": API, "kind": "Stack", "spec": {"template": template}}
    if namespace is not None:
        inner["metadata"] = {"namespace": namespace}
    return stack_manifests.make_stack(
        {"template": {"resources": {"cache": {"manifest": inner}}}, "healing": {"policy": "OnUpdate"}}
    )


def mark_by_path(**spec: Any) -> Object:
    """A HealthMark on the resource `db` of the nested Stack."""
    return mark(**{"stackName": "shop", "resource": "cache/db", **spec})


@fake_world.in_world
async def test_a_mark_whose_stacks_go_with_each_other_is_done_with(world: FakeWorld) -> None:
    await begin(world, nested_stack())
    await world.user.patch(
        dataclasses.replace(STACK, name="shop-cache"),
        {"spec": {"healing": {"policy": "OnUpdate"}}},
    )
    await world.user.create(mark_by_path())
    await world.wait_rest()
    assert await read(world) == {"ready": "True", "resolved": "False", "reason": "Marked"}
    await world.user.delete(Address.of(nested_stack()))
    await world.wait_rest()
    assert await read(world) == {"ready": "True", "resolved": "True", "reason": "ObjectDeleted"}


@fake_world.in_world
async def test_a_path_does_not_lead_into_another_namespace(world: FakeWorld) -> None:
    world.tenancy = Mode.TRUSTED
    await world.start_controller()
    await world.user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    await world.user.create(nested_stack(namespace="elsewhere"))
    await world.wait_rest()
    await world.user.create(mark_by_path())
    await world.wait_rest()
    assert (await read(world))["reason"] == "OtherNamespace"
    assert world.traffic.count()["mark"] == 0


@fake_world.in_world
async def test_a_path_that_leads_nowhere_costs_nothing_while_nothing_changes(world: FakeWorld) -> None:
    await world.start_controller()
    await world.user.create(mark_by_path())
    await world.user.create({**nested_stack(), "metadata": {"name": "other", "namespace": "default"}})
    await world.wait_rest()
    assert (await read(world))["reason"] == "StackNotFound"
    before = len(world.traffic.requests)
    await world.wait(3600)
    assert len(world.traffic.requests) == before


@fake_world.in_world
async def test_marks_by_path_and_by_name_on_one_object_know_of_each_other(world: FakeWorld) -> None:
    await begin(world, nested_stack())
    await world.wait(5)
    await world.kill_controller()
    await world.user.create(mark_by_path())
    await world.wait(5)
    newer = mark_by_path(stackName="shop-cache", resource="db", markUnhealthy=False)
    await world.user.create({**newer, "metadata": {"name": "good", "namespace": "default"}})
    await world.start_controller()
    await world.wait_rest()
    assert (await read(world))["reason"] == "Superseded"
    assert world.traffic.count()["mark"] == 0


# ---------------------------------------------------------------- a mark is bound only by statuses that this operator
# wrote

CONDITIONS = [
    {"type": "Ready", "status": "True", "reason": "Marked", "message": "m"},
    {"type": "Resolved", "status": "False", "reason": "Marked", "message": "m"},
]
BOUND: Object = {
    "observedGeneration": 1,
    "observedUID": "o",
    "stackName": "shop",
    "resource": "web",
    "conditions": CONDITIONS,
}
MARK = HealthMarkObject(
    name="bad",
    namespace="n",
    uid="m",
    generation=1,
    resource_version=1,
    written_at="2026-01-01T00:00:00Z",
    spec={"target": {}, "markUnhealthy": True},
    status={},
)


class FixedMarks:
    """Holds one mark."""

    def __init__(self, mark: HealthMarkObject | None) -> None:
        self.mark = mark

    def find_mark(self, _uid: str) -> HealthMarkObject | None:
        return self.mark


def read_signed(status: Any, **changes: Any) -> Object:
    """The trusted parts of the mark's status."""
    held: Any = FixedMarks(dataclasses.replace(MARK, status=status, **changes))
    found = SignedMarks(held, KeyedHasher(b"k" * 32)).find_mark("m")
    assert found is not None
    return found.status


def sign(status: Object) -> Object:
    """Sign a status as the operator does."""
    held: Any = FixedMarks(MARK)
    return SignedMarks(held, KeyedHasher(b"k" * 32)).sign(MARK, status)


def test_a_status_of_our_own_counts() -> None:
    assert read_signed(sign(BOUND)) == BOUND


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"observedUID": "other"}, id="another object"),
        pytest.param({"resource": "db"}, id="another resource"),
        pytest.param({"stackName": "other"}, id="another Stack"),
        pytest.param({"observedGeneration": 2}, id="another generation"),
        pytest.param({"conditions": []}, id="no conditions"),
        pytest.param({"signature": "x"}, id="another signature"),
        pytest.param({"signature": 7}, id="no text"),
    ],
)
def test_a_forged_status_counts_as_none(changes: Object) -> None:
    assert read_signed({**sign(BOUND), **changes}) == {}


def test_the_status_of_another_mark_counts_as_none() -> None:
    assert read_signed(sign(BOUND), uid="other") == {}
    assert read_signed(BOUND) == {}


def test_that_nothing_more_comes_of_a_mark_is_believed() -> None:
    done = {**BOUND, "conditions": [CONDITIONS[0], {**CONDITIONS[1], "status": "True"}]}
    assert read_signed(done) == done
    assert read_signed(done, generation=2) == {}


def test_a_mark_that_is_gone_is_forgotten() -> None:
    held: Any = FixedMarks(MARK)
    marks = SignedMarks(held, KeyedHasher(b"k" * 32))
    assert marks.find_mark("m") == MARK
    held.mark = None
    assert marks.find_mark("m") is None
    assert marks.find_written("m") == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("True"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "status", "reason", "message", *BOUND]), inner, max_size=5)
    ),
)


@hypothesis.given(status=JSON | st.fixed_dictionaries(dict.fromkeys(BOUND, JSON)))
@hypothesis.settings(max_examples=100, derandomize=True, deadline=None, database=None)
def test_any_status_is_read(status: Any) -> None:
    found = read_signed(status)
    assert found == {} or found["observedGeneration"] == MARK.generation


# ---------------------------------------------------------------- a resolved mark stays resolved after a restore


def is_restored(**changes: Any) -> bool:
    """Whether a mark with the annotation of the resolved `MARK` counts as resolved after these changes."""
    held: Any = FixedMarks(None)
    marks = SignedMarks(held, KeyedHasher(b"k" * 32))
    annotated = dataclasses.replace(MARK, resolution=marks.sign_resolution(MARK))
    return marks.parse(dataclasses.replace(annotated, **changes)).is_restored


def test_a_resolved_mark_is_recognized_under_another_uid() -> None:
    assert is_restored(uid="another", generation=7)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "copy"},
        {"namespace": "other"},
        {"spec": {**MARK.spec, "reason": "another"}},
        {"status": {"observedGeneration": 1}},
        {"resolution": "k:forged"},
        {"resolution": ""},
    ],
    ids=["another name", "another namespace", "an edited spec", "a status", "a forged signature", "no signature"],
)
def test_the_annotation_of_a_resolved_mark_counts_for_that_mark_alone(changes: Object) -> None:
    assert not is_restored(**changes)
