"""The rights of the operator in the `strict` installation: actions that are impossible even with a stolen token."""

from __future__ import annotations

import pytest

from support.threats import mode_world
from support.threats.api import Object
from support.threats.world import READ, WRITE, Rule, ThreatWorld, make_config_map, make_stack, name_of

ABLE = Rule(group="", resources=("configmaps", "secrets"), verbs=(*READ, *WRITE))
STRICT = ("--tenancy=strict", "--namespaced-watches=Secret")


def may(threats: ThreatWorld, verb: str, resource: str, namespace: str = "", *, group: str = "") -> bool:
    """Whether the operator's own account has that right."""
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    groups = ["system:serviceaccounts", "system:serviceaccounts:hearth-system", "system:authenticated"]
    spec = {"user": mode_world.OPERATOR, "groups": groups, "resourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = threats.api.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review).expect()
    return bool(answer["status"]["allowed"])


@pytest.mark.installed("strict")
@pytest.mark.operator_options(*STRICT)
def test_a_strict_operator_reads_no_secret_and_writes_no_child(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    namespace = tenant.namespace
    threats.wait_for(lambda: not may(threats, "list", "secrets"), what="the narrowed rights")
    for verb in (*READ, *WRITE):
        assert not may(threats, verb, "secrets"), verb
        assert may(threats, verb, "configmaps") is (verb in ("list", "watch")), verb

    account = tenant.make_account("able", ABLE)
    resources = {
        "db": {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "correct-horse"}}},
        "app": make_config_map(data={"db": "${db.metadata.name}"}),
    }
    tenant.author().create(make_stack(namespace, "shop", resources, serviceAccountName=name_of(account)))

    def is_denied() -> bool:
        text = str(threats.find_status(namespace, "shop").get("problems"))
        return "not allowed to watch Secret" in text and "ClusterRole hearth-watch-secrets" in text

    threats.wait_for(is_denied, what="the missing right")
    assert threats.operator.get("/readyz").is_ok
    subject = {"kind": "ServiceAccount", "name": "hearth", "namespace": "hearth-system"}
    mode_world.bind(threats.api, namespace, "hearth-watch-secrets", subject)
    threats.wait_phase(namespace, "shop", "CreateComplete", within=90)
    other = threats.make_namespace("other")
    assert not may(threats, "list", "secrets", other)

    threats.api.delete("Stack", namespace, "shop")
    threats.wait_for(lambda: threats.api.get("Stack", namespace, "shop") is None, what="the end of stack/shop")
    assert [each for each in threats.api.list("Secret", namespace) if "labels" in each["metadata"]] == []


@pytest.mark.installed("strict")
@pytest.mark.operator_options(*STRICT)
def test_an_object_that_is_not_watched_is_not_written(threats: ThreatWorld) -> None:
    tenant, other = threats.tenant(), threats.tenant("other")
    account = tenant.make_account("able", ABLE)
    metadata = {"name": "far", "namespace": other.namespace}
    far = {"manifest": {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}}
    subject = {"kind": "ServiceAccount", "name": "hearth", "namespace": "hearth-system"}
    mode_world.bind(threats.api, tenant.namespace, "hearth-watch-secrets", subject)
    tenant.author().create(make_stack(tenant.namespace, "shop", {"far": far}, serviceAccountName=name_of(account)))

    problem = threats.wait_problem(tenant.namespace, "shop")
    while problem["reason"] == "Forbidden":  # until the operator notices that it may watch Secrets
        problem = threats.wait_problem(tenant.namespace, "shop")
    assert problem["reason"] == "NamespaceNotServed"
    assert threats.api.get("Secret", other.namespace, "far") is None


def make_role(role: Object, *, without: str = "?") -> Object:
    """The role to apply, without the resources whose names contain a word."""
    rules = [
        {**each, "resources": [name for name in each["resources"] if without not in name]} for each in role["rules"]
    ]
    metadata = {key: role["metadata"][key] for key in ("name", "labels")}
    kept = [each for each in rules if each["resources"]]
    return {"apiVersion": role["apiVersion"], "kind": role["kind"], "metadata": metadata, "rules": kept}


def test_an_operator_with_the_role_of_an_earlier_version_serves_stacks(threats: ThreatWorld) -> None:
    roles = [
        threats.api.get("ClusterRole", "", name) or {} for name in ("hearth-operator", "hearth-children-workloads")
    ]
    for role in roles:
        threats.api.apply(make_role(role, without="group")).expect()
    threats.wait_for(lambda: not may(threats, "list", "resourcegroups", group="hearth.dev"), what="the older role")
    threats.operator.restart()

    namespace = threats.tenant().namespace
    threats.api.create(make_stack(namespace, "shop", {"a": make_config_map(data={"k": "v"})}))
    template = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
    group = {"apiVersion": "hearth.dev/v1alpha1", "kind": "ResourceGroup", "spec": {"template": template}}
    threats.api.create({**group, "metadata": {"name": "workers", "namespace": namespace}})
    threats.wait_phase(namespace, "shop", "CreateComplete")
    assert "ResourceGroups are not served until the operator is allowed to list" in threats.operator.read_log()

    for role in roles:
        threats.api.apply(make_role(role)).expect()

    def is_served() -> bool:
        found = threats.api.get("ResourceGroup", namespace, "workers") or {}
        phase: object = found.get("status", {}).get("phase")
        return phase == "CreateComplete"

    threats.wait_for(is_served, what="the group", within=90)
