"""The instruments of benchmarks: the objects of a bare loop, the loop itself, completion of Stacks, the machine, and
profiles.
"""

from __future__ import annotations

import asyncio
import cProfile
import itertools
import os
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.cases import ceiling
from bench.instruments import bare_api, lab, profiles, usage, watches, workload
from bench.instruments.bare_api import Disturbed
from bench.instruments.lab import Moment
from bench.instruments.watches import Stacks
from bench.instruments.workload import Workload
from hearth.model import names
from hearth.model.child import Object
from hearth.plan.ownership import keyed_hash

SMALL = Workload(template=workload.make_small_template(), stacks=3)


def test_every_stack_has_its_four_children() -> None:
    children = SMALL.make_children("here", value="one")

    assert SMALL.objects == 12
    assert len({child.path for child in children}) == 12
    assert {child.manifest["metadata"]["namespace"] for child in children} == {"here"}
    assert [kind.name for kind in SMALL.kinds] == ["ConfigMap", "ServiceAccount", "Role", "RoleBinding"]


def test_children_carry_the_labels_and_annotations_of_the_operator() -> None:
    binding = SMALL.make_children("here", value="one")[3].manifest
    metadata = binding["metadata"]

    assert binding["kind"] == "RoleBinding"
    assert metadata["labels"][names.LABEL_RESOURCE] == "binding"
    assert metadata["annotations"][names.ANNOTATION_REQUIRES] == "account/1,role/1"
    assert metadata["annotations"][names.ANNOTATION_HASH]
    assert binding["roleRef"]["name"] == "stack-0-role"


def test_a_change_of_the_parameter_changes_every_child() -> None:
    first, second = SMALL.make_children("here", value="one"), SMALL.make_children("here", value="two")

    assert [child.path for child in first] == [child.path for child in second]
    assert all(one.manifest != two.manifest for one, two in zip(first, second, strict=True))


def test_the_users_change_leads_to_the_changed_children() -> None:
    (stack,) = Workload(template=workload.make_flat_template(2), stacks=1).make_stacks("here")

    assert workload.with_value(stack, "two")["spec"]["parameters"] == workload.make_change("two")["spec"]["parameters"]


def test_a_flat_stack_has_as_many_config_maps_as_were_asked_for() -> None:
    flat = Workload(template=workload.make_flat_template(50), stacks=1)
    children = flat.make_children("here", value="one")

    assert flat.objects == len(children) == 50
    assert [kind.name for kind in flat.kinds] == ["ConfigMap"]
    assert {child.manifest["metadata"]["annotations"][names.ANNOTATION_REQUIRES] for child in children} == {""}


# The bare loop that everything is compared with.


async def test_no_more_are_in_flight_than_asked_for() -> None:
    running, most, done = 0, 0, []

    async def do(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.append(item)

    await bare_api.for_each(range(10), do, in_flight=3)
    assert sorted(done) == list(range(10))
    assert most == 3


async def test_a_pace_counts_every_object() -> None:
    targets = workload.Workload(template=workload.make_flat_template(5), stacks=1).make_children("here", value="one")
    written = []

    async def write(target: workload.Target) -> None:
        written.append(target.path)

    pace = await ceiling.find_pace(targets, write, itertools.count(10.0, 0.5).__next__, in_flight=4)
    assert pace.rate > 0
    assert pace.cpu_ms == 100
    assert sorted(written) == sorted(target.path for target in targets)


def test_reasons_are_found_however_deep() -> None:
    error = ExceptionGroup("", [Disturbed("one"), ExceptionGroup("", [TimeoutError(), aiohttp.ClientError("gone")])])

    assert bare_api.find_reasons(error) == ["one", "TimeoutError", "gone"]


def test_our_own_mistakes_are_not_reported_as_disturbances() -> None:
    with pytest.raises(KeyError):
        bare_api.find_reasons(ExceptionGroup("", [Disturbed("one"), KeyError("ours")]))


# When a benchmark counts Stacks as complete.


def make_event(
    name: str, *, generation: int = 1, observed: int = 1, ready: str = "True", type_: str = "MODIFIED"
) -> Object:
    """An event about a Stack."""
    status: Any = {"observedGeneration": observed, "conditions": [{"type": "Ready", "status": ready}]}
    return {"type": type_, "object": {"metadata": {"name": name, "generation": generation}, "status": status}}


@pytest.mark.parametrize(
    ("event", "reached"),
    [
        pytest.param(make_event("a", generation=2, observed=2), 2, id="as wanted"),
        pytest.param(make_event("a", generation=2, observed=1), 0, id="the status speaks of an older target"),
        pytest.param(make_event("a", ready="False"), 0, id="not ready"),
        pytest.param({"object": {"metadata": {"generation": 1}}}, 0, id="no status yet"),
    ],
)
def test_what_a_stack_has_reached(event: Object, reached: int) -> None:
    assert watches.find_reached(event["object"]) == reached


async def test_waiting_ends_with_the_last_stack() -> None:
    stacks = Stacks()
    stacks.take(make_event("a", generation=2, observed=2))
    stacks.take(make_event("b"))
    waiting = asyncio.create_task(stacks.wait_settled(2, generation=2))
    await asyncio.sleep(0)

    assert not waiting.done()
    stacks.take(make_event("b", generation=2, observed=2))
    await asyncio.wait_for(waiting, 1)


def test_a_stack_that_is_no_longer_ready_does_not_count() -> None:
    stacks = Stacks()
    for ready in ("True", "False", "True", "False"):
        stacks.take(make_event("a", ready=ready))

    assert stacks.count_settled(1) == 0


async def test_waiting_for_all_to_be_gone() -> None:
    stacks = Stacks()
    await stacks.wait_gone()
    stacks.take(make_event("a", type_="ADDED"))
    waiting = asyncio.create_task(stacks.wait_gone())
    await asyncio.sleep(0)

    assert not waiting.done()
    stacks.take(make_event("a", type_="DELETED"))
    await asyncio.wait_for(waiting, 1)


# Reading processes and the machine.


def make_moment(*, machine: float, known: float) -> Moment:
    """Only CPU matters here."""
    return Moment(
        time=0.0, machine_cpu=machine, known_cpu=known, control_plane_cpu=0.0, operator_cpu=0.0, requests=Counter()
    )


def test_the_name_of_a_process_does_not_confuse() -> None:
    assert usage.parse_cpu("7 (a) b) S 1 7 7 0 -1 4194560 10 0 0 0 250 50 9 9 20 0 1") == 300


def test_waiting_is_no_work() -> None:
    assert usage.parse_machine_cpu("cpu  10 1 5 9999 888 2 3 4 0 0\ncpu0 1 1 1 1") == 25


def test_our_own_process_uses_something() -> None:
    assert usage.read_peak_memory(os.getpid()) > 1024 * 1024
    assert usage.read_cpu([os.getpid()]) > 0
    assert usage.read_machine_cpu() > usage.read_cpu([os.getpid()])


def test_a_process_that_is_gone_uses_nothing() -> None:
    assert usage.read_cpu([2**22 + 1]) == 0
    assert usage.read_peak_memory(2**22 + 1) == 0


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        pytest.param((10, 10), (20, 20), 0.0, id="all of it was ours"),
        pytest.param((10, 10), (20, 15), 0.5, id="half of it was ours"),
        pytest.param((10, 10), (20, 21), 0.0, id="rounding gives no negative share"),
        pytest.param((10, 10), (10, 10), 0.0, id="nothing happened"),
    ],
)
def test_what_others_took(before: tuple[int, int], after: tuple[int, int], share: float) -> None:
    moments = [make_moment(machine=machine, known=known) for machine, known in (before, after)]
    assert lab.find_others_share(*moments) == pytest.approx(share)


# The contents of a profile.


def test_the_slowest_functions_come_first(tmp_path: Path) -> None:
    file = tmp_path / "some.prof"
    profile = cProfile.Profile()
    hasher = keyed_hash.KeyedHasher(b"0123456789abcdef")
    profile.runcall(lambda: [hasher.hash({"a": [1.5, number]}) for number in range(50)])
    profile.dump_stats(file)

    own, ours = profiles.describe(file, shown=2).split("our own functions")
    assert own.count(" calls ") == 2
    assert ours.count(" calls ") == 2
    assert "50 calls  hash  (plan/ownership/keyed_hash.py:" in ours.splitlines()[1]


def test_the_frame_around_everything_tells_nothing() -> None:
    ours = Path(profiles.OURS)
    inside, outside = str(ours / "plan" / "stack" / "stack_planner.py"), str(ours / "app.py")

    assert profiles.is_telling((inside, 1, "refresh"))
    assert not profiles.is_telling((outside, 1, "run"))
    assert [each for each in profiles.FRAME if not (ours / each).exists()] == []
    assert not profiles.is_telling(("~", 0, "<built-in>"))
