"""Many or long tasks of one tenant do not delay other tenants, because namespaces take turns."""

from __future__ import annotations

import time
from typing import Any

from support.threats.api import Object
from support.threats.world import READ, WRITE, Rule, Tenant, ThreatWorld, make_config_map, make_stack

SNAPSHOTS = Rule(group="hearth.dev", resources=("stacksnapshots",), verbs=(*READ, *WRITE))
LIST: Object = {"type": "array"}
TEMPLATES, SNAPSHOT_COUNT = 1500, 5
SOON = 5.0
"""Seconds within which another tenant's snapshot has a status, on a busy machine."""
LONG_LISTS, EXPRESSIONS = 20, 100
"""Number of Stacks with expressions that take most of a second, and number of these expressions in each."""
EXPRESSION_SOON = 5.0


def make_set() -> Object:
    """A StatefulSet whose million claims are never created, and which is complete at once."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "serviceName": "none",
        "replicas": 1000,
        "selector": {"matchLabels": {"app": "none"}},
        "template": {
            "metadata": {"labels": {"app": "none"}},
            "spec": {"nodeSelector": {"is": "nowhere"}, "containers": [{"name": "c", "image": "none"}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": f"t{n}"}, "spec": claim} for n in range(TEMPLATES)],
    }
    return {"manifest": {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": spec}, "readyWhen": ["${true}"]}


def make_snapshot(tenant: Tenant, name: str) -> Object:
    """A StackSnapshot of Stack shop."""
    metadata = {"name": name, "namespace": tenant.namespace}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackSnapshot",
        "metadata": metadata,
        "spec": {"stackName": "shop"},
    }


def measure_snapshot(threats: ThreatWorld, tenant: Tenant, author: Any, name: str) -> float:
    """Seconds until a snapshot is complete."""
    began = time.monotonic()
    author.create(make_snapshot(tenant, name))

    def look() -> bool:
        found = threats.api.get("StackSnapshot", tenant.namespace, name) or {}
        status: Any = found.get("status") or {}
        return bool(status.get("phase") == "Complete")

    threats.wait_for(look, within=15.0, what=f"stacksnapshot/{name}")
    return time.monotonic() - began


def test_a_million_claims_stop_no_snapshot_of_others(threats: ThreatWorld) -> None:
    tenant, other = threats.tenant(), threats.tenant()
    author, bystander = tenant.author(SNAPSHOTS), other.author(SNAPSHOTS)
    bystander.create(make_stack(other.namespace, "shop", {"cfg": make_config_map("cfg")}))
    threats.wait_phase(other.namespace, "shop", "CreateComplete")
    alone = measure_snapshot(threats, other, bystander, "alone")
    author.create(make_stack(tenant.namespace, "shop", {"set": make_set()}))
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")

    for number in range(SNAPSHOT_COUNT):
        author.create(make_snapshot(tenant, f"s{number}"))
    time.sleep(1.0)
    beside = measure_snapshot(threats, other, bystander, "beside")

    print(f"another tenant's snapshot: {alone:.2f} s alone, {beside:.2f} s beside the attack")
    assert beside < SOON
    threats.canary()
    assert threats.operator.get("/healthz").is_ok

    def look() -> bool:
        found = threats.api.get("StackSnapshot", tenant.namespace, "s0") or {}
        status: Any = found.get("status") or {}
        return any(each["reason"] == "TooManyVolumes" for each in status.get("conditions") or ())

    threats.wait_for(look, what="the reason of the attacker's snapshot")


def make_slow(tenant: Tenant, number: int) -> Object:
    """A Stack of many expressions that take most of a second each."""
    slow = "${string(params.list.filter(i, params.list.exists(j, j + i < 0)).size() + %d)}"
    data = {f"k{each}": slow % each for each in range(EXPRESSIONS)}
    return make_stack(
        tenant.namespace,
        f"slow{number}",
        {"cfg": make_config_map(f"slow{number}", data)},
        template={"parameters": {"list": LIST}},
        parameters={"list": list(range(2300))},
    )


def measure_expression(threats: ThreatWorld, tenant: Tenant, author: Any, name: str) -> float:
    """Seconds until a Stack that needs an evaluator process is complete."""
    data = {"a": "${params.list.map(i, 'line-' + string(i)).join('\\n')}"}
    began = time.monotonic()
    author.create(
        make_stack(
            tenant.namespace,
            name,
            {"cfg": make_config_map(name, data)},
            template={"parameters": {"list": LIST}},
            parameters={"list": list(range(1500))},
        )
    )
    threats.wait_phase(tenant.namespace, name, "CreateComplete")
    return time.monotonic() - began


def test_slow_expressions_of_one_namespace_delay_no_other(threats: ThreatWorld) -> None:
    tenant, other = threats.tenant(), threats.tenant()
    author, bystander = tenant.author(), other.author()
    threats.canary()
    alone = measure_expression(threats, other, bystander, "alone")

    for number in range(LONG_LISTS):
        author.create(make_slow(tenant, number))
    time.sleep(2.0)
    beside = [measure_expression(threats, other, bystander, f"beside{n}") for n in range(3)]
    canary = threats.canary()

    shown = ", ".join(f"{each:.2f}" for each in beside)
    print(f"another tenant's expression: {alone:.2f} s alone, {shown} s beside; canary {canary.complete:.2f} s")
    assert max(beside) < EXPRESSION_SOON
    assert threats.operator.get("/healthz").is_ok
