"""This version adopts objects of released versions without a write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth import supervision
from hearth.kube.objects import installed_crds
from hearth.model import names
from hearth.model.api import crd
from hearth.model.child import Object
from hearth.plan.ownership.keyed_hash import KeyedHasher
from support import repository, virtual_time
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.recordings import recordings
from support.server import fake_kinds, request_faults
from support.stories.world import Address

VERSIONS = pytest.mark.parametrize("folder", recordings.list_versions(), ids=lambda folder: folder.name)
API = f"{names.GROUP}/{names.VERSION}"


def take_up(world: FakeWorld, objects: list[Object]) -> None:
    """Load the objects into a new server."""
    world.server.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": recordings.NAMESPACE}}, manager="test"
    )
    for raw in objects:
        # The fake server counts generations of all kinds.
        world.server.restore({**raw, "metadata": {"generation": 1, **raw["metadata"]}})
    world.hasher = KeyedHasher(recordings.find_key(objects))


def read_all(world: FakeWorld) -> dict[tuple[str, str], Object]:
    """Each object by kind and name, without the words of messages, and without the record in complete snapshots."""
    found = [each for each in world.server.everything() if each[0] != fake_kinds.NAMESPACE.kind]
    objects = {(kind.name, raw["metadata"]["name"]): recordings.mask_words(raw) for kind, raw in found}
    for raw in objects.values():
        annotations = raw["metadata"].get("annotations", {})
        if annotations.pop(names.ANNOTATION_CONTENT, None) is not None and not annotations:
            del raw["metadata"]["annotations"]
    return objects


def run(test: Any) -> list[str]:
    """Run a test in the namespace of the recordings; return the errors that the operator logs."""

    async def in_world() -> None:
        await test(FakeWorld(namespace=recordings.NAMESPACE))

    with fake_world.diary() as mistakes, supervision.using(supervision.Supervisor(jitter=lambda: 0.5)):
        virtual_time.run(in_world)
    return mistakes


@VERSIONS
def test_nothing_is_written(folder: Path) -> None:
    """Stacks, their children, revisions, groups, marks and snapshots stay exactly as they are.

    Only a status with a reworded message is written once, without other changes, and a complete snapshot gets the record
    of its content.
    """
    objects = recordings.load(folder)

    async def test(world: FakeWorld) -> None:
        take_up(world, objects)
        before = read_all(world)
        await world.start_controller()
        await world.wait_rest(no_objection)

        writes = [str(each) for each in world.traffic.requests if each.verb in request_faults.WRITES]
        assert [each for each in writes if not each.startswith("status ")] == []
        assert len(set(writes)) == len(writes)
        assert read_all(world) == before

    assert run(test) == []


@VERSIONS
def test_the_work_continues(folder: Path) -> None:
    objects = recordings.load(folder)

    async def test(world: FakeWorld) -> None:
        take_up(world, objects)
        await world.start_controller()
        shop = Address(api_version=API, kind=names.STACK, namespace=recordings.NAMESPACE, name="shop")
        await world.user.patch(shop, {"spec": {"rollback": {"toRevision": 1}}})
        await world.wait_rest(no_objection)

        found = await world.user.find(shop)
        assert found is not None
        assert found["status"]["phase"] == "RollbackComplete"
        db = next(raw for raw in objects if raw["metadata"]["name"].startswith("shop-db"))
        address = Address.of(db)
        assert (await world.user.find(address) or {})["data"] == {"size": "small"}

    assert run(test) == []


@VERSIONS
def test_a_change_by_another_client_is_noticed(folder: Path) -> None:
    objects = recordings.load(folder)
    shop = next(raw for raw in objects if raw["kind"] == names.STACK and raw["metadata"]["name"] == "shop")
    shop["status"]["target"]["revision"] = 1

    async def test(world: FakeWorld) -> None:
        take_up(world, objects)
        await world.start_controller()
        await world.wait_rest(no_objection)

        assert {each.verb for each in world.traffic.requests if each.verb in request_faults.WRITES} != set()

    run(test)


@VERSIONS
def test_no_field_of_a_released_version_is_gone(folder: Path) -> None:
    earlier = {each["metadata"]["name"]: each for each in yaml.safe_load_all((folder / "crds.yaml").read_text())}
    present = {each["metadata"]["name"]: each for each in crd.make_crds()}

    missing = {name: list(installed_crds.find_missing(each, present[name])) for name, each in earlier.items()}
    assert missing == {name: [] for name in earlier}


@pytest.mark.parametrize("folder", recordings.list_versions(recordings.WRITTEN), ids=lambda folder: folder.name)
def test_what_is_written_once(folder: Path) -> None:
    """Every such object is listed in docs/upgrading.md."""
    objects = recordings.load(folder)

    async def test(world: FakeWorld) -> None:
        take_up(world, objects)
        # The simulated controllers give workloads their Pods.
        await world.wait_rest(no_objection)
        before = read_all(world)
        await world.start_controller()
        await world.wait_rest(no_objection)

        writes = [str(each) for each in world.traffic.requests if each.verb in recordings.WRITES]
        expected = [each for row in recordings.WRITTEN_ONCE.values() for each in row]
        assert sorted(writes) == sorted(expected)
        assert writes.index("change secret/texts-login") < writes.index("apply secret/texts-login")
        reported = {each.name for each in world.traffic.requests if each.verb == "status"}
        assert reported <= recordings.TOLD_IN
        after = read_all(world)
        assert {key: raw["metadata"]["uid"] for key, raw in after.items()} == {
            key: raw["metadata"]["uid"] for key, raw in before.items()
        }
        assert after["Secret", "texts-login"]["data"] == {"user": "YWRtaW4="}
        written = {each.partition("/")[2] for each in expected} | reported
        assert [key for key, raw in after.items() if key[1] not in written and raw != before[key]] == []

        await world.kill_controller()
        sent = len(world.traffic.requests)
        await world.start_controller()
        await world.wait_rest(no_objection)
        assert [str(each) for each in world.traffic.requests[sent:] if each.verb in request_faults.WRITES] == []

    assert run(test) == []


def test_the_table_of_what_is_written_once_has_these_rows() -> None:
    text = (repository.DOCS / "upgrading.md").read_text()
    section = text.partition("## Objects written once after the upgrade")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert {row[0].removeprefix("| "): row[1] == "nothing" for row in rows} == {
        row: not writes for row, writes in recordings.WRITTEN_ONCE.items()
    }


async def no_objection() -> list[str]:
    """Accepts any status."""
    return []
