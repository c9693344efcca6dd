"""Objects that run once: their kinds, when they have finished, and the record of finished work."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.model import limits
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.state import finished_work, run_policy
from hearth.plan.state.finished_work import FinishedWork
from hearth.plan.target import target_status

HASHES = KeyedHasher(b"0123456789abcdef")


def ref(name: str) -> ObjectRef:
    return ObjectRef(group="batch", kind="Job", namespace="prod", name=name)


def hash_of(number: int) -> str:
    return HASHES.hash(number)


def test_what_has_finished_is_known_again_from_the_status() -> None:
    work = FinishedWork()
    for number in range(3):
        assert work.add("migrate", ref("shop-migrate"), hash_of(number), wanted=("migrate",))
    again = FinishedWork()
    again.load(orjson.loads(orjson.dumps(work.encode())))

    assert all(
        again.has("migrate", hash_of(number)) and again.is_recorded("migrate", hash_of(number)) for number in range(3)
    )
    assert not again.has("migrate", hash_of(4))
    assert again.has_object(ref("shop-migrate"), hash_of(2))
    assert not again.has_object(ref("shop-seed"), hash_of(2))
    assert not again.has_unrecorded


def test_only_the_latest_definitions_of_a_resource_are_kept() -> None:
    work = FinishedWork()
    for number in range(finished_work.DEFINITIONS + 1):
        work.add("migrate", ref("shop-migrate"), hash_of(number), wanted=())

    assert not work.has("migrate", hash_of(0))
    assert work.has("migrate", hash_of(1))


def test_what_is_forgotten_is_run_again() -> None:
    work = FinishedWork()
    for number in range(3):
        work.add("migrate", ref("shop-migrate"), hash_of(number), wanted=())
    work.forget("migrate", hash_of(1))
    assert [work.has("migrate", hash_of(number)) for number in range(3)] == [True, False, True]
    work.forget("migrate")
    assert not work.entries


def test_the_record_is_bounded_and_what_left_the_template_makes_room() -> None:
    work, added = FinishedWork(), 0
    wanted = [f"workers[{number:05}]" for number in range(50_000)]
    for name in wanted:
        if not work.add(name, ref(f"shop-{name}"), hash_of(1), wanted=wanted):
            break
        added += 1
    encoded = orjson.dumps(work.encode())
    assert limits.FINISHED_BYTES * 0.8 < len(encoded) <= limits.FINISHED_BYTES
    assert added > 400
    assert work.add("late", ref("shop-late"), hash_of(1), wanted=("late", *wanted[1:]))
    assert not work.has(wanted[0], hash_of(1))


def test_only_the_written_status_frees_an_object() -> None:
    work = FinishedWork()
    work.add("migrate", ref("shop-migrate"), hash_of(1), wanted=())
    assert work.has_unrecorded
    assert not work.is_recorded("migrate", hash_of(1))
    assert work.note_written({"finished": work.encode()}) == ["migrate"]
    assert work.is_recorded("migrate", hash_of(1))
    assert work.note_written({"finished": work.encode()}) == []


def test_a_record_that_anyone_else_wrote_is_not_believed() -> None:
    work = FinishedWork()
    work.add("migrate", ref("shop-migrate"), hash_of(1), wanted=())
    signed = target_status.sign({"finished": work.encode()}, uid="u", hashes=HASHES)
    assert target_status.read_memory(signed, uid="u", hashes=HASHES) == {"finished": work.encode()}
    for forged in ([], None, [*work.encode(), {"resource": "late", "object": "", "definitions": ["0" * 16]}]):
        assert target_status.read_memory({**signed, "finished": forged}, uid="u", hashes=HASHES) is None
    assert target_status.read_memory(signed, uid="another Stack", hashes=HASHES) is None


@pytest.mark.parametrize(
    "encoded", [None, 7, {}, ["x"], [{"resource": 1}], [{"resource": "a", "object": "b", "definitions": 3}]]
)
def test_what_is_no_record_is_none(encoded: Any) -> None:
    work = FinishedWork()
    work.load(encoded)
    assert work.is_loaded
    assert not work.entries


# ---------------------------------------------------------------- objects that run once

JOB, POD = "Job.batch", "Pod"


@pytest.mark.parametrize(
    ("kind", "spec", "is_run", "goes"),
    [
        pytest.param(JOB, {}, True, False, id="a Job stays, as long as no user deletes it"),
        pytest.param(JOB, {"ttlSecondsAfterFinished": 60}, True, True, id="a Job with a lifetime"),
        pytest.param(JOB, {"ttlSecondsAfterFinished": 0}, True, True, id="a lifetime of nothing is one"),
        pytest.param(POD, {"restartPolicy": "Never"}, True, True, id="the garbage collector takes pods that ended"),
        pytest.param(POD, {"restartPolicy": "OnFailure"}, True, True, id="these end too"),
        pytest.param(POD, {"restartPolicy": "Always"}, False, False, id="a pod that runs on"),
        pytest.param(POD, {}, False, False, id="which is the default"),
        pytest.param("Workflow.argoproj.io", {}, True, True, id="its controller may prune it by its own settings"),
        pytest.param("PipelineRun.tekton.dev", {}, True, True, id="likewise"),
        pytest.param(
            "OpsRequest.example.com", {"ttlSecondsAfterSucceed": 5}, True, True, id="any kind with a lifetime"
        ),
        pytest.param("Deployment.apps", {"replicas": 1}, False, False, id="what runs on"),
        pytest.param("ConfigMap", None, False, False, id="an object without a spec"),
    ],
)
def test_what_runs_and_goes(kind: str, spec: Any, is_run: bool, goes: bool) -> None:
    """Decided by kind if there is no object yet, otherwise by the spec."""
    manifest = {"spec": spec} if spec is not None else {"data": {}}
    assert (run_policy.is_run(kind, manifest), run_policy.has_own_lifetime(kind, manifest)) == (is_run, goes)


@pytest.mark.parametrize(
    ("status", "is_done"),
    [
        pytest.param({"conditions": [{"type": "Complete", "status": "True"}]}, True, id="Job"),
        pytest.param({"conditions": [{"type": "Complete", "status": "False"}]}, False, id="not yet"),
        pytest.param(
            {"conditions": [{"type": "Suspended", "status": "True"}]}, False, id="a suspended Job has not finished"
        ),
        pytest.param({"conditions": [{"type": "Succeeded", "status": "True"}]}, True, id="PipelineRun"),
        pytest.param({"phase": "Succeeded"}, True, id="Pod and Workflow"),
        pytest.param({"phase": "Succeed"}, True, id="OpsRequest"),
        pytest.param({"phase": "Running"}, False, id="it runs"),
        pytest.param({"state": "COMPLETED"}, True, id="in capitals"),
        pytest.param({"conditions": "Complete", "phase": 7}, False, id="words of a stranger"),
        pytest.param({"conditions": [None, "Complete", {"type": 7, "status": "True"}]}, False, id="more of these"),
        pytest.param(None, False, id="no status"),
        pytest.param([], False, id="no map"),
    ],
)
def test_what_has_finished_by_its_own_words(status: Any, is_done: bool) -> None:
    assert run_policy.says_done({"status": status}) is is_done


def test_work_from_before_a_restore_is_recognized_by_its_former_hash_until_it_is_forgotten() -> None:
    before, after = HASHES.of_stack("before"), HASHES.of_stack("after")
    work = FinishedWork()
    work.add("migrate", ref("shop-migrate"), before.hash("v1"), wanted=())
    restored = FinishedWork()
    restored.load_former(work.encode(), stack_uid="before")
    again = FinishedWork()
    again.load(restored.encode())

    for each in (restored, again):
        assert not each.has("migrate", after.hash("v1"))
        assert each.has_former("migrate", None, lambda uid: after.of_stack(uid).hash("v1"))
        assert each.has_former("renamed", ref("shop-migrate"), lambda uid: after.of_stack(uid).hash("v1"))
        assert not each.has_former("renamed", None, lambda uid: after.of_stack(uid).hash("v1"))
        assert not each.has_former("migrate", None, lambda uid: after.of_stack(uid).hash("v2"))
    again.forget("migrate", after.hash("v1"))
    assert again.encode() == []


def make_full_former() -> tuple[FinishedWork, list[str]]:
    """A restored Stack whose record is full, and the names of its resources."""
    work, names = FinishedWork(), [f"work-{number}" for number in range(1_000)]
    full = [name for name in names if work.add(name, ref(f"shop-{name}"), hash_of(1), wanted=names)]
    restored = FinishedWork()
    restored.load_former(work.encode(), stack_uid="0" * 36)
    assert 400 < len(full) < len(names)
    return restored, full


def test_work_from_before_a_restore_makes_room_once_its_resource_left_the_template() -> None:
    restored, full = make_full_former()
    assert restored.add("new", ref("shop-new"), hash_of(1), wanted=("new",))
    assert restored.has("new", hash_of(1))
    assert len(orjson.dumps(restored.encode())) <= limits.FINISHED_BYTES
    kept = {each.resource for each in restored.former}
    assert full[-1] in kept
    assert full[0] not in kept


def test_work_from_before_a_restore_makes_room_once_its_resource_finished_again() -> None:
    restored, full = make_full_former()
    again = FinishedWork()
    again.load_former(restored.encode()[:300], stack_uid="0" * 36)
    wanted = full[:300]
    assert all(again.add(name, ref(f"shop-{name}"), hash_of(2), wanted=wanted) for name in wanted)
    assert again.add("new", ref("shop-new"), hash_of(1), wanted=(*wanted, "new"))


def test_work_from_before_a_restore_stays_until_its_resource_finishes_again() -> None:
    restored, full = make_full_former()
    before = restored.encode()
    assert not restored.add("new", ref("shop-new"), hash_of(1), wanted=(*full, "new"))
    assert restored.encode() == before
