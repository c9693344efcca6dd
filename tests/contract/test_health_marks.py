"""Marks on objects and in HealthMarks: reads and writes. On the fake and on a real API server."""

from __future__ import annotations

import pytest

from contract import bench as benches
from contract.bench import CONFIG_MAP, Bench
from hearth.engine.cluster_objects import HealthMarkObject
from hearth.model import names
from hearth.model.child import Object
from support.stories.world import Address


def annotation(live: Object) -> object:
    """The mark annotations of an object."""
    return (live["metadata"].get("annotations") or {}).get(names.ANNOTATION_UNHEALTHY)


async def test_a_mark_is_written_and_seen_at_once(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP)
    child = await bench.apply(bench.config(a="1"))
    marked = await bench.cluster.mark(child, "bad")
    cached = bench.cached("web")
    assert (
        marked and marked.unhealthy_reason,
        cached and cached.unhealthy_reason,
        annotation(await bench.live(bench.config())),
    ) == ("bad",) * 3
    assert marked is not None
    healthy = await bench.cluster.mark(marked, None)
    assert (healthy and healthy.unhealthy_reason, annotation(await bench.live(bench.config()))) == (None, None)


async def test_an_apply_leaves_a_mark_alone(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    marked = await bench.cluster.mark(child, "bad")
    applied = await bench.apply(bench.config(a="2"))
    assert applied.unhealthy_reason == "bad"
    assert marked is not None
    assert marked.ownership == child.ownership


async def test_a_mark_on_what_changed_meanwhile(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    await bench.user.patch(Address.of(bench.config()), {"data": {"b": "2"}})
    await bench.cluster.mark(child, "bad")
    live = await bench.live(bench.config())
    assert (annotation(live), live["data"]) == ("bad", {"a": "1", "b": "2"})


async def test_a_mark_never_touches_another_object_of_that_name(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    await bench.user.delete(Address.of(bench.config()))
    assert await bench.cluster.mark(child, "bad") is None
    other = await bench.user.create(bench.config(a="2"))
    assert await bench.cluster.mark(child, "bad") is None
    assert await bench.live(bench.config()) == other


async def test_what_was_adopted_by_another_stack_is_not_marked(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    theirs = {**child.fields["metadata"]["labels"], names.LABEL_STACK_UID: "00000000-0000-0000-0000-000000000002"}
    await bench.apply(bench.config(metadata={"labels": theirs}, a="1"), manager=benches.THEIRS)
    assert await bench.cluster.mark(child, "bad") is None
    assert annotation(await bench.live(bench.config())) is None


@pytest.fixture
async def made(bench: Bench) -> Object:
    """A HealthMark, as soon as the cache shows it."""
    raw = await bench.user.create(
        {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": "HealthMark",
            "metadata": {"name": "bad", "namespace": bench.namespace},
            "spec": {"stackName": "shop", "resource": "web", "markUnhealthy": True},
        }
    )
    await bench.until(lambda: raw["metadata"]["uid"] in bench.marks.marks())
    return raw


def find(bench: Bench, made: Object) -> HealthMarkObject:
    """The mark as the cache shows it."""
    mark = bench.marks.find_mark(made["metadata"]["uid"])
    assert mark is not None
    return mark


async def test_a_health_mark_is_shown_and_reported(bench: Bench, made: Object) -> None:
    mark = find(bench, made)
    assert (mark.name, mark.namespace, mark.generation) == ("bad", bench.namespace, 1)
    assert mark.status == {"observedGeneration": -1}
    assert (mark.spec, bench.ears.marks) == (made["spec"], [mark.uid])
    assert mark.written_at >= made["metadata"]["creationTimestamp"]


async def test_a_new_word_is_reported(bench: Bench, made: Object) -> None:
    await bench.user.patch(Address.of(made), {"spec": {"markUnhealthy": False}})
    await bench.until(lambda: find(bench, made).generation == 2)
    await bench.user.delete(Address.of(made))
    await bench.until(lambda: bench.marks.find_mark(made["metadata"]["uid"]) is None)
    assert bench.ears.marks == [made["metadata"]["uid"]] * 3


async def test_own_status_is_shown_at_once(bench: Bench, made: Object) -> None:
    await bench.marks.write_mark_status(find(bench, made), {"observedUID": "u1", "observedGeneration": 1})
    mark = find(bench, made)
    assert (mark.status, mark.generation) == ({"observedUID": "u1", "observedGeneration": 1}, 1)


async def test_a_status_is_not_written_over_a_new_word(bench: Bench, made: Object) -> None:
    before = find(bench, made)
    await bench.user.patch(Address.of(made), {"spec": {"markUnhealthy": False}})
    assert (await benches.refused(bench.marks.write_mark_status(before, {"observedUID": "u1"}))).code == 409


async def test_the_status_of_what_is_gone_needs_no_writing(bench: Bench, made: Object) -> None:
    before = find(bench, made)
    await bench.user.delete(Address.of(made))
    await bench.marks.write_mark_status(before, {"observedUID": "u1"})
    assert bench.marks.find_mark(before.uid) is None


async def test_the_annotation_of_a_resolved_mark_is_no_new_word(bench: Bench, made: Object) -> None:
    before = find(bench, made)
    await bench.marks.write_mark_resolution(before, "proof")
    mark = find(bench, made)
    assert (mark.resolution, mark.generation, mark.written_at) == ("proof", before.generation, before.written_at)
