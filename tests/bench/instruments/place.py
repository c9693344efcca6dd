"""Creates namespaces for benchmarks, and cleans them up however the benchmark ends."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator

import orjson
import yaml

from bench.instruments import bare_api
from bench.instruments.bare_api import BareApi
from bench.instruments.workload import ROLE_BINDING, SERVICE_ACCOUNT
from hearth.kube.client import api_requests
from hearth.model.api import crd
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, RESOURCE_GROUP, STACK
from support import repository

POLICY = Kind(
    group="admissionregistration.k8s.io",
    version="v1",
    name="MutatingAdmissionPolicy",
    plural="mutatingadmissionpolicies",
    namespaced=False,
)
BINDING = Kind(
    group="admissionregistration.k8s.io",
    version="v1",
    name="MutatingAdmissionPolicyBinding",
    plural="mutatingadmissionpolicybindings",
    namespaced=False,
)
MANIFESTS = repository.MANIFESTS / "finalizer"
LABEL = "bench.hearth.dev/finalizer"
"""Label of namespaces where Stacks get their finalizer at admission, as in an installation: see docs/finalizer.md."""
NAME = "bench-stack-finalizer"
ACCOUNT = "bench-account"
LOOK = 0.1
"""Seconds between two checks whether a kind is served."""
PATIENCE = 30.0
"""Maximum seconds until the API server applies the policy."""


async def install(api: BareApi) -> None:
    """Apply the CustomResourceDefinitions and the policy of the finalizer, and return when the kinds are served."""
    for definition in crd.make_crds():
        path = api_requests.object_path(CUSTOM_RESOURCE_DEFINITION, "", definition["metadata"]["name"])
        await api.apply(path, definition)
        while not is_established(await api.list(path)):  # noqa: ASYNC110 -- it is another process that we wait for
            await asyncio.sleep(LOOK)
    if await has_policies(api):
        await install_policy(api)


async def has_policies(api: BareApi) -> bool:
    """Whether the API server supports mutating admission policies, which came with Kubernetes 1.36."""
    group = orjson.loads(await api.send("GET", f"/apis/{POLICY.group}/{POLICY.version}"))
    return any(each["name"] == POLICY.plural for each in group["resources"])


async def install_policy(api: BareApi) -> None:
    """Add the finalizer to Stacks at creation in namespaces with the label.

    Stacks of other clients are not affected.
    """
    policy, binding = (yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text()) for name in ("policy", "binding"))
    policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = NAME
    binding["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {LABEL: "policy"}}}
    for kind, raw in ((POLICY, policy), (BINDING, binding)):
        await api.apply(api_requests.object_path(kind, "", NAME), raw)


async def make_account(api: BareApi, namespace: str) -> None:
    """Make the ServiceAccount that Stacks may name; it may do everything in the namespace."""
    await api.apply(api_requests.object_path(SERVICE_ACCOUNT, namespace, ACCOUNT), make_object(SERVICE_ACCOUNT))
    binding = {
        **make_object(ROLE_BINDING),
        "roleRef": {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    await api.apply(api_requests.object_path(ROLE_BINDING, namespace, ACCOUNT), binding)


def make_object(kind: Kind) -> Object:
    """Make an object without content, of the account's name."""
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": ACCOUNT}}


async def wait_policy(api: BareApi, namespace: str) -> None:
    """Wait until the policy takes effect in that namespace."""
    async with asyncio.timeout(PATIENCE):
        while not await has_policy(api, namespace):  # noqa: ASYNC110 -- as above
            await asyncio.sleep(LOOK)


async def has_policy(api: BareApi, namespace: str) -> bool:
    """Whether a new Stack would get its finalizer there."""
    probe = {
        "apiVersion": STACK.api_version,
        "kind": STACK.name,
        "metadata": {"name": "probe"},
        "spec": {"template": {"resources": {}}},
    }
    try:
        answer = await api.send("POST", f"{api_requests.collection_path(STACK, namespace)}?dryRun=All", body=probe)
    except bare_api.Disturbed:
        # The API server evaluates policies for a new kind only some time after it serves the kind.
        return False
    return "finalizers" in orjson.loads(answer)["metadata"]


def is_established(definition: Object) -> bool:
    """Whether the API server serves the kind."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


@contextlib.asynccontextmanager
async def namespace(api: BareApi, purpose: str) -> AsyncIterator[str]:
    """Provide a fresh namespace. Its deletion is not awaited, because it takes a while and is not measured."""
    name = f"bench-{purpose.lower()}-{uuid.uuid4().hex[:6]}"
    metadata = {"name": name, "labels": {LABEL: "policy"}}
    await api.send("POST", api_requests.collection_path(NAMESPACE), body={"metadata": metadata})
    try:
        if await has_policies(api):
            await wait_policy(api, name)
        yield name
    finally:
        await release_stacks(api, name)
        await api.send("DELETE", api_requests.object_path(NAMESPACE, "", name))


async def release_stacks(api: BareApi, namespace: str) -> None:
    """Remove the finalizers of Stacks and groups that a failed benchmark left behind, because no operator runs that
    could.
    """
    for kind in (STACK, RESOURCE_GROUP):
        await release(api, kind, namespace)


async def release(api: BareApi, kind: Kind, namespace: str) -> None:
    """Remove the finalizers of all objects of a kind."""
    left = await api.list(api_requests.collection_path(kind, namespace))
    paths = [api_requests.object_path(kind, namespace, raw["metadata"]["name"]) for raw in left["items"]]

    async def release_one(path: str) -> None:
        await api.send("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=bare_api.MERGE)

    await bare_api.for_each(paths, release_one)
