"""External objects of a Stack: it reads nothing beyond its namespace or account, and messages do not reveal whether an
object exists.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from hearth.model import limits
from support.threats.api import Object
from support.threats.world import (
    Rule,
    ThreatWorld,
    find_message,
    make_binding,
    make_config_map,
    make_stack,
    name_of,
    see_everything,
    wait_message,
)

CONFIG_MAPS = Rule(group="", resources=("configmaps",), verbs=("get", "list", "create", "patch", "delete"))
TOKEN = "hunter2-of-the-neighbor"
SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "token", "labels": {"tier": "secret"}},
    "data": {"token": base64.b64encode(TOKEN.encode()).decode()},
}


def read(kind: str, name: str, namespace: str = "", **words: Any) -> Object:
    """A resource that is only read."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"externalRef": {"apiVersion": "v1", "kind": kind, "metadata": metadata}, **words}


def list_all(kind: str, **metadata: Any) -> Object:
    """A list that is only read."""
    return {"externalRef": {"apiVersion": "v1", "kind": kind, "metadata": {"selector": {}, **metadata}}}


def test_nothing_of_another_namespace(threats: ThreatWorld) -> None:
    """A Stack reads neither an object nor its existence, and neither a list nor its length."""
    neighbor, tenant = threats.tenant(), threats.tenant()
    threats.api.create({**SECRET, "metadata": {**SECRET["metadata"], "namespace": neighbor.namespace}})
    resources = {
        "there": read("Secret", "token", neighbor.namespace, optional=True),
        "missing": read("Secret", "nothing", neighbor.namespace, optional=True),
        "all": list_all("Secret", allNamespaces=True),
        "theirs": list_all("Secret", namespace=neighbor.namespace),
        "spaces": list_all("Namespace"),
        "oracle": make_config_map(
            "oracle", {"a": "${string(has(there.data))} ${string(size(all))} ${string(size(spaces))}"}
        ),
    }
    tenant.author().create(make_stack(tenant.namespace, "reads", resources))
    threats.wait_phase(tenant.namespace, "reads", "CreateFailed")
    problems = {
        each["resource"]: each["message"] for each in threats.find_status(tenant.namespace, "reads")["problems"]
    }
    assert problems["there"].replace("token", "nothing") == problems["missing"]
    assert set(problems) >= {"there", "missing", "all", "theirs", "spaces"}
    assert threats.api.get("ConfigMap", tenant.namespace, "oracle") is None
    assert TOKEN not in see_everything(threats, tenant)


@pytest.mark.operator_options("--tenancy=strict")
def test_nothing_that_the_account_may_not_get(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author, account = tenant.author(), tenant.make_account("reader", CONFIG_MAPS)
    threats.api.create({**SECRET, "metadata": {**SECRET["metadata"], "namespace": tenant.namespace}})
    copy = make_config_map("copy", {"t": "${string(base64.decode(token.data.token))}"})
    words: Any = {"serviceAccountName": name_of(account)}
    template = {"outputs": {"t": {"value": "${token.data.token}"}}}
    author.create(
        make_stack(
            tenant.namespace, "there", {"token": read("Secret", "token"), "copy": copy}, template=template, **words
        )
    )
    author.create(make_stack(tenant.namespace, "missing", {"token": read("Secret", "nothing", optional=True)}, **words))
    author.create(make_stack(tenant.namespace, "lists", {"tokens": list_all("Secret")}, **words))
    denied = f"ServiceAccount {name_of(account)} cannot"
    wait_message(threats, tenant, "there", f"{denied} get secret/token")
    wait_message(threats, tenant, "missing", f"{denied} get secret/nothing")
    wait_message(threats, tenant, "lists", f"{denied} list and watch secrets in namespace {tenant.namespace}")
    assert threats.api.get("ConfigMap", tenant.namespace, "copy") is None
    assert base64.b64encode(TOKEN.encode()).decode() not in see_everything(threats, tenant)

    for manifest in make_binding(account, tenant.namespace, resource="secrets", verbs=("get",)):
        threats.api.create(manifest)
    threats.wait_phase(tenant.namespace, "there", "CreateComplete", "UpdateComplete")
    assert (threats.api.get("ConfigMap", tenant.namespace, "copy") or {})["data"] == {"t": TOKEN}
    assert "t" in threats.find_status(tenant.namespace, "there")["outputs"]
    assert base64.b64encode(TOKEN.encode()).decode() not in str(threats.find_status(tenant.namespace, "there"))
    assert f"{denied} list" in find_message(threats, tenant, "lists")

    threats.api.delete("RoleBinding", tenant.namespace, f"{name_of(account)}-get-secrets")
    wait_message(threats, tenant, "there", f"{denied} get secret/token")
    threats.wait_for(lambda: not threats.find_status(tenant.namespace, "there").get("outputs"), what="no output")


@pytest.mark.operator_options("--tenancy=trusted")
def test_nothing_of_the_operator(threats: ThreatWorld) -> None:
    """Not even a Stack that may read everything else reads the operator's key or namespace, directly or in a list."""
    tenant = threats.tenant()
    own = "hearth-system"
    resources = {
        "key": read("Secret", "hearth-hash-key", own, optional=True),
        "home": read("Namespace", own, optional=True),
        "theirs": list_all("Secret", namespace=own),
    }
    tenant.author().create(make_stack(tenant.namespace, "reads", resources))
    threats.wait_phase(tenant.namespace, "reads", "CreateFailed")
    problems = {
        each["resource"]: each["message"] for each in threats.find_status(tenant.namespace, "reads")["problems"]
    }
    assert set(problems) == set(resources)
    assert all("belongs to the operator" in message for message in problems.values())
    names = "${all.map(each, each.metadata.namespace + '/' + each.metadata.name).join(' ')}"
    spaces = "${spaces.map(each, each.metadata.name).join(' ')}"
    lists = {"all": list_all("Secret", allNamespaces=True), "spaces": list_all("Namespace")}
    tenant.author().create(
        make_stack(
            tenant.namespace, "lists", {**lists, "seen": make_config_map("seen", {"all": names, "spaces": spaces})}
        )
    )
    threats.wait_phase(tenant.namespace, "lists", "CreateComplete")
    seen = (threats.api.get("ConfigMap", tenant.namespace, "seen") or {})["data"]
    assert f"{own}/" not in seen["all"]
    assert own not in seen["spaces"].split()
    assert tenant.namespace in seen["spaces"].split()


def test_a_huge_object_is_refused_and_harms_nobody(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    huge = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "huge", "namespace": tenant.namespace}}
    threats.api.create({**huge, "data": {"a": "x" * 700_000, "small": "1"}})
    big = {"huge": read("ConfigMap", "huge"), "copy": make_config_map("copy", {"a": "${huge.data.a}"})}
    small = {"huge": read("ConfigMap", "huge"), "copy": make_config_map("less", {"a": "${huge.data.small}"})}
    author = tenant.author()
    author.create(make_stack(tenant.namespace, "small", small))
    threats.wait_phase(tenant.namespace, "small", "CreateComplete")
    author.create(make_stack(tenant.namespace, "big", big))
    wait_message(threats, tenant, "big", "data.a is too large")
    author.create(make_stack(tenant.namespace, "canary", {"a": make_config_map("canary")}))
    threats.wait_phase(tenant.namespace, "canary", "CreateComplete")


def test_no_tenant_takes_all_watches(threats: ThreatWorld) -> None:
    tenant, other = threats.tenant(), threats.tenant()
    kinds = [
        ("v1", name)
        for name in "ConfigMap Secret Service ServiceAccount Pod PersistentVolumeClaim Endpoints LimitRange ResourceQuota".split()
    ]
    kinds += [("v1", name) for name in "ReplicationController PodTemplate".split()]
    kinds += [("apps/v1", name) for name in "Deployment StatefulSet DaemonSet ReplicaSet".split()]
    kinds += [("batch/v1", name) for name in "Job CronJob".split()] + [("networking.k8s.io/v1", "Ingress")]
    kinds += [("networking.k8s.io/v1", "NetworkPolicy"), ("policy/v1", "PodDisruptionBudget")]
    assert len(kinds) > limits.EXTERNAL_WATCHES_PER_NAMESPACE
    resources = {
        f"r{at}": {"optional": True, "externalRef": {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}}
        for at, (version, kind) in enumerate(kinds)
    }
    tenant.author().create(make_stack(tenant.namespace, "greedy", resources))
    wait_message(threats, tenant, "greedy", "LimitReached")
    other.author().create(
        make_stack(other.namespace, "modest", {"a": read("ConfigMap", "a", optional=True), "b": make_config_map("b")})
    )
    threats.wait_phase(other.namespace, "modest", "CreateComplete")
