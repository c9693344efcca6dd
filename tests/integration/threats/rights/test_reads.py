"""Objects that an account may write but not read: none of their fields reaches an expression, an output, a rule or a
message.
"""

from __future__ import annotations

import base64
import functools
from typing import Any

import pytest

from support.threats.api import Object
from support.threats.world import (
    READ,
    Rule,
    Tenant,
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
BLIND = Rule(group="", resources=("secrets",), verbs=("create", "patch", "delete"))
"""All rights that a Stack needs for Secrets, except `get`."""
TOKEN = "correct-horse-battery"
FILLED = {"data": {"token": base64.b64encode(TOKEN.encode()).decode()}}
"""Data that a controller writes into a Secret of the Stack."""
REVEALED = "${string(base64.decode(tok.data.token))}"


def make_secret(name: str = "tok") -> Object:
    """A resource whose object another client fills."""
    return {"manifest": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque"}}


def fill(threats: ThreatWorld, tenant: Tenant, name: str = "tok") -> None:
    """Wait for the Secret, and fill it as its controller does."""
    threats.wait_for(lambda: threats.api.get("Secret", tenant.namespace, name), what=f"secret/{name}")
    threats.api.patch("Secret", tenant.namespace, name, FILLED).expect()


def find_outputs(threats: ThreatWorld, tenant: Tenant, name: str) -> list[str]:
    """The names of the outputs of a Stack. Their values are sensitive, like all values of a Secret."""
    return list(threats.find_status(tenant.namespace, name).get("outputs") or ())


@pytest.mark.operator_options("--tenancy=strict")
def test_what_a_controller_fills_in_stays_unread(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author, blind = tenant.author(), tenant.make_account("blind", CONFIG_MAPS, BLIND)
    guess = f'${{has(tok.data) && string(base64.decode(tok.data.token)).startsWith("{TOKEN[:4]}")}}'
    stacks: dict[str, tuple[dict[str, Any], Object]] = {
        "copies": ({"tok": make_secret("a"), "copy": make_config_map("copy", {"t": REVEALED})}, {}),
        "shows": ({"tok": make_secret("b")}, {"outputs": {"t": {"value": REVEALED}}}),
        "guesses": ({"tok": {**make_secret("c"), "readyWhen": [guess]}, "free": make_config_map("free")}, {}),
    }
    for name, (resources, template) in stacks.items():
        named = name_of(blind)
        author.create(make_stack(tenant.namespace, name, resources, template=template, serviceAccountName=named))
    for secret in ("a", "b", "c"):
        fill(threats, tenant, secret)

    grant = f"kubectl create role {name_of(blind)}-get-secrets --verb=get --resource=secrets"
    for name in stacks:
        wait_message(threats, tenant, name, f"ServiceAccount {name_of(blind)} cannot get secret/", grant)
    assert threats.api.get("ConfigMap", tenant.namespace, "copy") is None
    assert threats.api.get("ConfigMap", tenant.namespace, "free") is not None
    assert find_outputs(threats, tenant, "shows") == []
    assert "ReadyWhenNotMet" not in find_message(threats, tenant, "guesses")
    assert TOKEN not in see_everything(threats, tenant)

    for manifest in make_binding(blind, tenant.namespace, resource="secrets", verbs=("get",)):
        threats.api.create(manifest)
    for name in stacks:
        threats.wait_phase(tenant.namespace, name, "CreateComplete", "UpdateComplete")
    copied = threats.api.get("ConfigMap", tenant.namespace, "copy")
    assert copied is not None
    assert copied["data"] == {"t": TOKEN}
    threats.wait_for(lambda: find_outputs(threats, tenant, "shows") == ["t"], what="the output")


@pytest.mark.operator_options("--tenancy=strict")
def test_what_an_account_may_read_ends_with_its_right(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    able, blind = tenant.make_account("able", CONFIG_MAPS, BLIND), tenant.make_account("blind", CONFIG_MAPS, BLIND)
    for manifest in make_binding(able, tenant.namespace, resource="secrets", verbs=("get",)):
        threats.api.create(manifest)
    template = {"outputs": {"t": {"value": REVEALED}}}
    for name in ("loses", "changes"):
        resources = {"tok": make_secret(name)}
        named = name_of(able)
        author.create(make_stack(tenant.namespace, name, resources, template=template, serviceAccountName=named))
        fill(threats, tenant, name)
        threats.wait_phase(tenant.namespace, name, "CreateComplete")
        threats.wait_for(functools.partial(find_outputs, threats, tenant, name), what="the output")

    author.patch("Stack", tenant.namespace, "changes", {"spec": {"serviceAccountName": name_of(blind)}}).expect()
    wait_message(threats, tenant, "changes", f"ServiceAccount {name_of(blind)} cannot get secret/changes")
    threats.api.delete("RoleBinding", tenant.namespace, f"{name_of(able)}-get-secrets")
    wait_message(threats, tenant, "loses", f"ServiceAccount {name_of(able)} cannot get secret/loses")
    assert [find_outputs(threats, tenant, name) for name in ("loses", "changes")] == [[], []]


@pytest.mark.operator_options("--tenancy=strict")
def test_a_right_to_one_object_is_enough_for_that_one(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    blind = tenant.make_account("blind", CONFIG_MAPS, BLIND)
    role, binding = make_binding(blind, tenant.namespace, resource="secrets", verbs=("get",))
    role["rules"][0]["resourceNames"] = ["mine"]
    for manifest in (role, binding):
        threats.api.create(manifest)
    template = {"outputs": {"t": {"value": REVEALED}}}
    for name in ("mine", "other"):
        stack = make_stack(tenant.namespace, name, {"tok": make_secret(name)}, template=template)
        stack["spec"]["serviceAccountName"] = name_of(blind)
        tenant.author().create(stack)
        fill(threats, tenant, name)

    threats.wait_for(lambda: find_outputs(threats, tenant, "mine"), what="the output")
    wait_message(threats, tenant, "other", f"ServiceAccount {name_of(blind)} cannot get secret/other")
    assert find_outputs(threats, tenant, "other") == []


@pytest.mark.operator_options("--tenancy=strict")
def test_a_message_quotes_no_object_that_the_account_may_not_see(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    blind = tenant.make_account("blind", CONFIG_MAPS, BLIND)
    metadata = {"name": "taken", "namespace": tenant.namespace, "annotations": {"meta.helm.sh/release-name": "loot"}}
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    threats.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {**metadata, "labels": labels}})
    policy = {"updatePolicy": {"replace": "Never"}}
    resources = {
        "tells": {**make_secret("marked"), **policy},
        "adopts": {**make_secret("taken"), "adoptionPolicy": "Adopt"},
    }
    for name, resource in resources.items():
        tenant.author().create(make_stack(tenant.namespace, name, {"r": resource}, serviceAccountName=name_of(blind)))
    threats.wait_phase(tenant.namespace, "tells", "CreateComplete")
    threats.api.annotate("Secret", tenant.namespace, "marked", {"hearth.dev/unhealthy": "loot words"}).expect()

    wait_message(threats, tenant, "adopts", "secret/taken exists already", "cannot get secret/taken")
    wait_message(threats, tenant, "tells", "cannot get secret/marked")
    seen = see_everything(threats, tenant)
    assert "loot" not in seen


@pytest.mark.operator_options("--tenancy=strict")
def test_one_question_answers_for_a_namespace(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    able = tenant.make_account(
        "able", Rule(group="", resources=("configmaps",), verbs=(*READ, "create", "patch", "delete"))
    )
    author = tenant.author()
    resources = {f"r{number}": make_config_map(data={"a": str(number)}) for number in range(20)}
    sums = make_config_map(data={"a": "${r0.data.a + r19.data.a}"})
    for number in range(3):
        stack = make_stack(tenant.namespace, f"s{number}", {**resources, "sum": sums})
        author.create({**stack, "spec": {**stack["spec"], "serviceAccountName": name_of(able)}})
    for number in range(3):
        threats.wait_phase(tenant.namespace, f"s{number}", "CreateComplete")

    asked = threats.operator.read_metric("hearth_api_requests_total", kind="SubjectAccessReview.authorization.k8s.io")
    # Each RBAC watch begins with a list, and earlier changes are unknown.
    assert 1 <= asked <= 6
