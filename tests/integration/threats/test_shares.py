"""D7, D10, D11, X2: no tenant takes more than a share of Stacks, connections and memory."""

from __future__ import annotations

import time

import pytest
import yaml

from support.threats import installation
from support.threats.api import Object
from support.threats.world import CONFIG_MAPS, Tenant, ThreatWorld, make_config_map, make_stack

STACK = "hearth.dev/v1alpha1"
LIMIT = "hearth_limit_reached_total"
NESTED_DEPTH = 8
MANY = 50
"""Unwanted Stacks."""
SOURCES = 32
"""Sources of one Stack: the maximum of the API."""


def make_bomb(*, parameters: Object | None = None) -> Object:
    """A template with two nested Stacks that use this same template."""
    spec: Object = {"templateRef": {"name": "bomb"}, **({"parameters": parameters} if parameters is not None else {})}
    nested = {"manifest": {"apiVersion": STACK, "kind": "Stack", "spec": spec}}
    declared = {"parameters": {"level": {"type": "integer", "default": 0}}} if parameters is not None else {}
    return {**declared, "resources": {"left": nested, "right": nested} if parameters is None else {"next": nested}}


def plant(tenant: Tenant, template: Object) -> None:
    """Create a Stack that uses that template."""
    author = tenant.author(CONFIG_MAPS)
    source = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bomb", "namespace": tenant.namespace}}
    author.create({**source, "data": {"template.yaml": yaml.safe_dump(template)}})
    stack = make_stack(tenant.namespace, "bomb", {})
    author.create({**stack, "spec": {"templateRef": {"name": "bomb"}}})


def wait_end(threats: ThreatWorld, tenant: Tenant, name: str) -> Object:
    """Wait until a Stack reports a problem of a resource; return the problem. Fails if there are too many Stacks."""

    def look() -> Object | None:
        stacks = threats.api.list("Stack", tenant.namespace)
        assert len(stacks) < MANY, f"{len(stacks)} Stacks and no end"
        return next(iter(threats.find_status(tenant.namespace, name).get("problems") or ()), None)

    return threats.wait_for(look, what=f"a problem of {name}")


def test_d7_a_template_that_nests_itself_makes_no_stack(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    plant(tenant, make_bomb())

    problem = wait_end(threats, tenant, "bomb")

    assert problem["reason"] == "NestedInItself"
    threats.canary()
    assert len(threats.api.list("Stack", tenant.namespace)) == 1


def test_d7_nesting_ends_despite_changes_on_the_way(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    plant(tenant, make_bomb(parameters={"level": "${params.level + 1}"}))

    problem = wait_end(threats, tenant, "bomb" + "-next" * NESTED_DEPTH)

    assert problem["reason"] == "NestedTooDeep"
    threats.canary()
    assert len(threats.api.list("Stack", tenant.namespace)) == NESTED_DEPTH + 1
    assert threats.operator.read_metric(LIMIT, limit="nested-depth") > 0


def test_d10_sources_share_connections(threats: ThreatWorld) -> None:
    """Twenty small Stacks with 32 sources each once opened 640 connections.

    A change of any source is still noticed at once.
    """
    tenant, count = threats.tenant(), 20
    author = tenant.author(CONFIG_MAPS)
    threats.canary()
    before = threats.operator.files
    for number in range(count):
        references = [{"configMapRef": {"name": f"s{number}-{at}", "optional": True}} for at in range(SOURCES)]
        template = {"parameters": {"p": {"type": "string", "default": "none"}}}
        author.create(
            make_stack(
                *(tenant.namespace, f"shop{number}", {"cfg": make_config_map(data={"p": "${params.p}"})}),
                template=template,
                parametersFrom=references,
            )
        )
    for number in range(count):
        threats.wait_phase(tenant.namespace, f"shop{number}", "CreateComplete")

    taken = threats.operator.files - before
    print(f"{taken} descriptors for {count * SOURCES} sources")
    assert taken < 60
    metadata = {"name": f"s{count - 1}-{SOURCES - 1}", "namespace": tenant.namespace}
    author.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"p": "reported"}})
    began = time.monotonic()
    name = f"shop{count - 1}-cfg"
    threats.wait_for(
        lambda: (threats.api.get("ConfigMap", tenant.namespace, name) or {})["data"]["p"] == "reported", within=10
    )
    print(f"a change of the last source was noticed after {time.monotonic() - began:.2f} s")
    assert threats.operator.read_metric(LIMIT, limit="source-watches") == count * SOURCES - 8


@pytest.mark.parametrize("is_restarted", [False, True], ids=["while it runs", "as it starts"])
def test_d11_objects_of_no_stack_fill_no_memory(threats: ThreatWorld, *, is_restarted: bool) -> None:
    tenant = threats.tenant()
    tenant.author().create(
        make_stack(
            *(tenant.namespace, "reader", {"cfg": make_config_map(data={"a": "small"})}),
            template={"outputs": {"a": {"value": "${cfg.data.a}"}}},
        )
    )
    threats.wait_phase(tenant.namespace, "reader", "CreateComplete")
    threats.canary()
    before = threats.operator.memory
    editor = tenant.editor()
    labels = {"hearth.dev/stack-uid": "ghost", "hearth.dev/resource": "cfg", "hearth.dev/bucket": "1"}
    for number in range(150):
        metadata = {"name": f"big{number}", "namespace": tenant.namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "x" * 800_000}}
        editor.create(body)
    if is_restarted:
        threats.operator.restart()
    threats.canary()

    print(f"{before:.0f} MiB before, {threats.operator.memory:.0f} MiB after")
    assert threats.operator.memory - before < 64
    threats.wait_for(lambda: threats.operator.read_metric(LIMIT, limit="object-bytes") > 0, what="the limit is counted")
    assert threats.find_status(tenant.namespace, "reader")["outputs"] == {"a": "small"}


def test_x2_the_installation_can_be_applied_again(threats: ThreatWorld) -> None:
    threats.wait_for(lambda: installation.is_installed(threats.api), what="the aggregated role is filled in")

    rights = installation.find_root() / "manifests" / "install" / "rbac.yaml"
    answers = [threats.api.apply(each, force=False) for each in yaml.safe_load_all(rights.read_text())]

    assert [answer.text for answer in answers if not answer.is_accepted] == []
    assert installation.is_installed(threats.api)
