"""Work that runs once, on a real API server with the real controllers of Jobs and of their lifetime."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

TIMEOUT = 60.0
"""Time limit in seconds for all waits, on a machine that is busy with other tests."""
POLL = 0.1
CALM = 6.0
"""Enough seconds for a Job with lifetime 0 to be recreated several times."""


@pytest.fixture
async def running(world: RealWorld) -> RealWorld:
    """The world with an operator."""
    await world.start_controller()
    return world


def make_job(*, pod: str = "", **spec: Any) -> Object:
    """A Job whose pod succeeds at once, or behaves as its label says."""
    labels = {"test.hearth.dev/pod": pod} if pod else {}
    container = {"name": "main", "image": "it:1"}
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0, "template": template, **spec}}


def place(world: RealWorld, api_version: str, kind: str, name: str) -> Address:
    """The address of an object in the world's namespace."""
    return Address(api_version=api_version, kind=kind, namespace=world.namespace, name=name)


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}


async def create_stack(world: RealWorld, resources: Object, **spec: Any) -> Address:
    """A Stack `once` with these resources."""
    stated = {"template": {"resources": resources}, **spec}
    await world.user.create(stack_manifests.make_stack(stated, name="once", namespace=world.namespace))
    return stack_manifests.address_in(world.namespace, "once")


def job(world: RealWorld, name: str = "once-migrate") -> Address:
    """The Job of the resource `migrate`."""
    return place(world, "batch/v1", "Job", name)


async def wait(what: str, holds: Any) -> Any:
    """Wait until `holds` returns a true value, and return it."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while asyncio.get_running_loop().time() < deadline:
        if found := await holds():
            return found
        await asyncio.sleep(POLL)
    raise AssertionError(f"{what}: not within {TIMEOUT:g} s")


async def wait_complete(user: RealUser, address: Address, summary: str = "2/2") -> Object:
    """The status of the Stack, once it is complete."""

    async def look() -> Object | None:
        status: Object = ((await user.find(address)) or {}).get("status") or {}
        is_complete = str(status.get("phase", "")).endswith("Complete") and status.get("summary") == summary
        return status if is_complete else None

    found: Object = await wait(f"{address} is complete", look)
    return found


async def wait_gone(user: RealUser, address: Address) -> None:
    """Wait until an object is deleted."""

    async def look() -> bool:
        return await user.find(address) is None

    await wait(f"{address} is gone", look)


async def watch_absence(user: RealUser, address: Address) -> None:
    """Fail if the object appears within `CALM` seconds."""
    deadline = asyncio.get_running_loop().time() + CALM
    while asyncio.get_running_loop().time() < deadline:
        assert await user.find(address) is None, f"{address} was made again"
        await asyncio.sleep(POLL)


@pytest.mark.cluster
@pytest.mark.parametrize("lifetime", [0, 2])
async def test_a_job_that_goes_by_its_lifetime_is_not_made_again(running: RealWorld, lifetime: int) -> None:
    migrate = {"manifest": make_job(ttlSecondsAfterFinished=lifetime)}
    address = await create_stack(running, {"migrate": migrate, "app": {"dependsOn": ["migrate"], "manifest": CONFIG}})
    status = await wait_complete(running.user, address)
    assert [(each["resource"], each["object"]) for each in status["finished"]] == [("migrate", "job/once-migrate")]
    await wait_gone(running.user, job(running))
    await watch_absence(running.user, job(running))
    await running.kill_controller()
    await running.start_controller()
    await watch_absence(running.user, job(running))
    await wait_complete(running.user, address)


@pytest.mark.cluster
async def test_a_job_that_finishes_and_goes_while_no_operator_runs(running: RealWorld) -> None:
    migrate = {"manifest": make_job(ttlSecondsAfterFinished=1)}
    address = await create_stack(running, {"migrate": migrate, "app": {"dependsOn": ["migrate"], "manifest": CONFIG}})
    first = await wait("the Job is made", lambda: running.user.find(job(running)))
    await running.kill_controller()

    async def is_going() -> Object | None:
        found = await running.user.find(job(running))
        assert found is not None
        return found if "deletionTimestamp" in found["metadata"] else None

    held = await wait("its lifetime ends", is_going)
    assert held["metadata"]["uid"] == first["metadata"]["uid"]
    await running.start_controller()
    await wait_complete(running.user, address)
    await wait_gone(running.user, job(running))
    await watch_absence(running.user, job(running))


@pytest.mark.cluster
async def test_a_finished_pod_that_is_collected_is_not_made_again(running: RealWorld) -> None:
    container = {"name": "main", "image": "it:1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"restartPolicy": "Never", "containers": [container]}}
    address = await create_stack(running, {"seed": {"manifest": pod}})
    pod_place = place(running, "v1", "Pod", "once-seed")
    await wait("the pod is made", lambda: running.user.find(pod_place))
    await running.user.patch(pod_place, {"status": {"phase": "Succeeded", "conditions": []}}, subresource="/status")

    async def is_recorded() -> bool:
        return bool(((await running.user.find(address)) or {}).get("status", {}).get("finished"))

    await wait("its success is recorded", is_recorded)
    await running.user.delete(pod_place)
    await wait_gone(running.user, pod_place)
    await watch_absence(running.user, pod_place)
    await wait_complete(running.user, address, "1/1")


@pytest.mark.cluster
async def test_a_record_that_a_tenant_writes_is_not_believed(running: RealWorld) -> None:
    address = await create_stack(running, {"migrate": {"manifest": make_job(ttlSecondsAfterFinished=0)}})
    status = await wait_complete(running.user, address, "1/1")
    await wait_gone(running.user, job(running))
    await running.kill_controller()
    forged = [*status["finished"], {"resource": "late", "object": "job/once-late", "definitions": ["0" * 16]}]
    await running.user.patch(address, {"status": {"finished": forged}}, subresource="/status")
    await running.start_controller()

    async def is_mended() -> bool:
        found = ((await running.user.find(address)) or {}).get("status") or {}
        return [each["resource"] for each in found.get("finished") or ()] == ["migrate"]

    await wait("the record is right again", is_mended)
    await wait_complete(running.user, address, "1/1")


@pytest.mark.cluster
async def test_a_job_that_failed_stays_until_it_is_run_again(running: RealWorld) -> None:
    resource = {"updatePolicy": {"replace": "Never"}, "manifest": make_job(pod="never-ready")}
    address = await create_stack(running, {"migrate": resource})
    first = await wait("the Job is made", lambda: running.user.find(job(running)))
    await fail_pod(running, first)

    async def is_reported() -> bool:
        path = f"/api/v1/namespaces/{running.namespace}/events"
        events = (await running.user.connection.request("GET", path))["items"]
        messages = [each["message"] for each in events if each["reason"] == "RunFailed"]
        return any("container main of pod/once-migrate" in each and "exit code 3" in each for each in messages)

    await wait("an Event tells how it ended", is_reported)
    await asyncio.sleep(CALM)
    found = await running.user.find(job(running))
    assert found is not None
    assert found["metadata"]["uid"] == first["metadata"]["uid"]
    await running.user.patch(address, {"metadata": {"annotations": {names.REQUEST_RETRY: "1"}}})

    async def is_new() -> bool:
        present = await running.user.find(job(running))
        return present is not None and present["metadata"]["uid"] != first["metadata"]["uid"]

    await wait("it is run again", is_new)


@pytest.mark.cluster
async def test_a_failed_job_with_a_lifetime_is_held_until_its_next_run(running: RealWorld) -> None:
    manifest = make_job(pod="never-ready", ttlSecondsAfterFinished=0)
    resource = {"retry": {"maxBackoff": "12s"}, "manifest": manifest}
    address = await create_stack(running, {"migrate": resource}, retry={"limit": 1})
    first = await wait("the Job is made", lambda: running.user.find(job(running)))
    await fail_pod(running, first)

    async def is_going() -> Object | None:
        found = await running.user.find(job(running))
        return found if found is not None and "deletionTimestamp" in found["metadata"] else None

    await wait("its lifetime ends", is_going)
    phases: set[str] = set()

    async def is_new() -> bool:
        phases.add(str(((await running.user.find(address)) or {}).get("status", {}).get("phase")))
        present = await running.user.find(job(running))
        return present is not None and present["metadata"]["uid"] != first["metadata"]["uid"]

    begun = asyncio.get_running_loop().time()
    await wait("it is run again", is_new)
    assert asyncio.get_running_loop().time() - begun > CALM
    await asyncio.sleep(1)
    assert not await is_going()
    assert phases <= {"CreateInProgress", "CreateFailed"}
    stack = await running.user.find(address)
    assert stack is not None
    assert stack["status"]["phase"] == "CreateFailed"


async def fail_pod(world: RealWorld, owner: Object) -> None:
    """Let the pod of a Job end with exit code 3."""
    path = f"/api/v1/namespaces/{world.namespace}/pods"
    labels = {"labelSelector": f"batch.kubernetes.io/controller-uid={owner['metadata']['uid']}"}

    async def find_pod() -> Object | None:
        pods = (await world.user.connection.request("GET", path, query=labels))["items"]
        return pods[0] if pods else None

    pod = await wait("the pod is made", find_pod)
    ended = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    status = {
        "name": "main",
        "image": "it:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    pod_place = place(world, "v1", "Pod", pod["metadata"]["name"])
    body = {"status": {"phase": "Failed", "containerStatuses": [status]}}
    await world.user.patch(pod_place, body, subresource="/status")
