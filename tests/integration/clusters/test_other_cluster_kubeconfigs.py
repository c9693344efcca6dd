"""Kubeconfigs that change, expire or are invalid; and no user can read them through the operator."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.model.child import Object
from support.real import other_cluster
from support.real.other_cluster import Region, config, make_kubeconfig

CANARY = "canary-credential-0123456789abcdef"


async def test_rotated_credentials_are_taken_up_and_lost_ones_are_told(region: Region) -> None:
    first, second = [await region.make_account(name) for name in ("first", "second")]
    await region.put_kubeconfig(make_kubeconfig(region.other, token=first))
    await region.create({"db": config("1")})
    await region.until(phase="CreateComplete")
    made = await region.list_there()

    await region.put_kubeconfig(make_kubeconfig(region.other, token=second))
    await region.delete_account("first")
    await region.edit({"template": {"resources": {"db": config("2")}}})
    await region.until(phase="UpdateComplete")
    changed = await region.until_there(db="2")
    assert changed["shop-db"]["metadata"]["uid"] == made["shop-db"]["metadata"]["uid"]

    await region.delete_account("second")
    await region.until(reason="ClusterUnauthorized", message="renew them in the Secret")
    await region.edit({"template": {"resources": {"db": config("3")}}})
    await region.put_kubeconfig(make_kubeconfig(region.other, token=await region.make_account("third")))
    await region.until(phase="UpdateComplete")
    await region.until_there(db="3")
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    log = region.operator.log_file.read_text() if region.operator.log_file is not None else ""
    assert [token for token in (first, second) if token in log] == []
    region.check_operator()


def hostile(found: Object, **user: Any) -> Object:
    """A kubeconfig with a changed user entry."""
    return {**found, "users": [{"name": "east", "user": user}]}


async def test_refused_kubeconfigs_change_nothing(region: Region) -> None:
    """Each rejection names its field; a running Stack keeps its objects, and continues with a valid kubeconfig."""
    valid = make_kubeconfig(region.other)
    wrong: list[tuple[Object | str, str, str]] = [
        (hostile(valid, exec={"command": "/bin/touch", "args": ["owned"]}), "KubeConfigInvalid", "user.exec"),
        (hostile(valid, tokenFile="/var/run/secrets/token"), "KubeConfigInvalid", "user.tokenFile"),
        (hostile(valid, token=CANARY, **{"as": "admin"}), "KubeConfigInvalid", "user.as "),
        (f"not: [a kubeconfig, {CANARY}", "KubeConfigInvalid", "is not valid YAML"),
        (make_kubeconfig(region.other, server="http://127.0.0.1:1"), "KubeConfigInvalid", "must begin with https://"),
        (make_kubeconfig(region.other, **{"proxy-url": "http://p"}), "KubeConfigInvalid", "cluster.proxy-url"),
        (
            make_kubeconfig(region.other, server="https://127.0.0.1:1"),
            "ClusterChanged",
            "would leave its objects behind",
        ),
        (make_kubeconfig(region.other, token=CANARY), "ClusterUnauthorized", "does not accept the credentials"),
    ]
    await region.create({"db": config("1")})
    await region.until(phase="CreateComplete")
    made = await region.list_there()
    for content, reason, said in wrong:
        await region.put_kubeconfig(content)
        status = await region.until(reason=reason, message=said)
        assert CANARY not in orjson.dumps(status).decode()
        await region.edit({"template": {"resources": {"db": config("2")}}})
        await region.until(reason=reason)
        assert await region.list_there() == made
    await region.put_kubeconfig(valid)
    await region.until(phase="UpdateComplete")
    await region.until_there(db="2")

    path = f"/api/v1/namespaces/{region.namespace}/secrets/{other_cluster.SECRET}"
    await region.here.connection.request("DELETE", path)
    await region.until(reason="SourceNotFound", message="does not exist")
    await region.here.delete(region.address_of("shop"))
    # The deletion uses the open connection.
    await region.until_gone()
    assert await region.list_there() == {}
    log = region.operator.log_file.read_text() if region.operator.log_file is not None else ""
    assert CANARY not in log
    region.check_operator()


async def test_a_stack_without_objects_may_change_its_cluster(region: Region) -> None:
    await region.put_kubeconfig(make_kubeconfig(region.other, server="https://127.0.0.1:1"))
    await region.create({"db": config("1")})
    await region.until(reason="ClusterUnreachable", message="127.0.0.1:1")
    await region.create({"db": config("1")}, name="other")
    await region.until("other", reason="ClusterUnreachable")
    await region.here.delete(region.address_of("other"))
    await region.until_gone("other")
    await region.put_kubeconfig(make_kubeconfig(region.other))
    await region.until(phase="CreateComplete")
    await region.edit({"kubeConfig": None})
    await region.until(reason="ClusterChanged", message="a move to this cluster")
    assert await region.list_there(region.here) == {}
    await region.edit({"kubeConfig": {"secretRef": {"name": other_cluster.SECRET, "key": "value"}}})
    await region.until(phase="CreateComplete")
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    region.check_operator()


@pytest.mark.parametrize("is_granted", [False, True])
async def test_the_account_is_impersonated_there(region: Region, is_granted: bool) -> None:
    await region.here.connection.request(
        "POST", f"/api/v1/namespaces/{region.namespace}/serviceaccounts", body={"metadata": {"name": "deployer"}}
    )
    await bind(region.here.connection, region.namespace)
    if is_granted:
        await bind(region.there.connection, region.namespace)
    await region.create({"db": config("1")}, serviceAccountName="deployer")
    if is_granted:
        await region.until(phase="CreateComplete")
    else:
        status = await region.until(phase="CreateFailed")
        assert [each["reason"] for each in status["problems"]] == ["Forbidden"]
        assert await region.list_there() == {}
        await bind(region.there.connection, region.namespace)
        await region.until(phase="CreateComplete")
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    region.check_operator()


async def bind(connection: Any, namespace: str) -> None:
    """Give the account the role `admin` in that namespace."""
    binding = {
        "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}],
    }
    path = f"{other_cluster.RBAC}/namespaces/{namespace}/rolebindings"
    await connection.request("POST", path, body=binding)


async def test_a_role_in_one_namespace_is_enough(region: Region) -> None:
    token = await region.make_account("edit", role="view")
    await region.there.connection.request("DELETE", f"{other_cluster.RBAC}/clusterrolebindings/{region.namespace}-edit")
    binding = {
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "edit", "namespace": region.namespace}],
    }
    path = f"{other_cluster.RBAC}/namespaces/{region.namespace}/rolebindings"
    await region.there.connection.request("POST", path, body=binding)
    content = make_kubeconfig(region.other, token=token)
    content["contexts"][0]["context"]["namespace"] = region.namespace
    await region.put_kubeconfig(content)
    elsewhere = config("1")
    elsewhere["manifest"]["metadata"] = {"namespace": "default"}
    await region.create({"db": config("1"), "far": elsewhere})
    status = await region.until(phase="CreateFailed")
    assert [(each["resource"], each["reason"]) for each in status["problems"]] == [("far", "NamespaceNotServed")]
    await region.edit({"template": {"resources": {"db": config("2"), "far": None}}})
    await region.until(phase="UpdateComplete")
    await region.until_there(db="2")
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    region.check_operator()
