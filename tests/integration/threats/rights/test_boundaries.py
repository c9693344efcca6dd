"""Attacks beyond a tenant's own namespace: on Secrets, the operator's token, key and rules, and others' objects."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from support.threats.api import STACK_VERSION, Object
from support.threats.world import ThreatWorld, make_config_map, make_stack

PASSWORD = base64.b64encode(b"correct-horse").decode()
ENDS = ("CreateComplete", "CreateFailed")
OPERATOR = "hearth-system"
TOKEN = {
    "manifest": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "loot",
            "namespace": OPERATOR,
            "annotations": {"kubernetes.io/service-account.name": "hearth"},
        },
        "type": "kubernetes.io/service-account-token",
    }
}
RULES = {
    "manifest": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "hearth-health-rules", "namespace": OPERATOR},
        "data": {"mallory": "rules: [{kind: v1/ConfigMap, state: failed, terminal: true}]"},
    }
}
KEY = {
    "manifest": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hearth-hash-key", "namespace": OPERATOR}},
    "adoptionPolicy": "Adopt",
}
NAMESPACE = {
    "manifest": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR}},
    "adoptionPolicy": "Adopt",
}


def take(name: str, namespace: str, **more: Any) -> Object:
    """A resource that adopts a Secret. more: fields of its manifest."""
    metadata = {"name": name, "namespace": namespace}
    return {"manifest": {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **more}, "adoptionPolicy": "Adopt"}


def wait_end(threats: ThreatWorld, namespace: str, name: str) -> Object:
    """Wait until the first attempt at a Stack has ended; return its status."""
    status: Object = threats.wait_phase(namespace, name, *ENDS)["status"]
    return status


def find_reasons(status: Object) -> set[str]:
    """The reasons of the problems of its resources."""
    return {each["reason"] for each in status.get("problems") or ()}


def test_a_stack_takes_no_secret_of_another_namespace(threats: ThreatWorld) -> None:
    victim, tenant = threats.tenant("victim"), threats.tenant()
    metadata = {"name": "db", "namespace": victim.namespace}
    before = threats.api.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": PASSWORD}}
    )

    resources = {"loot": take("db", victim.namespace), "copy": make_config_map("copy", {"p": "${loot.data.password}"})}
    tenant.author().create(make_stack(tenant.namespace, "thief", resources))
    status = wait_end(threats, tenant.namespace, "thief")

    assert threats.api.get("ConfigMap", tenant.namespace, "copy") is None
    assert threats.api.get("Secret", victim.namespace, "db") == before
    assert PASSWORD not in str(status)
    assert find_reasons(status) == {"NamespaceNotAllowed"}

    absent = {"loot": take("no-such-secret", victim.namespace)}
    tenant.author().create(make_stack(tenant.namespace, "curious", absent))
    curious = wait_end(threats, tenant.namespace, "curious")
    reported = [status["problems"][0]["message"], curious["problems"][0]["message"]]
    assert reported[0].replace("secret/db", "") == reported[1].replace("secret/no-such-secret", "")
    threats.canary()


def test_a_stack_creates_nothing_beyond_its_namespace(threats: ThreatWorld) -> None:
    victim, tenant = threats.tenant("victim"), threats.tenant()
    planted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "planted", "namespace": victim.namespace}}
    abroad = make_stack(victim.namespace, "abroad", {"a": make_config_map("by-abroad")})
    inner = make_stack(tenant.namespace, "inner", {"a": {"manifest": planted}})
    resources = {
        "direct": {"manifest": planted},
        "space": {
            "manifest": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{tenant.namespace}-more"}}
        },
        "abroad": {"manifest": abroad},
        "inner": {"manifest": inner},
    }
    tenant.author().create(make_stack(tenant.namespace, "outer", resources))
    inside = threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "inner"), what="the nested Stack")
    assert inside["apiVersion"] == STACK_VERSION
    status = wait_end(threats, tenant.namespace, "inner")

    assert find_reasons(status) == {"NamespaceNotAllowed"}
    outer = threats.wait_phase(tenant.namespace, "outer", "CreateFailed")["status"]
    assert "NamespaceNotAllowed" in find_reasons(outer)
    assert threats.api.get("ConfigMap", victim.namespace, "planted") is None
    assert threats.api.get("Stack", victim.namespace, "abroad") is None
    assert threats.api.get("Namespace", "", f"{tenant.namespace}-more") is None
    threats.canary()


CLOSED = [
    pytest.param({"tok": TOKEN}, id="the operator's token"),
    pytest.param({"rules": RULES}, id="rules for all tenants"),
    pytest.param({"key": KEY, "copy": make_config_map("copy", {"k": "${key.data.key}"})}, id="the key of all hashes"),
    pytest.param({"space": NAMESPACE}, id="the namespace itself"),
]


@pytest.mark.parametrize("resources", CLOSED)
def test_a_stack_gets_nothing_of_the_operator(threats: ThreatWorld, resources: Object) -> None:
    assert_nothing_taken(threats, resources)


@pytest.mark.parametrize("resources", CLOSED)
@pytest.mark.operator_options("--tenancy=trusted")
def test_a_trusted_stack_gets_nothing_of_the_operator(threats: ThreatWorld, resources: Object) -> None:
    other = threats.tenant("other")
    assert_nothing_taken(threats, resources)
    metadata = {"name": "welcome", "namespace": other.namespace}
    welcome = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}
    tenant = threats.tenant()
    tenant.author().create(make_stack(tenant.namespace, "guest", {"a": welcome}))
    threats.wait_phase(tenant.namespace, "guest", "CreateComplete")
    assert threats.api.get("ConfigMap", other.namespace, "welcome") is not None


def assert_nothing_taken(threats: ThreatWorld, resources: Object) -> None:
    """Check that a Stack of these resources changes nothing in the operator's namespace, and copies nothing out of it."""
    before = list_operator_objects(threats)
    tenant = threats.tenant()
    tenant.author().create(make_stack(tenant.namespace, "thief", resources))
    status = wait_end(threats, tenant.namespace, "thief")

    assert list_operator_objects(threats) == before
    assert threats.api.get("ConfigMap", tenant.namespace, "copy") is None
    assert "NamespaceNotAllowed" in find_reasons(status)
    threats.canary()


def list_operator_objects(threats: ThreatWorld) -> list[Object]:
    """The operator's namespace, and all its objects of kinds that Stacks may have."""
    kinds = ("Secret", "ConfigMap", "Stack")
    space = threats.api.get("Namespace", "", OPERATOR)
    assert space is not None
    return [space, *(each for kind in kinds for each in threats.api.list(kind, OPERATOR))]


def test_the_operators_namespace_has_no_stacks(threats: ThreatWorld) -> None:
    stack = make_stack(
        OPERATOR,
        "inside",
        {"a": make_config_map("inside", {"k": "${params.key}"})},
        template={"parameters": {"key": {"type": "string"}}},
        parametersFrom=[{"secretRef": {"name": "hearth-hash-key"}}],
    )
    threats.api.create(stack)
    try:
        status = wait_end(threats, OPERATOR, "inside")
        ready = next(each for each in status["conditions"] if each["type"] == "Ready")
        assert ready["reason"] == "NamespaceNotAllowed", status
        assert "hash-key" not in ready["message"]
        assert threats.api.get("ConfigMap", OPERATOR, "inside") is None
    finally:
        threats.api.delete_all("Stack", OPERATOR)
    threats.canary()


@pytest.mark.operator_options("--tenancy=trusted")
def test_what_stands_when_the_boundary_comes_is_kept(threats: ThreatWorld) -> None:
    other, tenant = threats.tenant("other"), threats.tenant()
    author = tenant.author()
    metadata = {"name": "far", "namespace": other.namespace}
    far = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}}
    author.create(make_stack(tenant.namespace, "shop", {"far": far, "near": make_config_map("near")}))
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    before = threats.api.get("ConfigMap", other.namespace, "far")

    threats.operator.options = ()
    threats.operator.restart()
    problem = threats.wait_problem(tenant.namespace, "shop")
    assert problem["reason"] == "NamespaceNotAllowed"
    near = make_config_map("near", {"a": "c"})
    author.patch("Stack", tenant.namespace, "shop", {"spec": {"template": {"resources": {"far": None, "near": near}}}})
    threats.wait_for(lambda: is_changed(threats, tenant.namespace), what="the near object is updated")
    author.delete("Stack", tenant.namespace, "shop")
    threats.wait_for(
        lambda: threats.api.get("ConfigMap", tenant.namespace, "near") is None, what="the near object is deleted"
    )
    threats.wait_for(
        lambda: "DeletionBlocked" in str(threats.find_status(tenant.namespace, "shop")), what="DeletionBlocked"
    )

    assert threats.api.get("ConfigMap", other.namespace, "far") == before


def is_changed(threats: ThreatWorld, namespace: str) -> bool:
    """Whether the object in the tenant's own namespace has its new data."""
    return ((threats.api.get("ConfigMap", namespace, "near") or {}).get("data") or {}).get("a") == "c"
