"""Failures of every kind on a real API server, with its real controllers and scheduler, and the Stack's message for
each.

Also health of a kind without a rule: the cache keeps its fields only because its published schema lists them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from hearth.engine import health_rule_loader
from hearth.kube.client import api_requests
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import expectations
from support.real import real_user
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

TIMEOUT = 45.0
"""Time limit in seconds for all waits, on a machine that is busy with other tests."""
POLL = 0.1
EVENTS = "/api/v1/namespaces/{namespace}/events"
PUBLISHED_TIMEOUT = 90.0
"""Time limit in seconds for all waits on a published schema. A busy API server publishes it late."""
GADGET: Final = Kind(group="reports.example.org", version="v1", name="Gadget", plural="gadgets", namespaced=True)
TEXT, BOOLEAN, NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}
STATUS: Final = {
    "phase": TEXT,
    "isRollingUpdate": BOOLEAN,
    "matchedPods": NUMBER,
    "updatedPods": NUMBER,
    "nodeStatus": {"type": "object", "additionalProperties": TEXT},
}
SCHEMA: Final[Object] = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "status": {"type": "object", "properties": STATUS},
    },
}
DEFINITION: Final = real_user.make_crd(GADGET.group, GADGET.name, {GADGET.version: SCHEMA}, has_status=True)
REPORTS: Final[tuple[tuple[Object, str], ...]] = (
    ({"phase": "Running", "isRollingUpdate": True}, "its isRollingUpdate is true"),
    ({"phase": "Running", "matchedPods": 4, "updatedPods": 2}, "its updatedPods is 2 of 4"),
    ({"nodeStatus": {"a": "NodeDownloading"}}, "its nodeStatus.a is NodeDownloading"),
)
"""Statuses that are not ready, and the Stack's message for each."""


@pytest.fixture
async def running(world: RealWorld) -> RealWorld:
    """The world with an operator."""
    await world.start_controller()
    return world


async def create_stack(
    world: RealWorld, name: str, manifest: Object, *, others: Object | None = None, **spec: Any
) -> Address:
    """A Stack with a resource `it`, and optional others."""
    address = stack_manifests.address_in(world.namespace, name)
    template = {"resources": {"it": {"manifest": manifest}, **(others or {})}}
    stated = {"template": template, **spec}
    await world.user.create(stack_manifests.make_stack(stated, name=name, namespace=world.namespace))
    return address


async def wait_status(world: RealWorld, address: Address, holds: Callable[[Object], bool]) -> Object:
    """Wait until the condition holds; return the status."""
    status: Object = {}
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while asyncio.get_running_loop().time() < deadline:
        stack = await world.user.find(address)
        status = (stack or {}).get("status") or {}
        if holds(status):
            return status
        await asyncio.sleep(POLL)
    raise AssertionError(f"{address} says {status}")


def find_message(status: Object) -> str:
    """The message of the condition Ready."""
    return str(expectations.find_condition({"status": status}, "Ready").get("message", ""))


def make_pod(behaviour: str, **spec: Any) -> Object:
    """A Pod template whose label selects the simulated behavior."""
    labels = {"app": "it", "test.hearth.dev/pod": behaviour}
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "it:1"}], **spec}}


@pytest.mark.cluster
async def test_a_deployment_past_its_deadline(running: RealWorld) -> None:
    spec = {
        "replicas": 2,
        "progressDeadlineSeconds": 2,
        "selector": {"matchLabels": {"app": "it"}},
        "template": make_pod("never-ready"),
    }
    manifest: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    stack = await create_stack(running, "late", manifest)
    status = await wait_status(running, stack, lambda status: status.get("phase") == "CreateFailed")
    assert "has timed out progressing; 0 of 2 pods are ready" in find_message(status)
    [problem] = status["problems"]
    assert (problem["kind"], problem["name"], problem["reason"]) == (
        "Deployment",
        "late-it",
        "ProgressDeadlineExceeded",
    )
    child = Address(api_version="apps/v1", kind="Deployment", namespace=running.namespace, name="late-it")
    before = await running.user.find(child)
    spec["template"] = make_pod("fine")
    await running.user.replace_spec(stack, {"template": {"resources": {"it": {"manifest": manifest}}}})
    await wait_status(running, stack, lambda status: status.get("phase") == "UpdateComplete")
    after = await running.user.find(child)
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] == after["metadata"]["uid"]


@pytest.mark.cluster
async def test_a_job_that_fails(running: RealWorld) -> None:
    """Only a new Job can help. One is created, and when it fails too, the Stack reports the Job's own message."""
    spec = {"activeDeadlineSeconds": 1, "template": make_pod("crash", restartPolicy="Never")}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}
    stack = await create_stack(running, "work", manifest, retry={"limit": 2})
    status = await wait_status(running, stack, lambda status: status.get("phase") == "CreateFailed")
    assert "Job was active longer than specified deadline" in find_message(status)
    assert status["problems"][0]["reason"] == "DeadlineExceeded"
    assert running.traffic.count()["apply"] >= 2


@pytest.mark.cluster
async def test_a_pod_that_fits_nowhere_and_one_that_crashes(running: RealWorld) -> None:
    lost = {"apiVersion": "v1", "kind": "Pod", **make_pod("fine", nodeSelector={"nowhere": "at-all"})}
    crashing = {"apiVersion": "v1", "kind": "Pod", **make_pod("crash")}
    first, second = await create_stack(running, "lost", lost), await create_stack(running, "broken", crashing)
    status = await wait_status(running, first, lambda status: "nodes are available" in find_message(status))
    assert status["phase"] == "CreateInProgress"
    status = await wait_status(running, second, lambda status: status.get("phase") == "CreateFailed")
    assert "container main does not start" in find_message(status)
    assert status["problems"][0]["reason"] == "CrashLoopBackOff"


@pytest.mark.cluster
async def test_a_daemon_set_that_is_not_observed_yet(running: RealWorld) -> None:
    spec = {"selector": {"matchLabels": {"app": "it"}}, "template": make_pod("never-ready")}
    dependent = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}, "dependsOn": ["it"]}
    manifest = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": spec}
    stack = await create_stack(running, "everywhere", manifest, others={"after": dependent})
    await wait_status(running, stack, lambda status: "pods are available" in find_message(status))
    after = Address(api_version="v1", kind="ConfigMap", namespace=running.namespace, name="everywhere-after")
    assert await running.user.find(after) is None


@pytest.mark.cluster
async def test_rules_of_users(running: RealWorld) -> None:
    """User rules apply to a custom kind at once, even to a field that was not cached before; the ConfigMap reports
    mistakes in them.
    """
    probe = {"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "spec": {"value": 1, "other": "bad"}}
    stack = await create_stack(running, "own", probe)
    await wait_status(running, stack, lambda status: status.get("phase") == "CreateComplete")
    rules = """
- kinds: [testing.hearth.dev/Probe]
  cases:
    - {when: self.spec.other == "bad", state: failed, reason: GoneBad, message: "it went ${self.spec.other}"}
- kinds: [testing.hearth.dev/Latecomer]
  cases:
    - {when: self.spec. == 1, state: failed}
"""
    metadata = {"name": health_rule_loader.CONFIG_MAP, "namespace": running.namespace}
    made = await running.user.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": rules}}
    )
    status = await wait_status(running, stack, lambda status: "it went bad" in find_message(status))
    assert expectations.find_condition({"status": status}, "Stalled")["status"] == "True"
    events = await running.user.connection.request("GET", EVENTS.format(namespace=running.namespace))
    about = [each for each in events["items"] if each["involvedObject"].get("uid") == made["metadata"]["uid"]]
    assert [(each["reason"], "a, line 7" in each["message"]) for each in about] == [("InvalidHealthRules", True)]
    await running.user.delete(Address.of(made))
    await wait_status(running, stack, lambda status: "it went bad" not in find_message(status))
    stack_now = await running.user.find(stack)
    assert expectations.find_condition(stack_now or {}, "Ready")["status"] == "True"


@pytest.mark.cluster
async def test_what_stands_beside_a_workload_comes_to_rest(running: RealWorld) -> None:
    labels = {"matchLabels": {"app": "it"}}
    spec = {"replicas": 1, "selector": labels, "template": make_pod("fine")}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "${it.metadata.name}"}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1, "selector": labels}}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3},
    }
    others = {"budget": {"manifest": budget}, "scaler": {"manifest": scaler}}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    stack = await create_stack(running, "beside", manifest, others=others)
    await wait_status(running, stack, lambda status: status.get("phase") == "CreateComplete")


@pytest.mark.cluster
async def test_a_deployment_that_may_have_no_pods(running: RealWorld) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "0"}}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "it"}}, "template": make_pod("fine")}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    stack = await create_stack(running, "forbidden", quota, others={"web": {"manifest": manifest, "dependsOn": ["it"]}})
    status = await wait_status(running, stack, lambda status: "exceeded quota" in find_message(status))
    assert status["phase"] == "CreateInProgress"


@pytest.mark.cluster
async def test_what_requires_a_quota_is_made_only_when_it_is_enforced(running: RealWorld) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"secrets": "0", "configmaps": "100"}}}
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}}
    others = {"secret": {"manifest": secret, "dependsOn": ["it"]}}
    for number in range(5):
        stack = await create_stack(running, f"limited{number}", quota, others=others)
        status = await wait_status(running, stack, lambda status: "exceeded quota" in find_message(status))
        assert "secret/" in find_message(status)
        made = Address(api_version="v1", kind="Secret", namespace=running.namespace, name=f"limited{number}-secret")
        assert await running.user.find(made) is None


async def report(world: RealWorld, name: str, status: Object) -> None:
    """Replace the status of the gadget, as its controller does."""
    path = api_requests.object_path(GADGET, world.namespace, name) + "/status"
    body = {"status": {**dict.fromkeys(STATUS), **status}}
    await world.user.connection.request("PATCH", path, body=body, content_type=api_requests.MERGE_PATCH)


async def wait_message(world: RealWorld, address: Address, *, is_ready: bool, part: str) -> None:
    """Wait until the Stack is ready, or reports this message."""
    condition: dict[str, Any] = {}
    deadline = asyncio.get_running_loop().time() + PUBLISHED_TIMEOUT
    while asyncio.get_running_loop().time() < deadline:
        stack = await world.user.find(address)
        condition = dict(expectations.find_condition(stack or {}, "Ready"))
        if (condition.get("status") == "True") is is_ready and part in condition.get("message", ""):
            return
        await asyncio.sleep(POLL)
    raise AssertionError(f"it says {condition}, not {part!r}")


@pytest.mark.cluster
async def test_a_kind_without_a_rule_is_read_by_what_its_schema_declares(world: RealWorld) -> None:
    await world.start_controller()
    # The server serves the kind before it publishes the schema, and the Stack uses it at once.
    await real_user.install(world.user, [DEFINITION])
    world.on_kinds()
    address = stack_manifests.address_in(world.namespace, "own")
    gadget = {"manifest": {"apiVersion": GADGET.api_version, "kind": GADGET.name, "spec": {}}}
    after = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}, "dependsOn": ["it"]}
    template = {"resources": {"it": gadget, "after": after}}
    await world.user.create(
        stack_manifests.make_stack({"template": template}, name=address.name, namespace=world.namespace)
    )
    await wait_message(world, address, is_ready=False, part="has not set status.phase")
    config_map = Address(api_version="v1", kind="ConfigMap", namespace=world.namespace, name="own-after")
    assert await world.user.find(config_map) is None
    for status, said in REPORTS:
        await report(world, "own-it", status)
        await wait_message(world, address, is_ready=False, part=said)
        await report(world, "own-it", {"phase": "Running"})
        await wait_message(world, address, is_ready=True, part="")
