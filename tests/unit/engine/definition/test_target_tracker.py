"""The target in one process: failed definitions, and only data that this operator signed is read back."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.engine.cluster_objects import Revision
from hearth.engine.definition import target_tracker
from hearth.engine.definition.target_tracker import TargetTracker
from hearth.model.child import Object
from hearth.plan.stack.options import ReconcileOptions
from hearth.plan.target import target_status
from hearth.plan.target.change_hold import ChangeHold, HoldReason
from hearth.plan.target.change_plans import ApprovalPolicy
from hearth.plan.target.target import CompletedRevisions, Target, TargetCause
from hearth.plan.target.target_choice import TargetContext
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import stack_manifests, story
from support.stories.stack_manifests import STACK
from support.stories.world import Address
from support.units import stack_objects


def make_revision(number: int, hashed: str) -> Revision:
    return Revision(name=f"shop-{hashed}", number=number, hash=hashed, kinds=frozenset(), namespace="default")


def make_failed() -> TargetTracker:
    """A tracker whose target, revision 2, has failed after revision 1 was complete."""
    target = Target(revision=2, cause=TargetCause.SPEC, since=0.0, is_first=False)
    tracker = TargetTracker(current=target, completed=CompletedRevisions(last=1))
    tracker.fail("Denied", "as written")
    return tracker


def test_a_failure_is_that_of_the_active_definition() -> None:
    stored = [make_revision(1, "old"), make_revision(2, "failed"), make_revision(2, "lost")]
    choice = make_failed().choose("failed", ReconcileOptions(), revisions=stored, active="failed")
    assert (choice.cause, choice.revision) == (TargetCause.AUTOMATIC, 1)


def test_a_failure_does_not_count_for_another_definition() -> None:
    stored = [make_revision(1, "old"), make_revision(2, "failed")]
    choice = make_failed().choose("new", ReconcileOptions(), revisions=stored, active="failed")
    assert choice.cause is TargetCause.SPEC


def test_a_failure_counts_while_another_definition_waits() -> None:
    stored = [make_revision(1, "old"), make_revision(2, "failed")]
    hold = ChangeHold(reason=HoldReason.WINDOW, until=60.0)

    choice = make_failed().choose("new", ReconcileOptions(), revisions=stored, active="failed", hold=hold)

    assert (choice.cause, choice.revision, choice.failed_hash) == (TargetCause.AUTOMATIC, 1, "failed")


@pytest.mark.parametrize(
    ("has_window", "earlier", "waits"),
    [
        pytest.param(True, 2, True, id="a former revision, which storage does not tell from a change that waits"),
        pytest.param(True, 0, False, id="a new revision"),
        pytest.param(False, 2, False, id="a former revision without a window"),
    ],
)
def test_with_a_window_the_return_to_a_former_revision_is_written_first(
    has_window: bool, earlier: int, waits: bool
) -> None:
    target = Target(revision=1, cause=TargetCause.SPEC, since=0.0, earlier_revision=earlier)
    tracker = TargetTracker(current=target, has_window=has_window)

    assert tracker.is_persisted is not waits
    tracker.on_status_written(target_status.encode(target))
    assert tracker.is_persisted


def test_another_plan_of_the_same_target_is_written_first() -> None:
    target = Target(revision=1, cause=TargetCause.SPEC, since=0.0)
    tracker = TargetTracker(current=target, handled={target_tracker.APPROVAL: "first"})
    assert tracker.on_status_written({**target_status.encode(target), "handled": dict(tracker.handled)})

    tracker.record_approval("second", ApprovalPolicy())
    assert not tracker.is_persisted
    assert tracker.on_status_written({**target_status.encode(target), "handled": dict(tracker.handled)})


def make_rolled_back() -> TargetTracker:
    """A tracker whose target is revision 1, because revision 2 failed."""
    target = Target(revision=1, cause=TargetCause.AUTOMATIC, since=0.0, is_completed=True, failed_hash="failed")
    return TargetTracker(current=target, completed=CompletedRevisions(last=1))


def test_a_retry_requested_during_a_choice_counts_for_the_next_one() -> None:
    stored = [make_revision(1, "old"), make_revision(2, "failed")]
    tracker = make_rolled_back()
    choice = tracker.choose("failed", ReconcileOptions(), revisions=stored, active="old")
    tracker.request_retry(ends_rollback=False)
    tracker.start(choice, revision=1, context=TargetContext(now=1.0))
    choice = tracker.choose("failed", ReconcileOptions(), revisions=stored, active="old")
    assert choice.cause is TargetCause.SPEC
    tracker.start(choice, revision=2, context=TargetContext(now=2.0))
    tracker.complete()
    again = tracker.choose("failed", ReconcileOptions(), revisions=stored, active="failed")
    assert again.cause is TargetCause.SPEC


def take(tracker: TargetTracker, *, is_settled: bool = True, **tokens: str) -> list[str]:
    """The requests that a Stack with these tokens makes."""
    annotations = {target_tracker.REQUESTS[verb]: token for verb, token in tokens.items()}
    return tracker.take_requests(stack_objects.make_stack(annotations=annotations), is_settled=is_settled)


def test_a_retry_is_persisted_once_the_definition_was_processed_for_it() -> None:
    tracker = TargetTracker(handled={"retry": "1", "cleanup": "a"})
    assert take(tracker, retry="2") == ["retry"]
    assert take(tracker, retry="2") == []
    assert tracker.find_persisted_tokens() == {"retry": "1", "cleanup": "a"}
    assert take(tracker, retry="3") == ["retry"]
    assert tracker.find_persisted_tokens() == {"retry": "1", "cleanup": "a"}
    tracker.end_retry()
    assert tracker.find_persisted_tokens() == {"retry": "3", "cleanup": "a"}
    assert tracker.find_persisted_tokens(has_open_runs=True) == {"retry": "1", "cleanup": "a"}


def test_a_cleanup_waits_for_the_target_of_the_present_spec() -> None:
    tracker = TargetTracker()
    assert take(tracker, cleanup="a", is_settled=False) == []
    assert take(tracker, cleanup="a", retry="1") == ["retry"]
    assert take(tracker, cleanup="a", retry="1") == ["cleanup"]


# ---------------------------------------------------------------- forged statuses have no effect

CHILD = Address(api_version="v1", kind="ConfigMap", namespace="default", name="shop-a")
KIND = fake_kinds.STACK.kind


def make_spec(value: str, **more: object) -> Object:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value}}
    return {"template": {"resources": {"a": {"manifest": manifest}}}, **more}


async def begin(world: FakeWorld, **more: object) -> Object:
    """Create a Stack at revision 2; return its status."""
    await world.start_controller()
    await world.user.create(stack_manifests.make_stack(make_spec("1", **more)))
    await world.wait_rest()
    await world.user.replace_spec(STACK, make_spec("2", **more))
    await world.wait_rest()
    return await read_status(world)


async def read_status(world: FakeWorld) -> Object:
    status: Object = (await world.user.find(STACK) or {})["status"]
    return status


async def read_data(world: FakeWorld) -> Object:
    data: Object = (await world.user.find(CHILD) or {})["data"]
    return data


async def restart_with(world: FakeWorld, status: Object) -> None:
    """Start another process that reads this from the status."""
    await world.kill_controller()
    world.server.patch_status(KIND, STACK.namespace, STACK.name, status, manager="forger")
    await world.start_controller()
    await world.wait_rest()


ROLLBACK: Object = {"revision": 1, "cause": "AutomaticRollback", "since": "2026-01-01T00:00:00Z", "message": "forged"}
LATE = "9999-12-31T23:59:59-23:59"


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"target": ROLLBACK}, id="an automatic rollback"),
        pytest.param(
            {
                "target": {**ROLLBACK, "cause": "Rollback"},
                "controllerState": {"rollback": {"toRevision": 1, "specHash": "", "revision": 1}},
            },
            id="an order to go back",
        ),
        pytest.param({"target": {**ROLLBACK, "revision": 0}}, id="a rollback to nothing"),
        pytest.param({"target": {**ROLLBACK, "cause": "Spec", "since": LATE}}, id="a time that cannot be written"),
        pytest.param({"target": None}, id="no target"),
        pytest.param({"lastCompletedRevision": 1}, id="another last revision"),
        pytest.param({"signature": None}, id="no signature"),
        pytest.param({"signature": "k12345678:" + "a" * 32}, id="another signature"),
    ],
)
@fake_world.in_world
async def test_a_forged_status_decides_nothing(world: FakeWorld, forged: Object) -> None:
    await begin(world)
    child = await world.user.find(CHILD)
    await restart_with(world, forged)
    status = await read_status(world)
    assert (await world.user.find(CHILD), status["revision"], status["target"]["cause"]) == (child, 2, "Spec")
    assert (status["lastCompletedRevision"], status["phase"]) == (2, "UpdateComplete")


@fake_world.in_world
async def test_other_fields_of_a_status_may_be_written(world: FakeWorld) -> None:
    before = await begin(world)
    await restart_with(world, {"summary": "forged", "resources": None, "conditions": []})
    after = await read_status(world)
    assert (after["target"], after["signature"]) == (before["target"], before["signature"])
    assert ("historyUnknown" in after, after["summary"]) == (False, "1/1")


@fake_world.in_world
async def test_the_status_of_another_stack_does_not_count(world: FakeWorld) -> None:
    await begin(world)
    other = dataclasses.replace(STACK, name="other")
    await world.user.create(stack_manifests.make_stack(make_spec("7"), name="other"))
    await world.wait_rest()
    copied = (await world.user.find(other) or {})["status"]
    await restart_with(
        world, {key: copied.get(key) for key in ("target", "controllerState", "signature", "lastCompletedRevision")}
    )
    status = await read_status(world)
    assert (status["revision"], status["lastCompletedRevision"], await read_data(world)) == (2, 2, {"v": "2"})


@fake_world.in_world
async def test_orders_are_not_obeyed_twice_where_the_memory_was_lost(world: FakeWorld) -> None:
    await begin(world)
    await world.user.patch(STACK, {"metadata": {"annotations": {"hearth.dev/check": "first"}}})
    await world.wait_rest()
    await restart_with(world, {"handled": {"check": "another"}})
    assert (await read_status(world))["handled"] == {"check": "first"}


@fake_world.in_world
async def test_a_stack_whose_memory_was_lost_is_never_rolled_back_to_nothing(world: FakeWorld) -> None:
    await begin(world, rollback={"onFailure": True}, timeout="5s")
    await world.kill_controller()
    world.server.patch_status(KIND, STACK.namespace, STACK.name, {"signature": "forged"}, manager="forger")
    failing = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = make_spec("2", rollback={"onFailure": True}, timeout="5s")
    spec["template"]["resources"]["b"] = {"manifest": failing, "failedWhen": ["b.metadata.name != ''"]}
    await world.user.replace_spec(STACK, spec)
    await world.start_controller()
    await world.wait_rest()
    status = await read_status(world)
    assert await read_data(world) == {"v": "2"}
    assert (status["historyUnknown"], status["target"]["cause"], status["phase"]) == (True, "Spec", "UpdateFailed")


async def edit_in_closed_window(world: FakeWorld, value: str) -> tuple[str, Object]:
    """Replace the definition and restart the operator; return the phase and the data of the object."""
    await world.kill_controller()
    await world.user.replace_spec(STACK, story.set_window(make_spec(value, window="closed"), now=world.now()))
    await world.start_controller()
    await world.wait_rest()
    return (await read_status(world))["phase"], await read_data(world)


@fake_world.in_world
async def test_a_change_that_a_crash_and_a_later_edit_ended_waits_for_the_window(world: FakeWorld) -> None:
    await begin(world)
    world.traffic.denied.add(("status", "Stack"))
    await world.user.replace_spec(STACK, make_spec("3"))
    await world.wait(5)
    await world.kill_controller()
    world.traffic.denied.clear()
    stored = [raw["revision"] for _, raw in world.server.everything() if raw["kind"] == "ControllerRevision"]
    assert (max(stored), (await read_status(world))["revision"]) == (3, 2)

    assert await edit_in_closed_window(world, "4") == ("UpdateStopped", {"v": "2"})
    assert await edit_in_closed_window(world, "3") == ("UpdateStopped", {"v": "2"})
    assert await edit_in_closed_window(world, "2") == ("UpdateComplete", {"v": "2"})
