"""Definitions become revisions: compiled once for many Stacks, with unique numbers, a few at a time and in turns."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Collection, Generator
from types import SimpleNamespace
from typing import Any

import pytest

from hearth.engine import cooperative_work
from hearth.engine import cooperative_work as turns_module
from hearth.engine.cluster_objects import Revision
from hearth.engine.cooperative_work import CHUNKS_PER_YIELD
from hearth.engine.definition import revision_builder, stack_revisions
from hearth.engine.definition.revision_builder import MAX_CONCURRENT_BUILDS, FairSlots, RevisionBuilder, RevisionNumbers
from hearth.model import packing
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.model.kinds import Kind
from hearth.template.blueprint import Blueprint, Definition, Known, Origin
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_connection import Desk
from support.server.request_faults import Request
from support.stories import stack_manifests
from support.stories.world import Address
from support.units import stack_objects
from support.units.blueprints import CONFIG_MAP, HASHER, ServedKinds

# ---------------------------------------------------------------- kinds that were ever applied

NEW = Kind(group="example.org", version="v1", name="Gadget", plural="gadgets", namespaced=True)


def test_a_kind_is_found_under_any_served_version() -> None:
    cluster: Any = SimpleNamespace(kinds=ServedKinds(CONFIG_MAP, NEW))
    kinds = ["v1/ConfigMap", "example.org/v1beta1/Gadget", "example.org/v1/Gadget", "other.org/v1/Gadget"]
    assert revision_builder.find_served_kinds(cluster, kinds) == [NEW, CONFIG_MAP]


# ---------------------------------------------------------------- numbers: none is ever given to two definitions


def test_the_next_number_is_the_one_after_the_highest() -> None:
    numbers = RevisionNumbers()
    numbers.take([2, 7])
    numbers.take([3])
    numbers.take([])
    assert numbers.assign("a") == 8


def test_repeated_attempts_get_the_same_number() -> None:
    numbers = RevisionNumbers()
    assert [numbers.assign("a"), numbers.assign("a")] == [1, 1]


def test_another_definition_gets_another_number() -> None:
    numbers = RevisionNumbers()
    assert [numbers.assign("a"), numbers.assign("b"), numbers.assign("a")] == [1, 2, 3]


def test_a_number_that_others_use_is_left_to_them() -> None:
    numbers = RevisionNumbers()
    assert numbers.assign("a") == 1
    numbers.take([4])
    assert numbers.assign("a") == 5


# ---------------------------------------------------------------- one template for many Stacks

FREE: dict[str, Any] = {"data": {"a": "${params.x}"}}


class Served:
    """The part of the port `Cluster` that compiling needs."""

    def __init__(self) -> None:
        self.kinds = ServedKinds(CONFIG_MAP)
        self.loaded: list[Collection[Kind]] = []
        self.appears: Kind | None = None
        """A kind that is served after the first load."""

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        self.loaded.append(kinds)
        if self.appears is not None:
            self.kinds.served[self.appears.api_version, self.appears.name] = self.appears


class Office:
    """Compiles definitions of Stacks."""

    def __init__(self) -> None:
        self.cluster = Served()
        self._builder = RevisionBuilder(management_cluster=None, cluster=self.cluster, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that compiling uses

    def compile(self, name: str, *manifests: Any, namespace: str = "shop", x: object = "1", **spec: Any) -> Blueprint:
        """The blueprint of a Stack with these ConfigMaps."""
        resources = {f"r{at}": {"manifest": make(manifest)} for at, manifest in enumerate(manifests)}
        template = {"parameters": {"x": {}}, "resources": resources}
        return self.compile_definition(name, Definition(template=template, parameters={"x": x}), namespace, **spec)

    def compile_definition(self, name: str, definition: Definition, namespace: str = "shop", **spec: Any) -> Blueprint:
        """The blueprint of a Stack with that definition."""
        stack = stack_objects.make_stack(
            name=name, namespace=namespace, uid=f"uid-{namespace}-{name}", packed_spec=packing.pack(spec)
        )
        return asyncio.run(self._builder.compile(definition, stack))


def make(manifest: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", **manifest}


def named(name: str, **metadata: str) -> dict[str, Any]:
    """A resource with an explicit name."""
    return {"metadata": {"name": name, **metadata}}


def placed(namespace: str) -> dict[str, Any]:
    """A resource with an explicit namespace."""
    return {"metadata": {"namespace": namespace}}


@pytest.mark.parametrize(
    ("manifests", "within", "everywhere"),
    [
        ([FREE], True, True),
        ([{"data": {"a": "${stack.namespace}"}}], True, False),
        ([{"data": {"a": "${stack.name}"}}], False, False),
        ([{"data": {"a": "${r1.metadata.name}-${stack.uid}"}}, FREE], False, False),
        ([{"data": {"a": "${stack}"}}], False, False),
        ([named("a"), named("b")], True, True),
        ([named("a"), FREE], False, False),
        ([named("a"), named("a", namespace="other")], True, False),
        ([placed("other"), FREE], True, False),
    ],
    ids=[
        "nothing of the Stack in it",
        "its namespace",
        "its name",
        "its UID, beside another resource",
        "all of it",
        "every name stated",
        "a name that may be one made of a Stack's",
        "a name in two namespaces, one of them the Stack's",
        "a namespace that may be the Stack's",
    ],
)
def test_a_blueprint_serves_whom_it_fits(manifests: list[dict[str, Any]], *, within: bool, everywhere: bool) -> None:
    office = Office()
    one = office.compile("one", *manifests)
    assert (office.compile("two", *manifests) is one) is within
    assert (office.compile("one", *manifests, namespace="other-shop") is one) is everywhere


def test_what_is_shared_is_what_would_be_compiled() -> None:
    manifest = {"data": {"a": "${stack.namespace}"}}
    office = Office()
    office.compile("one", manifest)
    found = office.compile("two", manifest, namespace="other").resources["r0"].manifest.evaluate({})
    assert found == Known(make({"data": {"a": "other"}}))


def test_two_of_one_name_are_found_in_the_namespace_where_they_meet() -> None:
    office = Office()
    manifests = [named("a"), named("a", namespace="other")]
    kept = office.compile("one", *manifests)
    with pytest.raises(InvalidDefinition, match="which the resource 'r0' also names"):
        office.compile("one", *manifests, namespace="other")
    assert len(kept.resources) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"x": "2"},
        {"x": 1},
        {"adoptionPolicy": "Adopt"},
    ],
    ids=["another value", "one that only looks the same", "what the Stack says of adoption"],
)
def test_another_definition_is_compiled(change: dict[str, Any]) -> None:
    office = Office()
    one = office.compile("one", FREE)
    assert office.compile("two", FREE, **change) is not one


def test_what_a_secret_gave_is_not_shared_as_if_it_were_plain() -> None:
    office = Office()
    template = {"parameters": {"x": {"type": "string"}}, "resources": {"r0": {"manifest": make(FREE)}}}
    origin = Origin(kind="Secret", name="s", key="x", place="spec.parametersFrom[0]")
    plain = office.compile_definition("one", Definition(template=template, parameters={"x": "long-enough"}))
    sensitive = Definition(template=template, parameters={"x": "long-enough"}, origins={"x": origin})
    found = office.compile_definition("two", sensitive)
    assert (plain.sensitive_texts, found.sensitive_texts) == (frozenset(), frozenset({"long-enough"}))


def test_a_changed_kind_compiles_everything_again() -> None:
    office = Office()
    one = office.compile("one", FREE)
    office.cluster.kinds.generation += 1
    assert office.compile("two", FREE) is not one


def test_the_schema_of_a_kind_that_appears_while_others_are_loaded_is_loaded_too() -> None:
    office = Office()
    office.cluster.appears = NEW
    office.compile("one", FREE, {"apiVersion": NEW.api_version, "kind": NEW.name})
    assert office.cluster.loaded == [[CONFIG_MAP], [CONFIG_MAP, NEW]]


def test_the_order_of_the_resources_is_the_definitions_own() -> None:
    office = Office()
    manifests = {"b": {"manifest": make(FREE)}, "a": {"manifest": make(FREE)}}
    orders = [manifests, dict(sorted(manifests.items()))]
    kept = [
        office.compile_definition(
            "one", Definition(template={"parameters": {"x": {}}, "resources": each}, parameters={"x": "1"})
        )
        for each in orders
    ]
    assert [list(each.resources) for each in kept] == [["b", "a"], ["a", "b"]]


def test_what_no_stack_uses_is_forgotten() -> None:
    office = Office()
    one = office.compile("one", FREE)
    assert office.compile("two", FREE) is one
    resources = one.resources
    del one
    gc.collect()
    assert office.compile("three", FREE).resources is not resources


# ---------------------------------------------------------------- forgotten revisions


def make_revisions(*kinds: str) -> list[Revision]:
    """Revisions numbered from 1, each with the kinds in a text, one letter per kind."""
    return [
        Revision(name=f"r{number}", number=number, hash=str(number), kinds=frozenset(letters))
        for number, letters in enumerate(kinds, 1)
    ]


@pytest.mark.parametrize(
    ("count", "needed", "limit", "expected"),
    [
        (3, {3}, 10, []),
        (5, {5}, 2, [1, 2]),
        (5, {5, 1}, 2, [2, 3]),
        (5, {5, 4, 3}, 1, [1, 2]),
        (3, {3, 2}, 0, [1]),
        (3, {1, 2, 3}, 0, []),
    ],
    ids=["few", "the oldest", "not what is needed", "needed ones count", "none besides", "all needed"],
)
def test_the_oldest_beyond_the_limit_go(count: int, needed: set[int], limit: int, expected: list[int]) -> None:
    found = stack_revisions.find_expired(make_revisions(*["a"] * count), needed=needed, limit=limit)
    assert [each.number for each in found] == expected


def test_what_alone_remembers_a_kind_stays() -> None:
    found = stack_revisions.find_expired(make_revisions("a", "ab", "a", "a"), needed={4}, limit=0)
    assert [each.number for each in found] == [1, 3]


# ---------------------------------------------------------------- places that namespaces share in turns


class Users:
    """Coroutines that each hold a place until a test releases it."""

    def __init__(self, places: int) -> None:
        self.slots = FairSlots(places)
        self.inside: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def enter(self, namespace: str, name: str) -> asyncio.Task[None]:
        async def use() -> None:
            async with self.slots.take(namespace):
                self.inside.append(name)
                await self.ends.setdefault(name, asyncio.Event()).wait()

        return asyncio.create_task(use())


async def turn() -> None:
    """Let all runnable tasks continue."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_namespace_leaves_a_place_and_others_come_first() -> None:
    users = Users(4)
    tasks = [users.enter("a", f"a{number}") for number in range(10)]
    await turn()
    assert users.inside == ["a0", "a1", "a2"]
    assert users.slots.locked()
    tasks.append(users.enter("b", "b0"))
    tasks.append(users.enter("c", "c0"))
    await turn()
    assert users.inside[3:] == ["b0"]
    users.ends["a0"].set()
    await turn()
    assert users.inside[4:] == ["c0"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not users.slots.locked()


async def test_who_is_canceled_leaves_no_place_taken() -> None:
    users = Users(1)
    first, second, third = (users.enter("a", name) for name in "xyz")
    await turn()
    users.ends["x"].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second.cancel()
    await turn()
    assert users.inside[-1] == "z"
    third.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    fourth = users.enter("b", "w")
    await turn()
    assert users.inside[-1] == "w"
    fourth.cancel()


async def test_long_work_of_one_namespace_takes_one_turn_among_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative_work, "CHUNKS_PER_YIELD", 1)
    turns, done = FairSlots(1), list[str]()

    def work(name: str) -> Generator[None, None, None]:
        for _ in range(5):
            done.append(name)
            yield

    async def share(namespace: str) -> None:
        await cooperative_work.finish(work(namespace), take_turn=lambda: turns.take(namespace))

    await asyncio.gather(*(share("many") for _ in range(10)), share("other"))
    last = max(at for at, name in enumerate(done) if name == "other")
    assert done.count("other") == 5
    assert (
        last <= 25
    )  # Ten first chunks are already waiting; after them, every second chunk belongs to the other namespace.


# ---------------------------------------------------------------- some at a time, bit by bit

SECONDS = 0.1
"""Server seconds for each of many concurrent requests."""


async def test_work_in_pieces_leaves_room_for_others() -> None:
    turns: list[int] = []
    done = 0

    def work() -> Generator[None, None, str]:
        nonlocal done
        for number in range(1, 10 * CHUNKS_PER_YIELD):
            done = number
            yield
        return "made"

    async def look() -> None:
        while not turns or turns[-1] < done:
            turns.append(done)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    assert await turns_module.finish(work()) == "made"
    await looking
    assert len(turns) >= 9
    assert max(later - sooner for sooner, later in itertools.pairwise(turns)) <= CHUNKS_PER_YIELD


def make_stack(name: str) -> Object:
    template = {"resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}}}
    return stack_manifests.make_stack({"template": template}, name=name)


@fake_world.in_world
async def test_where_many_stacks_are_made_at_once_others_need_not_wait_for_their_revisions(world: FakeWorld) -> None:
    heard: list[tuple[float, Request]] = []
    begun = asyncio.get_running_loop().time
    await world.start_controller()
    old = Address.of(await world.user.create(make_stack("old")))
    await asyncio.sleep(5)
    world.controllers[0].wire.desk = Desk(places=1000, seconds=SECONDS)
    world.traffic.listeners.append(lambda request: heard.append((begun(), request)))
    since = begun()
    for number in range(MAX_CONCURRENT_BUILDS + 4):
        await world.user.create(make_stack(f"new{number}"))
    await asyncio.sleep(SECONDS / 2)
    await world.user.delete(old)
    await asyncio.sleep(5)

    finalizers = [moment - since for moment, request in heard if request.verb == "finalizer"]
    assert (
        sum(moment < 1.5 * SECONDS for moment in finalizers) == MAX_CONCURRENT_BUILDS - 1
    )  # One place is left to other namespaces.
    gone = next(moment - since for moment, request in heard if request.verb == "delete")
    # One request checks whether the deletion keeps the objects, and one deletes the first object.
    assert gone < 2.6 * SECONDS
    assert await world.user.find(old) is None
