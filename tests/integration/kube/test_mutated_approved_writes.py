"""A mutating policy that appears after the approval, on a real API server: its own fields do not matter, ours do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hearth.engine.writes import approved_writes
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import names
from hearth.model.child import Object
from hearth.plan.target import approved_steps
from hearth.plan.target.approved_steps import ApprovedStep, ApprovedSteps, OutsidePlan
from support.real.real_world import POLL, TIMEOUT
from support.server import fake_kinds
from support.units import sample_manifests
from support.units.blueprints import HASHER

GROUP = "admissionregistration.k8s.io"
KINDS = [
    sample_manifests.kind(GROUP, "v1", name, namespaced=False)
    for name in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
]
CONFIG_MAP = fake_kinds.CONFIG_MAP.kind
OURS = "hearth:test/shop"
UID = "u"


@pytest.fixture
async def policy(connection: Connection, namespace: str) -> AsyncIterator[Any]:
    """Lets a key of the ConfigMaps in the namespace have a value from now on."""
    name = f"test-approved-{namespace}"

    async def mutate(key: str) -> None:
        policy_spec = {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["UPDATE"]}
                ]
            },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": f'Object{{data: {{"{key}": "theirs"}}}}'},
                }
            ],
        }
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
        for kind, spec in zip(KINDS, (policy_spec, {"policyName": name, "matchResources": here}), strict=True):
            made = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
            await connection.request("POST", api_requests.collection_path(kind), body=made)

    yield mutate
    for kind in KINDS:
        await connection.request("DELETE", api_requests.object_path(kind, "", name))


def make_config(namespace: str, **data: str) -> Object:
    labels = {names.LABEL_STACK_UID: UID, names.LABEL_RESOURCE: "web"}
    metadata = {"name": "web", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def begin(cluster: KubeWorkloadCluster, namespace: str, policy: Any, key: str) -> None:
    """An object, and then the policy, as soon as it takes effect."""
    before = make_config(namespace, a="1", b="1")
    child = await cluster.apply(before, kind=CONFIG_MAP, manager=OURS, force=True)
    await policy(key)
    async with asyncio.timeout(TIMEOUT):
        while True:
            live = await cluster.change_dry_run(child.ref, {"data": {"other": "x"}}, kind=CONFIG_MAP)
            if live["data"].get(key) == "theirs":
                return
            await asyncio.sleep(POLL)


async def update(cluster: KubeWorkloadCluster, namespace: str) -> Object:
    """Write an update whose plan changes one key; return the data afterward."""
    wanted = make_config(namespace, a="2", b="1")
    ref = approved_writes.refer(CONFIG_MAP, wanted["metadata"])
    seal = approved_steps.seal(wanted, (), HASHER.hash)
    steps = (ApprovedStep(action="update", ref=ref, fields=("data.a",), seal=seal),)
    approved = approved_writes.restrict(cluster, ApprovedSteps(steps=steps, hash_content=HASHER.hash), stack_uid=UID)
    await approved.apply(wanted, kind=CONFIG_MAP, manager=OURS, force=True)
    written: Object = (await cluster.get(ref, kind=CONFIG_MAP))["data"]
    return written


async def test_a_field_that_a_policy_adds_does_not_stop_an_approved_update(
    cluster: KubeWorkloadCluster, namespace: str, policy: Any
) -> None:
    await begin(cluster, namespace, policy, "added")
    assert await update(cluster, namespace) == {"a": "2", "b": "1", "added": "theirs"}


async def test_a_policy_that_changes_another_field_of_the_operator_stops_the_update(
    cluster: KubeWorkloadCluster, namespace: str, policy: Any
) -> None:
    await begin(cluster, namespace, policy, "b")
    with pytest.raises(OutsidePlan, match=r"data\.b"):
        await update(cluster, namespace)
