"""Stacks that act as an account of their namespace: its rights are their limit, for writing, reading and deleting."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from support.threats.api import Object
from support.threats.world import READ, Rule, Tenant, ThreatWorld, make_config_map, make_stack

SECRET = {"password": base64.b64encode(b"correct-horse").decode()}
CONFIG_MAPS = Rule(group="", resources=("configmaps",), verbs=("get", "list", "create", "patch", "delete"))


def name_of(account: Any) -> str:
    """The name of the ServiceAccount that an Api acts as."""
    return str(account.account.split("/")[1])


def wait_message(threats: ThreatWorld, namespace: str, name: str, reason: str) -> str:
    """Wait until `Ready` has that reason; return its message."""

    def look() -> str | None:
        conditions = threats.find_status(namespace, name).get("conditions") or ()
        return next(
            (each["message"] for each in conditions if each["type"] == "Ready" and each["reason"] == reason), None
        )

    return threats.wait_for(look, what=f"{reason} of stack/{name}")


def grant(threats: ThreatWorld, message: str) -> None:
    """Follow the message: create the objects that its kubectl commands would create."""
    words = message[message.index("kubectl create role ") :].split(" && ", maxsplit=1)[0].split()
    flags = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    role, namespace = words[3], flags["namespace"]
    account_namespace, account = message.split("--serviceaccount=")[1].split(maxsplit=1)[0].split(":")
    metadata, group = {"name": role, "namespace": namespace}, "rbac.authorization.k8s.io"
    resource, _, of = flags["resource"].partition(".")
    rule: Object = {"apiGroups": [of], "resources": [resource], "verbs": flags["verb"].split(",")}
    if "resource-name" in flags:
        rule["resourceNames"] = [flags["resource-name"]]
    threats.api.create({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": account_namespace}
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": metadata, "subjects": [subject]}
    threats.api.create({**binding, "roleRef": {"apiGroup": group, "kind": "Role", "name": role}})


def test_a_right_that_is_missing_is_named_and_noticed_when_granted(threats: ThreatWorld) -> None:
    tenant, other = threats.tenant(), threats.tenant("other")
    weak = tenant.make_account("weak")
    metadata = {"name": "far", "namespace": other.namespace}
    far = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}}
    stack = make_stack(tenant.namespace, "shop", {"far": far}, serviceAccountName=name_of(weak))
    tenant.author().create(stack)
    message = wait_message(threats, tenant.namespace, "shop", "Forbidden")
    assert threats.api.get("ConfigMap", other.namespace, "far") is None

    grant(threats, message)
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    made = threats.api.get("ConfigMap", other.namespace, "far")
    assert made is not None
    assert made["data"] == {"a": "b"}

    threats.api.delete("RoleBinding", other.namespace, f"{name_of(weak)}-configmaps")
    threats.api.delete("Stack", tenant.namespace, "shop")
    threats.wait_for(
        lambda: name_of(weak) in find_condition(threats, tenant.namespace, "DeletionBlocked"), what="DeletionBlocked"
    )
    assert threats.api.get("ConfigMap", other.namespace, "far") is not None


def test_claims_are_enlarged_with_the_rights_of_the_account(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    sets = Rule(group="apps", resources=("statefulsets",), verbs=("get", "list", "watch", "create", "patch", "delete"))
    weak = tenant.make_account("weak", sets)
    tenant.author().create(
        make_stack(tenant.namespace, "shop", {"db": make_set("1Gi")}, serviceAccountName=name_of(weak))
    )
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    before = threats.api.get("StatefulSet", tenant.namespace, "shop-db")
    assert before is not None
    patch = {"spec": {"template": {"resources": {"db": make_set("2Gi")}}}}
    threats.api.patch("Stack", tenant.namespace, "shop", patch)
    message = wait_message(threats, tenant.namespace, "shop", "Forbidden")
    assert "persistentvolumeclaims" in message
    assert "it was not deleted" in message

    grant(threats, message)
    # The account has the right now, but the API server still refuses: no volume is bound to the claim.
    wait_message(threats, tenant.namespace, "shop", "ClaimsNotEnlarged")
    after = threats.api.get("StatefulSet", tenant.namespace, "shop-db")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def make_set(size: str) -> Object:
    """A StatefulSet that is replaced with its claims kept."""
    labels = {"app": "db"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    spec = {
        "serviceName": "db",
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "db"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": spec}
    return {"manifest": manifest, "readyWhen": ["true"], "updatePolicy": {"replace": "KeepClaims"}}


def find_condition(threats: ThreatWorld, namespace: str, type_: str) -> str:
    """The message of a condition of stack/shop if it is true; otherwise ""."""
    conditions = threats.find_status(namespace, "shop").get("conditions") or ()
    return next((str(each["message"]) for each in conditions if each["type"] == type_ and each["status"] == "True"), "")


@pytest.mark.operator_options("--tenancy=strict")
def test_a_strict_stack_does_nothing_without_an_account(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author, able = tenant.author(), tenant.make_account("able", CONFIG_MAPS)
    author.create(make_stack(tenant.namespace, "shop", {"a": make_config_map("a")}))
    wait_message(threats, tenant.namespace, "shop", "ServiceAccountRequired")
    assert threats.api.get("ConfigMap", tenant.namespace, "a") is None

    author.patch("Stack", tenant.namespace, "shop", {"spec": {"serviceAccountName": name_of(able)}})
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete", "UpdateComplete")
    author.patch("Stack", tenant.namespace, "shop", {"spec": {"serviceAccountName": None}})
    wait_message(threats, tenant.namespace, "shop", "ServiceAccountRequired")
    assert threats.api.get("ConfigMap", tenant.namespace, "a") is not None


@pytest.mark.operator_options("--tenancy=strict")
def test_an_account_reads_no_secret_that_it_may_not_get(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    account = tenant.make_account("weak", CONFIG_MAPS)
    author, strong = tenant.author(), tenant.make_account("strong", Rule(group="", resources=("secrets",), verbs=READ))
    metadata = {"name": "db", "namespace": tenant.namespace}
    threats.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": SECRET})
    template = {"parameters": {"password": {"type": "string", "sensitive": False}}}
    copy = make_config_map("copy", {"p": "${params.password}"})
    reads = make_stack(
        tenant.namespace, "reads", {"copy": copy}, template=template, parametersFrom=[{"secretRef": {"name": "db"}}]
    )
    adopted = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    adopts = make_stack(tenant.namespace, "adopts", {"db": {"manifest": adopted, "adoptionPolicy": "Adopt"}})
    annotations = {"kubernetes.io/service-account.name": name_of(strong)}
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token", "namespace": tenant.namespace, "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    mints = make_stack(tenant.namespace, "mints", {"token": {"manifest": token}})
    for stack in (reads, adopts, mints):
        stack["spec"]["serviceAccountName"] = name_of(account)
        author.create(stack)

    message = wait_message(threats, tenant.namespace, "reads", "SourceForbidden")
    for name in ("adopts", "mints"):
        assert threats.wait_problem(tenant.namespace, name)["reason"] == "Forbidden"
    assert threats.api.get("ConfigMap", tenant.namespace, "copy") is None
    assert threats.api.get("Secret", tenant.namespace, "token") is None
    live = threats.api.get("Secret", tenant.namespace, "db")
    assert live is not None
    assert "labels" not in live["metadata"]

    grant(threats, message)
    threats.wait_phase(tenant.namespace, "reads", "CreateComplete", "UpdateComplete")


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=pytest.mark.operator_options(f"--tenancy={mode}"))
        for mode in ("isolated", "strict", "trusted")
    ],
)
def test_an_account_does_not_open_the_operators_namespace(threats: ThreatWorld, mode: str) -> None:
    tenant = threats.tenant()
    threats.api.create(make_admin_binding(tenant, mode))
    metadata = {"name": "inside", "namespace": "hearth-system"}
    inside = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}
    tenant.author().create(make_stack(tenant.namespace, "shop", {"a": inside}, serviceAccountName="default"))
    assert threats.wait_problem(tenant.namespace, "shop")["reason"] == "NamespaceNotAllowed"
    assert threats.api.get("ConfigMap", "hearth-system", "inside") is None
    threats.api.delete("ClusterRoleBinding", "", f"{tenant.namespace}-{mode}")


def make_admin_binding(tenant: Tenant, name: str) -> Object:
    """All rights for the account `default` of a tenant."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{tenant.namespace}-{name}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": tenant.namespace}],
    }


def test_the_name_of_an_account_is_nothing_but_a_name(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    for name in ("a\r\nImpersonate-Group: system:masters", "kube-system:default", "../default", "", "A"):
        stack = make_stack(tenant.namespace, "shop", {"a": make_config_map("a")}, serviceAccountName=name)
        assert author.try_create(stack).code == 422, name


@pytest.mark.operator_options("--tenancy=strict")
def test_a_nested_stack_takes_no_account_that_its_parent_may_not_use(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    stacks = Rule(group="hearth.dev", resources=("stacks",), verbs=("get", "list", "create", "patch", "delete"))
    weak, strong = tenant.make_account("weak", stacks), tenant.make_account("strong", CONFIG_MAPS)
    inner = make_stack(tenant.namespace, "inner", {"a": make_config_map("planted")}, serviceAccountName=name_of(strong))
    outer = make_stack(tenant.namespace, "outer", {"inner": {"manifest": inner}}, serviceAccountName=name_of(weak))
    tenant.author().create(outer)
    problem = threats.wait_problem(tenant.namespace, "outer")
    assert problem["reason"] == "Forbidden", problem
    assert threats.api.get("Stack", tenant.namespace, "inner") is None

    grant(threats, wait_message(threats, tenant.namespace, "outer", "Forbidden"))
    threats.wait_phase(tenant.namespace, "outer", "CreateComplete")
    assert threats.api.get("ConfigMap", tenant.namespace, "planted") is not None
