"""A Stack with objects in another cluster, on two real API servers.

Also objects it only reads there, and the deletion of its namespace together with its kubeconfig.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.kube.auth import credentials
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK_DEFINITION
from support import repository
from support.checks import expectations
from support.real import definition_leftovers, fault_scenario, other_cluster, real_user
from support.real.control_plane_processes import OwnPlane
from support.real.fault_scenario import API_VERSION
from support.real.other_cluster import Region, config
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.world import Address

EXAMPLE = repository.EXAMPLES / "other-cluster.yaml"
CONFIG: Object = {"apiVersion": "v1", "kind": "ConfigMap"}
RESOURCES: Object = {
    "platform": {"externalRef": {**CONFIG, "metadata": {"name": "platform"}}},
    "teams": {"externalRef": {**CONFIG, "metadata": {"selector": {"matchLabels": {"role": "team"}}}}},
    "db": {"manifest": {**CONFIG, "data": {"v": "${platform.data.v}"}}},
    "quota": {"forEach": "teams", "manifest": {**CONFIG, "data": {"v": "${item.metadata.name}"}}},
}


async def test_objects_are_created_changed_repaired_and_deleted_there(region: Region) -> None:
    await region.create({"db": config("1"), "web": config("1", needs="db")})
    await region.until(phase="CreateComplete")
    made = await region.until_there(db="1", web="1")
    assert await region.list_there(region.here) == {}

    await region.edit({"template": {"resources": {"db": config("2"), "web": config("1", needs="db")}}})
    await region.until(phase="UpdateComplete")
    changed = await region.until_there(db="2", web="1")
    assert changed["shop-web"]["data"]["above"] == "2"
    assert {name: raw["metadata"]["uid"] for name, raw in changed.items()} == {
        name: raw["metadata"]["uid"] for name, raw in made.items()
    }

    path = f"/api/v1/namespaces/{region.namespace}/configmaps/shop-web"
    await region.there.connection.request("DELETE", path)
    again = await region.until_there(db="2", web="1")
    assert again["shop-web"]["metadata"]["uid"] != made["shop-web"]["metadata"]["uid"]

    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    assert await region.list_there() == {}
    region.check_operator()


async def test_a_replaced_rolled_back_and_marked_object(region: Region) -> None:
    immutable = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "immutable": True, "data": {"v": "1"}}}
    await region.create({"db": immutable, "web": config("1", needs="db")})
    await region.until(phase="CreateComplete")
    before = await region.list_there()

    await region.edit({"template": {"resources": {"db": change(immutable, "2"), "web": config("1", needs="db")}}})
    await region.until(phase="UpdateComplete")
    replaced = await region.list_there()
    assert before["shop-db"]["metadata"]["uid"] not in {raw["metadata"]["uid"] for raw in replaced.values()}
    assert replaced["shop-web"]["data"]["above"] == "2"

    await region.edit({"rollback": {"toRevision": 1}})
    await region.until(phase="RollbackComplete")
    back = await region.list_there()
    assert back["shop-web"]["data"]["above"] == "1"

    await region.here.create(
        {
            "apiVersion": API_VERSION,
            "kind": "HealthMark",
            "metadata": {"name": "bad", "namespace": region.namespace},
            "spec": {"stackName": "shop", "resource": "web", "markUnhealthy": True, "reason": "it is bad"},
        }
    )
    web = back["shop-web"]["metadata"]["uid"]
    async for _ in other_cluster.attempts():
        now = {raw["metadata"]["uid"] for raw in (await region.list_there()).values()}
        if web not in now and len(now) == 2:
            break
    await region.until(phase="RollbackComplete")
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    region.check_operator()


def change(resource: Object, value: str) -> Object:
    """The same ConfigMap with another value."""
    return {"manifest": {**resource["manifest"], "data": {"v": value}}}


async def test_a_remote_stack_in_a_stack(region: Region) -> None:
    template = {"resources": {"db": config("1")}, "outputs": {"value": {"value": "${db.data.v}"}}}
    spec = {"kubeConfig": {"secretRef": {"name": other_cluster.SECRET}}, "template": template}
    east = {"manifest": {"apiVersion": API_VERSION, "kind": "Stack", "spec": spec}}
    note = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "${east.status.outputs.value}"}}}
    parent = {"template": {"resources": {"east": east, "note": note}}}
    await region.here.create(stack_manifests.make_stack(parent, name="world", namespace=region.namespace))
    await region.until("world", phase="CreateComplete")
    assert (await region.list_there(region.here))["world-note"]["data"] == {"v": "1"}
    made = await region.list_there()
    assert list(made) == ["world-east-db"]

    await region.here.create(
        {
            "apiVersion": API_VERSION,
            "kind": "HealthMark",
            "metadata": {"name": "bad", "namespace": region.namespace},
            "spec": {"stackName": "world", "resource": "east/db", "markUnhealthy": True, "reason": "it is bad"},
        }
    )
    async for _ in other_cluster.attempts():
        now = await region.list_there()
        if now and all(raw["metadata"]["uid"] != made["world-east-db"]["metadata"]["uid"] for raw in now.values()):
            break
    await region.until("world", phase="CreateComplete")
    await region.here.delete(region.address_of("world"))
    await region.until_gone("world")
    assert await region.list_there() == {}
    region.check_operator()


async def test_a_stack_there_and_objects_of_others_are_left_alone(region: Region) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "shop-db",
            "labels": {names.LABEL_STACK_UID: "of-another", names.LABEL_STACK: "x", names.LABEL_RESOURCE: "db"},
        },
        "data": {"v": "theirs"},
    }
    await region.there.connection.request(
        "PATCH",
        f"/api/v1/namespaces/{region.namespace}/configmaps/shop-db",
        query={"fieldManager": "hearth:default/x"},
        body=foreign,
        content_type="application/apply-patch+yaml",
    )
    await real_user.install(region.there, list(fake_kinds.make_crds()))
    nested = {"apiVersion": API_VERSION, "kind": "Stack", "spec": {"template": {"resources": {}}}}
    await region.create({"db": {**config("1"), "adoptionPolicy": "Adopt"}, "inner": {"manifest": nested}})
    problems: dict[str, str] = {}
    async for _ in other_cluster.attempts():
        status = await region.find_status()
        problems = {each["resource"]: each["reason"] for each in status.get("problems") or ()}
        if len(problems) == 2:
            break
    assert problems == {"inner": "NestedStackNotAllowed", "db": "NotOwned"}
    assert (await region.list_there())["shop-db"]["data"] == {"v": "theirs"}
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    region.check_operator()


async def test_the_example(region: Region) -> None:
    manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["metadata"]["namespace"] = region.namespace
    await region.here.create(manifest)
    status = await region.until(phase="CreateComplete")
    found = await region.list_there()
    assert status["outputs"] == {"settings": found["shop-settings"]["metadata"]["uid"]}
    await region.operator.wait_metric("hearth_cluster_stacks", 1)
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    region.check_operator()


async def test_a_group_in_another_cluster(region: Region) -> None:
    spec = {
        "replicas": 2,
        "kubeConfig": {"secretRef": {"name": other_cluster.SECRET}},
        "template": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "${key}"}}},
    }
    metadata = {"name": "workers", "namespace": region.namespace}
    await region.here.create({"apiVersion": API_VERSION, "kind": "ResourceGroup", "metadata": metadata, "spec": spec})
    path = f"/apis/{API_VERSION}/namespaces/{region.namespace}/resourcegroups/workers"
    for count in (2, 4, 1):
        await region.here.connection.request(
            "PATCH", f"{path}/scale", body={"spec": {"replicas": count}}, content_type="application/merge-patch+json"
        )
        found: dict[str, Object] = {}
        async for _ in other_cluster.attempts():
            found = await region.list_there()
            if len(found) == count:
                break
        assert {raw["data"]["v"] for raw in found.values()} == {str(number) for number in range(count)}
    await region.here.connection.request("DELETE", path)
    async for _ in other_cluster.attempts():
        if not await region.list_there():
            break
    assert await region.list_there(region.here) == await region.list_there() == {}
    region.check_operator()


async def test_the_commands_follow_a_stack_into_its_cluster(region: Region, kubeconfig: Path) -> None:
    command = StackCommand(kubeconfig=kubeconfig, namespace=region.namespace)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "absent",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await region.create({"db": config("1"), "claim": {"manifest": claim}})
    await region.until_there(db="1")

    not_asked = await command.run("tree", "shop")
    assert "add --other-clusters" in not_asked.stdout + not_asked.stderr
    assert "configmap/shop-db" not in not_asked.stdout

    tree = await command.expect("tree", "shop", "--other-clusters")
    found = await command.run("why", "shop", "--other-clusters")
    while "ProvisioningFailed" not in found.stdout:
        assert found.returncode == 1, found.stderr
        found = await command.run("why", "shop", "--other-clusters")

    assert "configmap/shop-db" in tree
    assert "kubectl --kubeconfig <(kubectl get secret east " in found.stdout
    assert "get storageclasses" in found.stdout

    events = await command.expect("events", "shop", "--other-clusters")
    assert "ProvisioningFailed" in events
    assert "revision" in events

    await region.put_kubeconfig("users: [{name: a, user: {exec: {command: touch}}}]", name="east")
    refused = await command.run("tree", "shop")
    assert "its kubeconfig is refused" in refused.stdout + refused.stderr


NOTE = Kind(group="platform.example", version="v1alpha1", name="Note", plural="notes", namespaced=True)
DEFINITION = f"{NOTE.plural}.{NOTE.group}"


@pytest.mark.usefixtures("_alone_defines")
async def test_instances_of_a_definition_some_of_which_are_in_another_cluster(
    kubeconfig: Path, other_plane: OwnPlane, tmp_path: Path
) -> None:
    home = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    other = credentials.find_source(kubeconfig=str(other_plane.kubeconfig), context=None, environ={})
    options = (f"--definition-groups={NOTE.group}",)
    async with other_cluster.run_region(home, other, kubeconfig, tmp_path, options=options) as region:
        await definition_leftovers.clear(region.here.connection, NOTE.group)
        await region.here.send("POST", STACK_DEFINITION, body=make_definition("1"))
        await until_complete(region, STACK_DEFINITION, DEFINITION, revision=1)
        there = {"stack": {"kubeConfig": {"secretRef": {"name": other_cluster.SECRET}}}}
        for name, spec in (("here", {}), ("there", there)):
            note = {"apiVersion": NOTE.api_version, "kind": NOTE.name, "metadata": {"name": name}, "spec": spec}
            await region.here.send("POST", NOTE, body=note)
            await until_complete(region, NOTE, name)
        assert list(await region.list_there(region.here)) == ["here-db"]
        assert list(await region.list_there()) == ["there-db"]

        await region.here.merge(STACK_DEFINITION, DEFINITION, {"spec": make_definition("2")["spec"]})
        status = await until_complete(region, STACK_DEFINITION, DEFINITION, revision=2)
        assert (status["instances"], status["updated"]) == (2, 2)
        objects = {**await region.list_there(), **await region.list_there(region.here)}
        assert {name: each["data"]["v"] for name, each in objects.items()} == {"here-db": "2", "there-db": "2"}

        for name in ("here", "there"):
            await region.here.send("DELETE", NOTE, name)
        await region.here.send("DELETE", STACK_DEFINITION, DEFINITION)
        async for _ in other_cluster.attempts():
            if not await region.here.find_named(STACK_DEFINITION, DEFINITION):
                break
        assert await region.list_there() == await region.list_there(region.here) == {}
        region.check_operator()


def make_definition(value: str) -> Object:
    """The kind of notes; each instance is one ConfigMap."""
    spec = {
        "group": NOTE.group,
        "names": {"kind": NOTE.name, "plural": NOTE.plural},
        "versions": [{"name": NOTE.version}],
        "options": ["kubeConfig"],
        "template": {"resources": {"db": config(value)}},
    }
    return {"apiVersion": API_VERSION, "kind": "StackDefinition", "metadata": {"name": DEFINITION}, "spec": spec}


async def until_complete(region: Region, kind: Kind, name: str, **wanted: int) -> Object:
    """Wait until an object is complete and its status has these fields; return the status."""
    found: Object = {}
    async for _ in other_cluster.attempts():
        found = await region.here.find_named(kind, name) or {}
        is_wanted = wanted.items() <= found.get("status", {}).items()
        if is_wanted and expectations.find_condition(found, "Ready").get("reason") == "Complete":
            return dict(found["status"])
    raise AssertionError(f"{name}: {found.get('status')}")


async def put(user: RealUser, region: Region, name: str, **metadata: Any) -> None:
    """Create a ConfigMap outside of any Stack, with a value `v`."""
    value = metadata.pop("v")
    body = {**CONFIG, "metadata": {"name": name, "namespace": region.namespace, **metadata}, "data": {"v": value}}
    await user.create(body)


def find_address(region: Region, name: str) -> Address:
    """The address of a ConfigMap."""
    return Address(api_version="v1", kind="ConfigMap", namespace=region.namespace, name=name)


async def test_objects_there_are_read_and_those_here_are_not(region: Region) -> None:
    await put(region.here, region, "platform", v="here")
    await put(region.here, region, "red", v="-", labels={"role": "team"})
    await region.create(RESOURCES)
    await region.until(phase="CreateInProgress", reason="ObjectNotFound", message="platform")

    await put(region.there, region, "platform", v="1")
    await region.until(phase="CreateComplete")
    await region.until_there(db="1")
    await region.there.patch(find_address(region, "platform"), {"data": {"v": "2"}})
    await region.until_there(db="2")

    await put(region.there, region, "blue", v="-", labels={"role": "team"})
    await region.until_there(db="2", **{"quota-blue": "blue"})
    await put(region.there, region, "green", v="-", labels={"role": "team"})
    await region.until_there(db="2", **{"quota-blue": "blue", "quota-green": "green"})
    await region.there.delete(find_address(region, "green"))
    await region.until_there(db="2", **{"quota-blue": "blue"})
    await region.until(phase="CreateComplete")

    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    assert await region.list_there() == {}
    assert await region.there.find(find_address(region, "platform")) is not None
    region.check_operator()


@pytest.fixture
async def own(region: Region) -> AsyncIterator[Region]:
    """An operator with a separate namespace from the Stacks, as in an installation."""
    await region.operator.kill()
    async with contextlib.AsyncExitStack() as parts:
        region.operator.operator_namespace = await fault_scenario.make_namespace(region.here.connection, parts)
        await region.operator.start()
        yield region


async def delete_namespace(region: Region) -> None:
    """As `kubectl delete namespace --wait=false`."""
    await region.here.connection.request("DELETE", f"/api/v1/namespaces/{region.namespace}")


async def until_namespace_is_gone(region: Region) -> None:
    """Wait until the namespace is deleted."""
    async for _ in other_cluster.attempts():
        found = await region.here.connection.request("GET", "/api/v1/namespaces")
        if region.namespace not in {raw["metadata"]["name"] for raw in found["items"]}:
            return


async def test_it_ends_and_the_objects_there_are_deleted(own: Region) -> None:
    await own.create({"db": config("1"), "web": config("1", needs="db")})
    await own.until(phase="CreateComplete")
    await delete_namespace(own)
    await until_namespace_is_gone(own)
    assert await own.list_there() == {}
    own.check_operator()


async def test_without_an_open_connection_it_ends_and_names_what_is_left(own: Region) -> None:
    await own.create({"db": config("1")})
    await own.until(phase="CreateComplete")
    made = await own.list_there()
    uid = made["shop-db"]["metadata"]["labels"][names.LABEL_STACK_UID]
    await own.operator.kill()
    await delete_namespace(own)
    async for _ in other_cluster.attempts():
        secrets = await own.here.connection.request("GET", f"/api/v1/namespaces/{own.namespace}/secrets")
        if not secrets["items"]:
            break
    await own.operator.start()
    await until_namespace_is_gone(own)

    assert (await own.list_there()).keys() == made.keys()
    events = await own.here.connection.request("GET", "/api/v1/namespaces/default/events")
    found = [each for each in events["items"] if each["involvedObject"]["name"] == own.namespace]
    (event,) = (each for each in found if each["reason"] == "ClusterAbandoned")
    assert not [each["message"] for each in found if "create it" in each["message"]]
    assert f"{names.LABEL_STACK_UID}={uid}" in event["message"]
    assert own.other.server in event["message"]
    own.check_operator()
