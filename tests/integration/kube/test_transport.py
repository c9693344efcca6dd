"""The transport against a real API server: TLS, credentials, discovery, schemas, and every verb of the engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from contract.bench import Ears
from hearth.kube.auth.credentials import Credentials, CredentialSource
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.discovery.discovery import REFRESH_INTERVAL
from hearth.kube.discovery.refresh_timing import SCHEMA_DELAYS
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from support.real import real_user
from support.real.real_user import RealUser
from support.units import signing
from support.units.static_credentials import FixedSource

MANAGER = "hearth:test/shop"
GROUP: Final = "late.example.org"
POLL: Final = 0.1


@dataclass
class Tokens:
    """Returns one token after the other."""

    base: Credentials
    tokens: list[str]

    def load(self) -> Credentials:
        """The administrator's server, with a token in place of the certificate."""
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        return replace(self.base, certificate=None, key=None, authorization=f"Bearer {token}")


def find(cluster: KubeWorkloadCluster, api_version: str, kind: str) -> Kind:
    """A kind that must be served."""
    found = cluster.kinds.find(api_version, kind)
    assert found is not None
    return found


def config_map(namespace: str, name: str = "one", **metadata: Any) -> Object:
    labels = {names.LABEL_STACK_UID: f"uid-{namespace}", names.LABEL_RESOURCE: "config"}
    shown = {"name": name, "namespace": namespace, "labels": labels, **metadata}
    return signing.sign({"apiVersion": "v1", "kind": "ConfigMap", "metadata": shown, "data": {"a": "1"}})


# ---------------------------------------------------------------- who we are


async def test_a_client_certificate_is_enough(connection: Connection) -> None:
    answer = await connection.request("GET", "/version")
    assert answer["gitVersion"].startswith("v1.")
    with pytest.raises(errors.ApiStatusError) as caught:
        await connection.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa%2Fb")
    assert caught.value.code in {400, 404}


async def test_an_expired_token_is_read_again(connection: Connection, source: CredentialSource, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    await ensure_default_account(connection, namespace)
    token = (await connection.request("POST", path, body={"spec": {}}))["status"]["token"]
    tokens = Tokens(source.load(), ["no-token", token])
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with Connection(tokens) as own:
        answer = await own.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    assert answer["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"


async def ensure_default_account(connection: Connection, namespace: str) -> None:
    """The controller creates the account some time after the namespace; the first create wins."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    with contextlib.suppress(errors.ApiStatusError):
        await connection.request("POST", path, body=body)


async def test_a_server_of_another_authority_is_not_trusted(source: CredentialSource) -> None:
    known = source.load()
    stranger = FixedSource(replace(known, authority=None))
    async with Connection(stranger) as own:
        with pytest.raises(errors.Unreachable, match=r"(?i)certificate"):
            await own.request("GET", "/version")
    async with Connection(FixedSource(replace(known, authority=None, is_verified=False))) as own:
        assert "gitVersion" in await own.request("GET", "/version")


async def test_the_name_in_the_certificate_can_be_stated(source: CredentialSource) -> None:
    known = source.load()
    async with Connection(FixedSource(replace(known, server_name="kubernetes.default.svc"))) as own:
        assert "gitVersion" in await own.request("GET", "/version")
    async with Connection(FixedSource(replace(known, server_name="another.example"))) as own:
        with pytest.raises(errors.Unreachable, match=r"another\.example"):
            await own.request("GET", "/version")


async def test_a_write_as_another_account_is_judged_as_that_account(connection: Connection, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    user = f"system:serviceaccount:{namespace}:ghost"
    with pytest.raises(errors.ApiStatusError) as caught:
        await connection.request("POST", path, body=config_map(namespace), impersonate=user)
    assert caught.value.code == 403
    assert user in str(caught.value)


async def test_a_watch_streams_what_happens(connection: Connection, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await connection.request("POST", path, body=config_map(namespace))
    async with asyncio.timeout(20), connection.stream(path, query={"watch": "1"}) as pieces:
        seen = b""
        while b'"two"' not in seen:
            if b'"one"' in seen:
                with contextlib.suppress(errors.ApiStatusError):
                    await connection.request("POST", path, body=config_map(namespace, "two"))
            seen += await anext(pieces)
    assert seen.count(b'"type":"ADDED"') >= 2


# ---------------------------------------------------------------- kinds and schemas


def custom_kind(group: str, **properties: Any) -> Object:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return real_user.make_crd(group, "Widget", {"v1": schema})


@contextlib.asynccontextmanager
async def temporary(connection: Connection, path: str, body: Object) -> AsyncIterator[str]:
    """The path of an object that is deleted at the end."""
    await connection.request("POST", path, body=body)
    item = f"{path}/{body['metadata']['name']}"
    try:
        yield item
    finally:
        with contextlib.suppress(errors.ApiStatusError):
            await connection.request("DELETE", item)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_built_in_kinds_are_known(cluster: KubeWorkloadCluster) -> None:
    assert find(cluster, "v1", "ConfigMap") == Kind(
        group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True
    )
    assert find(cluster, "apps/v1", "Deployment").plural == "deployments"
    assert not find(cluster, "v1", "Namespace").namespaced
    assert cluster.kinds.find("authentication.k8s.io/v1", "TokenReview") is None
    assert cluster.kinds.find("v1", "Nonsense") is None


async def test_a_kind_comes_changes_its_schema_and_goes(
    connection: Connection, cluster: KubeWorkloadCluster, namespace: str
) -> None:
    group = f"{namespace}.example.com"
    async with asyncio.timeout(60), temporary(connection, CRDS, custom_kind(group, size={"type": "string"})) as path:
        generation = cluster.kinds.generation
        await until_refreshed(cluster, lambda: cluster.kinds.find(f"{group}/v1", "Widget") is not None)
        assert cluster.kinds.generation > generation
        widget = find(cluster, f"{group}/v1", "Widget")
        await cluster.load_schemas([widget])
        await until_refreshed(cluster, lambda: type_of_size(cluster, widget) == "string")

        generation = cluster.kinds.generation
        patch = {"spec": {"versions": custom_kind(group, size={"type": "integer"})["spec"]["versions"]}}
        await connection.request("PATCH", path, body=patch, content_type=api_requests.MERGE_PATCH)
        await until_refreshed(cluster, lambda: type_of_size(cluster, widget) == "integer")
        assert cluster.kinds.generation > generation

        await connection.request("DELETE", path)
        await until_refreshed(cluster, lambda: cluster.kinds.find(f"{group}/v1", "Widget") is None)


async def until_refreshed(cluster: KubeWorkloadCluster, condition: Any) -> None:
    """Refresh until the condition holds; refreshes are spaced automatically."""
    while not condition():
        await cluster.refresh_kinds()


def type_of_size(cluster: KubeWorkloadCluster, kind: Kind) -> str | None:
    """The schema of spec.size in Widgets."""
    schema = cluster.kinds.find_schema(kind)
    return None if schema is None else schema["properties"]["spec"]["properties"]["size"]["type"]


async def test_an_api_server_that_is_down_breaks_nothing_else(
    connection: Connection, cluster: KubeWorkloadCluster, namespace: str
) -> None:
    group = f"{namespace}.broken.example.com"
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": "nowhere", "namespace": "default"},
            "insecureSkipTLSVerify": True,
        },
    }
    broken = Kind(group=group, version="v1", name="Thing", plural="things", namespaced=True)
    async with temporary(connection, "/apis/apiregistration.k8s.io/v1/apiservices", body):
        await cluster.refresh_kinds()
        await cluster.load_schemas([broken, find(cluster, "apps/v1", "Deployment")])
    assert cluster.kinds.find(f"{group}/v1", "Thing") is None
    assert cluster.kinds.find_schema(find(cluster, "apps/v1", "Deployment")) is not None


async def test_every_reference_of_a_built_in_schema_can_be_followed(cluster: KubeWorkloadCluster) -> None:
    deployment = find(cluster, "apps/v1", "Deployment")
    await cluster.load_schemas([deployment, find(cluster, "v1", "Secret")])
    waiting, seen = [cluster.kinds.find_schema(deployment)], set()
    while waiting:
        schema = waiting.pop()
        assert schema is not None
        for reference in find_references(schema):
            if reference not in seen:
                seen.add(reference)
                waiting.append(cluster.kinds.find_definition(reference))
    assert "#/components/schemas/io.k8s.api.core.v1.Container" in seen
    assert len(seen) > 50


def find_references(schema: Any) -> list[str]:
    """All `$ref` in a schema."""
    if isinstance(schema, list):
        return [reference for item in schema for reference in find_references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return own + [reference for item in schema.values() for reference in find_references(item)]


# ---------------------------------------------------------------- verbs


async def test_an_apply_that_may_only_create_touches_nothing_that_is_there(
    cluster: KubeWorkloadCluster, namespace: str
) -> None:
    kind = find(cluster, "v1", "ConfigMap")
    manifest = config_map(namespace, resourceVersion="1")
    child = await cluster.apply(manifest, kind=kind, manager=MANAGER, force=False)
    assert cluster.children_of(f"uid-{namespace}", "config") == (child,)
    assert child.ownership is not None
    with pytest.raises(errors.ApiStatusError) as caught:
        await cluster.apply(manifest, kind=kind, manager=MANAGER, force=False)
    assert caught.value.code == 409
    again = await cluster.apply(config_map(namespace), kind=kind, manager=MANAGER, force=True)
    assert again.resource_version == child.resource_version


async def test_a_field_of_another_client_is_taken_only_by_force(cluster: KubeWorkloadCluster, namespace: str) -> None:
    kind = find(cluster, "v1", "ConfigMap")
    await cluster.apply(config_map(namespace), kind=kind, manager="hearth:other/one", force=True)
    wanted = {**config_map(namespace), "data": {"a": "2"}}
    with pytest.raises(errors.ApiStatusError, match="hearth:other/one") as caught:
        await cluster.apply(wanted, kind=kind, manager=MANAGER, force=False)
    assert caught.value.status is not None
    assert caught.value.status["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    await cluster.apply(wanted, kind=kind, manager=MANAGER, force=True)
    live = await cluster.get(ObjectRef(group="", kind="ConfigMap", namespace=namespace, name="one"), kind=kind)
    assert live["data"] == {"a": "2"}


async def test_a_dry_run_creates_nothing_and_finds_every_mistake(cluster: KubeWorkloadCluster, namespace: str) -> None:
    kind = find(cluster, "v1", "ConfigMap")
    await cluster.apply(config_map(namespace), kind=kind, manager=MANAGER, force=True)
    await cluster.create_dry_run(config_map(namespace, uid="other", resourceVersion="1"), kind=kind)
    wrong = {**config_map(namespace), "dtaa": {}}
    with pytest.raises(errors.ApiStatusError, match="dtaa") as caught:
        await cluster.create_dry_run(wrong, kind=kind)
    assert caught.value.code == 400
    assert len(await cluster.list_children(kind, f"uid-{namespace}")) == 1


async def test_a_deletion_hits_that_very_object(cluster: KubeWorkloadCluster, namespace: str) -> None:
    kind = find(cluster, "v1", "ConfigMap")
    first = await cluster.apply(config_map(namespace), kind=kind, manager=MANAGER, force=True)
    assert await cluster.delete(first)
    assert await cluster.delete(first)
    held = await cluster.apply(config_map(namespace, finalizers=["a.test/x"]), kind=kind, manager=MANAGER, force=True)
    assert await cluster.delete(first)
    assert [child.uid for child in cluster.children_of(f"uid-{namespace}", "config")] == [held.uid]
    assert not await cluster.delete(held)
    (left,) = cluster.children_of(f"uid-{namespace}", "config")
    assert (left.deleting, left.finalizers) == (True, ("a.test/x",))
    # An apply without the finalizer releases the object.
    await cluster.apply(config_map(namespace), kind=kind, manager=MANAGER, force=True)
    assert await cluster.delete(held)
    assert await cluster.list_children(kind, f"uid-{namespace}") == []


async def test_a_live_list_continues_over_pages_and_over_namespaces(
    connection: Connection, cluster: KubeWorkloadCluster, namespace: str
) -> None:
    kind = find(cluster, "v1", "ConfigMap")
    path = api_requests.collection_path(kind, namespace)
    count = api_requests.PAGE_SIZE + 1
    await asyncio.gather(
        *(connection.request("POST", path, body=config_map(namespace, f"n{number}")) for number in range(count))
    )
    await connection.request("POST", path, body=config_map(namespace, "other", labels={names.LABEL_STACK_UID: "other"}))
    assert len(await cluster.list_children(kind, f"uid-{namespace}")) == count
    gone = Kind(group="ghost.example.com", version="v1", name="ObjectDeleted", plural="gone", namespaced=True)
    assert await cluster.list_children(gone, f"uid-{namespace}") == []


async def test_what_we_may_do_is_known(
    connection: Connection, cluster: KubeWorkloadCluster, source: CredentialSource, namespace: str
) -> None:
    kind = find(cluster, "v1", "ConfigMap")
    assert await cluster.is_allowed("patch", kind=kind, namespace=namespace)
    await ensure_default_account(connection, namespace)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    token = (await connection.request("POST", path, body={"spec": {}}))["status"]["token"]
    async with Connection(Tokens(source.load(), [token])) as own:
        assert not await KubeWorkloadCluster(own, Ears()).is_allowed("patch", kind=kind, namespace=namespace)


def define(name: str, **fields: str) -> Object:
    """A CustomResourceDefinition of that kind, whose status has these fields and types."""
    status = {"type": "object", "properties": {field: {"type": kind} for field, kind in fields.items()}}
    schema = {"type": "object", "properties": {"status": status}}
    return real_user.make_crd(GROUP, name, {"v1": schema})


def read_status_fields(cluster: KubeWorkloadCluster, name: str) -> Any:
    """The declared fields of the kind's status; None without a schema."""
    kind = cluster.kinds.find(f"{GROUP}/v1", name)
    schema = cluster.kinds.find_schema(kind) if kind is not None else None
    return schema and schema["properties"]["status"].get("properties", {}).keys()


@pytest.mark.cluster
async def test_a_changed_definition_is_noticed(
    cluster: KubeWorkloadCluster, ears: Ears, connection: Connection, namespace: str
) -> None:
    user, definition = RealUser(connection, namespace), define("Changed")
    await real_user.install(user, [definition])
    await cluster.refresh_kinds()
    kind = cluster.kinds.find(f"{GROUP}/v1", "Changed")
    assert kind is not None
    await cluster.load_schemas([kind])
    assert read_status_fields(cluster, "Changed") == set()
    # The next refresh happens at once, before the new schema is published.
    await asyncio.sleep(REFRESH_INTERVAL)
    await user.apply(define("Changed", phase="string"))
    before = ears.kinds
    await cluster.refresh_changed_kinds()
    async with asyncio.timeout(sum(SCHEMA_DELAYS)):
        while read_status_fields(cluster, "Changed") != {"phase"}:  # noqa: ASYNC110 -- the searches have no event
            await asyncio.sleep(POLL)
    assert ears.kinds > before
