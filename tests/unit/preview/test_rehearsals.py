"""Rehearsals on the fake world: what comes back, what does not, and where the change was interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hearth.cli.stack_views import rehearsal_output
from hearth.engine.ports import Evaluations
from hearth.engine.work_queue import WorkQueue
from hearth.model.child import Object
from hearth.plan.resource.reversal import UndoGrade
from hearth.preview import previews, rehearsals
from hearth.preview.changes import Action
from hearth.preview.rehearsals import Rehearsal
from support.fake_world import fake_world, preview_of
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_live_cluster import FakeLiveCluster
from support.stories import probe_controller, stack_manifests
from support.units.in_process import InProcess


@contextlib.asynccontextmanager
async def evaluating() -> AsyncIterator[Callable[[WorkQueue], Evaluations]]:
    yield lambda _queue: InProcess()


def resource(kind: str, *, api_version: str = "v1", keys: Object | None = None, **manifest: Any) -> Object:
    return {"manifest": {"apiVersion": api_version, "kind": kind, **manifest}, **(keys or {})}


def config(**data: str) -> Object:
    return resource("ConfigMap", data=data)


def claim(size: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return resource("PersistentVolumeClaim", spec=spec, keys={"readyWhen": ["true"]})


def job(image: str) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}
    return resource("Job", api_version="batch/v1", spec={"template": {"spec": pod}})


def rehearse(before: Object | None, after: Object, **options: Any) -> Rehearsal:
    """The rehearsal of an edit of a Stack at rest. before, after: the resources; options: of the edited spec."""
    found: list[Rehearsal] = []

    async def test(world: FakeWorld) -> None:
        await world.start_controller()
        if before is not None:
            await world.user.create(stack_manifests.make_stack({"template": {"resources": before}}))
            await asyncio.sleep(200)
        version = world.server.version
        request = preview_of.make_request(world.server, {"template": {"resources": after}, **options})
        found.append(
            await rehearsals.rehearse(
                FakeLiveCluster(world.server), request, now=preview_of.NOW, open_evaluations=evaluating
            )
        )
        assert world.server.version == version

    fake_world.run(test)
    return found[0]


def test_changed_fields_come_back_after_every_step() -> None:
    made = rehearse(
        {"a": config(v="x"), "b": config(v="${a.data.v}")}, {"a": config(v="y"), "b": config(v="${a.data.v}")}
    )
    assert made.total == 2
    assert [(each.steps, each.is_reverted) for each in made.interruptions] == [(0, True), (1, True), (2, True)]
    assert [f"{each.last.verb} {each.last.ref}" for each in made.interruptions if each.last is not None] == [
        "update configmap/shop-a",
        "update configmap/shop-b",
    ]


def test_the_lines_name_each_step_and_what_does_not_come_back() -> None:
    made = rehearse({"a": config(v="x"), "b": config(v="y")}, {"a": config(v="x")})
    lines = ["".join(text for text, _ in line) for line in rehearsal_output.list_lines(made)]
    assert lines[1:] == [
        "after 0 of 1 steps: back as before",
        "after 1 of 1 steps (delete configmap/shop-b): does not come back completely",
        "  b (configmap/shop-b) is a new object",
        "  b (configmap/shop-b) is graded recreates",
        "something does not come back after 1 of 2 interruptions; the grade of the change is recreates",
        rehearsal_output.LIMITS,
    ]
    assert [each["reverted"] for each in rehearsal_output.to_output(made)["interruptions"]] == [True, False]


def test_a_value_known_after_another_object_is_ready_comes_back() -> None:
    read = config(v="${p.status.value}")
    before, after = ({"p": {"manifest": probe_controller.manifest({"value": value})}, "b": read} for value in (1, 2))
    assert rehearse(before, after).is_reverted


def test_a_deleted_object_comes_back_as_a_new_one() -> None:
    made = rehearse({"a": config(v="x"), "b": config(v="y")}, {"a": config(v="x")})
    assert [[each.action for each in one.differences] for one in made.interruptions] == [[], [Action.REPLACE]]
    assert not made.is_reverted


def test_a_created_object_is_deleted() -> None:
    assert rehearse({"a": config(v="x")}, {"a": config(v="x"), "b": config(v="y")}).is_reverted


def test_a_retained_object_is_left_behind() -> None:
    kept = resource("ConfigMap", data={"v": "y"}, keys={"deletionPolicy": "Retain"})
    made = rehearse({"a": config(v="x")}, {"a": config(v="x"), "b": kept})
    assert [one.is_reverted for one in made.interruptions] == [True, False]


def test_the_rollback_of_a_larger_claim_fails() -> None:
    made = rehearse({"c": claim("1Gi")}, {"c": claim("2Gi")})
    assert "field can not be less than status.capacity" in made.interruptions[-1].failures[0]
    assert [(each.text, each.old, each.new) for each in made.interruptions[-1].differences[0].fields] == [
        ("spec.resources.requests.storage", "1Gi", "2Gi")
    ]


def test_the_work_of_a_job_does_not_come_back() -> None:
    made = rehearse({"a": config(v="x")}, {"a": config(v="x"), "run": job("one")})
    assert [each.undo.grade for each in made.interruptions[-1].irreversible if each.undo] == [UndoGrade.ONE_WAY]
    assert made.interruptions[0].is_reverted


def test_a_new_stack_is_deleted_with_its_objects() -> None:
    made = rehearse(None, {"a": config(v="x"), "b": config(v="y")})
    assert made.total == 2
    assert made.is_reverted


def test_many_steps_are_chosen_evenly() -> None:
    chosen = rehearsals.choose_limits(1000, most=50)
    assert (len(chosen), chosen[0], chosen[-1]) == (50, 0, 1000)
    assert {later - earlier for earlier, later in itertools.pairwise(chosen)} <= {20, 21}


@pytest.mark.parametrize("total", [0, 1, 49])
def test_few_steps_are_all_rehearsed(total: int) -> None:
    assert rehearsals.choose_limits(total, most=50) == list(range(total + 1))


def test_a_change_that_waits_for_consent_is_not_rehearsed() -> None:
    made = rehearse({"a": config(v="x"), "b": claim("1Gi")}, {"a": config(v="x")}, maxRemoved=0)

    assert not made.is_reverted
    assert [(each.resource, each.action) for each in made.unrehearsed] == [("b", Action.STOP)]
    text = "\n".join("".join(part for part, _ in line) for line in rehearsal_output.list_lines(made))
    assert "not rehearsed: b (" in text
    assert "not everything is rehearsed; the rest comes back" in text


@pytest.mark.parametrize("option", ["paused", "suspended"])
def test_a_change_that_is_not_applied_cannot_be_rehearsed(option: str) -> None:
    with pytest.raises(previews.PreviewFailed, match=f"spec.{option} is true"):
        rehearse({"a": config(v="x")}, {"a": config(v="y")}, **{option: True})


def test_a_stack_in_progress_cannot_be_rehearsed() -> None:
    waiting = resource("PersistentVolumeClaim", spec={}, keys={"readyWhen": ["false"]})
    with pytest.raises(previews.PreviewFailed, match="is in phase CreateInProgress"):
        rehearse({"a": waiting}, {"a": config(v="y")})
