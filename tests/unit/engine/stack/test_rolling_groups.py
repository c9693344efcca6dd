"""Rolling updates of ten members: the kept, created and deleted members, the size of batches, and the members in
service meanwhile.

In half of the cases the operator is killed every few seconds; the results must be the same.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import probe_controller
from support.stories.world import Address

MEMBERS = 10
READY_AFTER = 5
GROUP = Address(api_version=f"{names.GROUP}/{names.VERSION}", kind="ResourceGroup", namespace="default", name="workers")
LONGEST = 600


@dataclass(slots=True)
class Watcher:
    """Records the members over time."""

    value: str
    """The value in the new definition."""
    most_changing: int = 0
    fewest_in_service: int = MEMBERS
    changed_at: dict[str, float] = field(default_factory=dict)
    """Time when each original member first had the new definition."""

    def look(self, members: list[Object], *, began_with: frozenset[str], now: float) -> None:
        """Record the current members."""
        present = [each for each in members if "deletionTimestamp" not in each["metadata"]]
        ready = {find_index(each) for each in present if is_ready(each)}
        changed = {find_index(each) for each in present if is_new(each, self.value)} & began_with
        for index in changed:
            self.changed_at.setdefault(index, now)
        new_and_ready = {find_index(each) for each in present if is_new(each, self.value) and is_ready(each)}
        self.most_changing = max(self.most_changing, len(changed - new_and_ready))
        self.fewest_in_service = min(self.fewest_in_service, len(ready))


def find_index(member: Object) -> str:
    """The index in the label of a member."""
    return str(member["metadata"]["labels"][names.LABEL_RESOURCE])


def is_ready(member: Object) -> bool:
    """Whether the controller reports readiness for the current generation."""
    status = member.get("status") or {}
    return bool(status.get("ready")) and status.get("observedGeneration") == member["metadata"]["generation"]


def is_new(member: Object, value: str) -> bool:
    return value in (member["spec"].get("value"), member["spec"].get("replaceValue"))


def make_spec(replicas: int, *, least: int, batch: int, pause: str = "0s", **probe: object) -> Object:
    manifest = probe_controller.manifest({"readyAfter": READY_AFTER, **probe})
    rolling = {"minInService": least, "maxBatchSize": batch, "pauseTime": pause}
    template = {"manifest": manifest, "updatePolicy": {"replace": "CreateFirst"}}
    return {"replicas": replicas, "rollingUpdate": rolling, "template": template}


async def find_members(world: FakeWorld, group: Object) -> list[Object]:
    return await world.user.find_children(group["metadata"]["uid"])


async def wait_complete(
    world: FakeWorld, watcher: Watcher | None = None, *, kill_every: float = 0.0, dead_for: float = 0.0
) -> None:
    """Wait until the current spec is complete; the operator is killed meanwhile."""
    loop = asyncio.get_running_loop()
    group = await world.user.find(GROUP) or {}
    began_with = frozenset(find_index(each) for each in await find_members(world, group))
    began, killed_at = loop.time(), loop.time()
    while loop.time() < began + LONGEST:
        await asyncio.sleep(0.2)
        group = await world.user.find(GROUP) or {}
        if watcher is not None:
            watcher.look(await find_members(world, group), began_with=began_with, now=loop.time())
        status = group.get("status") or {}
        is_current = status.get("observedGeneration") == group["metadata"]["generation"]
        if is_current and str(status["phase"]).endswith("Complete"):
            return
        if kill_every and loop.time() > killed_at + kill_every:
            killed_at = loop.time()
            await world.kill_controller()
            await asyncio.sleep(dead_for)
            await world.start_controller()
    raise AssertionError(f"not complete: {group}")


@pytest.mark.parametrize("kill_every", [pytest.param(0.0, id="undisturbed"), pytest.param(3.1, id="killed")])
@pytest.mark.parametrize(
    ("least", "batch", "size", "replaces", "kept", "new", "gone"),
    [
        (1, 3, 10, False, 10, 0, 0),
        (1, 3, 10, True, 0, 10, 0),
        (1, 3, 6, False, 6, 0, 4),
        (1, 3, 12, False, 10, 2, 0),
        (8, 4, 6, False, 6, 0, 4),
        (8, 4, 10, False, 10, 0, 0),
        (8, 4, 10, True, 0, 10, 0),
        (0, 20, 10, False, 10, 0, 0),
        (20, 1, 10, False, 10, 0, 0),
        (20, 1, 10, True, 0, 10, 0),
    ],
)
def test_a_rolling_update(
    least: int, batch: int, size: int, replaces: bool, kept: int, new: int, gone: int, kill_every: float
) -> None:
    field_name = "replaceValue" if replaces else "value"
    watcher = Watcher(value="b")

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        metadata = {"name": GROUP.name, "namespace": GROUP.namespace}
        # A minimum above the size is only reached by scaling.
        spec = make_spec(max(MEMBERS, least), least=least, batch=batch, **{field_name: "a"})
        group = await world.user.create(
            {"apiVersion": GROUP.api_version, "kind": GROUP.kind, "metadata": metadata, "spec": spec}
        )
        await wait_complete(world)
        if least > MEMBERS:
            await world.user.scale(GROUP, MEMBERS, manager="autoscaler")
            await wait_complete(world)
        before = {find_index(each): each["metadata"]["uid"] for each in await find_members(world, group)}
        if least > size < MEMBERS:
            await world.user.scale(GROUP, size, manager="autoscaler")
        await world.user.replace_spec(GROUP, make_spec(size, least=least, batch=batch, **{field_name: "b"}))
        await wait_complete(world, watcher, kill_every=kill_every)
        members = await find_members(world, group)
        after = {find_index(each): each["metadata"]["uid"] for each in members}
        assert sorted(after, key=int) == [str(index) for index in range(size)]
        assert all(is_ready(each) and is_new(each, "b") for each in members)
        same = set(before.items()) & set(after.items())
        assert (len(same), len(after) - len(same), len(before.keys() - after.keys())) == (kept, new, gone)

    fake_world.run(story)
    assert watcher.most_changing <= batch
    assert watcher.fewest_in_service >= min(least, size, MEMBERS)


@pytest.mark.parametrize(
    ("kill_every", "dead_for"),
    [
        pytest.param(0.0, 0.0, id="undisturbed"),
        pytest.param(3.1, 0.0, id="killed"),
        pytest.param(3.1, 4.0, id="dead while a batch ends"),
    ],
)
def test_a_pause_is_never_shorter_than_stated(kill_every: float, dead_for: float) -> None:
    watcher, pause = Watcher(value="b"), 20.0

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        metadata = {"name": GROUP.name, "namespace": GROUP.namespace}
        spec = make_spec(MEMBERS, least=2, batch=4, pause="20s", value="a")
        await world.user.create(
            {"apiVersion": GROUP.api_version, "kind": GROUP.kind, "metadata": metadata, "spec": spec}
        )
        await wait_complete(world)
        await world.user.replace_spec(GROUP, make_spec(MEMBERS, least=2, batch=4, pause="20s", value="b"))
        await wait_complete(world, watcher, kill_every=kill_every, dead_for=dead_for)

    fake_world.run(story)
    times = sorted(watcher.changed_at.values())
    gaps = [later - earlier for earlier, later in itertools.pairwise(times) if later - earlier > READY_AFTER]
    assert len(times) == MEMBERS
    assert gaps
    # Batches do not overlap: each starts one pause after the last member of the previous batch is ready.
    assert min(gaps) >= READY_AFTER + pause - 1
    assert watcher.most_changing <= 4


async def create_complete(world: FakeWorld, spec: Object) -> Object:
    """Create the group of this spec with an earlier template, and wait until it is complete."""
    await world.start_controller()
    metadata = {"name": GROUP.name, "namespace": GROUP.namespace}
    first = {**spec, "template": make_spec(MEMBERS, least=2, batch=4, value="a")["template"]}
    group = await world.user.create(
        {"apiVersion": GROUP.api_version, "kind": GROUP.kind, "metadata": metadata, "spec": first}
    )
    await wait_complete(world)
    return group


@fake_world.in_world
async def test_a_pause_outlasts_a_change_of_the_size_and_no_other_update(world: FakeWorld) -> None:
    watcher, spec = Watcher(value="b"), make_spec(MEMBERS, least=2, batch=4, pause="20s", value="b")
    group = await create_complete(world, spec)
    began = asyncio.get_running_loop().time()
    await world.user.replace_spec(GROUP, spec)
    for size in (9, 8):
        await asyncio.sleep(6)
        await world.user.scale(GROUP, size, manager="autoscaler")
    await asyncio.sleep(7)
    watcher.look(await find_members(world, group), began_with=frozenset("0123456789"), now=began)
    assert sorted(watcher.changed_at) == ["0", "1", "2", "3"]
    await world.user.replace_spec(GROUP, make_spec(8, least=2, batch=4, pause="20s", value="c"))
    await asyncio.sleep(2)
    assert sum(is_new(each, "c") for each in await find_members(world, group)) == 4


@pytest.mark.parametrize("sizes", [pytest.param((9, 8), id="shrinks"), pytest.param((11, 12), id="grows")])
@fake_world.in_world
async def test_a_change_of_the_size_does_not_start_the_pause_again(world: FakeWorld, sizes: tuple[int, ...]) -> None:
    watcher, spec = Watcher(value="b"), make_spec(MEMBERS, least=2, batch=4, pause="20s", value="b")
    group = await create_complete(world, spec)
    began = asyncio.get_running_loop().time()
    await world.user.replace_spec(GROUP, spec)
    for size in sizes:
        await asyncio.sleep(8)
        await world.user.scale(GROUP, size, manager="autoscaler")
    await asyncio.sleep(12)
    # The first batch was ready after 5 s, and the pause over after 25 s.
    watcher.look(await find_members(world, group), began_with=frozenset("0123456789"), now=began)
    assert len(watcher.changed_at) == 8


@pytest.mark.parametrize("rest", [0, 10], ids=["soon after its creation", "unloaded meanwhile"])
@fake_world.in_world
async def test_a_group_that_grows_with_its_template_starts_at_once(world: FakeWorld, rest: float) -> None:
    await world.start_controller()
    metadata = {"name": GROUP.name, "namespace": GROUP.namespace}
    spec = make_spec(4, least=4, batch=2, pause="60s", value="a")
    group = await world.user.create(
        {"apiVersion": GROUP.api_version, "kind": GROUP.kind, "metadata": metadata, "spec": spec}
    )
    await wait_complete(world)
    await asyncio.sleep(rest)
    await world.user.replace_spec(GROUP, make_spec(6, least=6, batch=2, pause="60s", value="b"))
    await asyncio.sleep(30)
    changed = [find_index(each) for each in await find_members(world, group) if is_new(each, "b")]
    assert sorted(changed) == ["0", "1", "4", "5", "6", "7"]
