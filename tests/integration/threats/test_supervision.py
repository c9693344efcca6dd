"""D1b, D1c, D8, D9: the failure of one step, status, resource or watch affects only its own Stack, which reports it.

Also a leader that hangs: the standby replica takes over, and tenants are served.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.threats.world import Tenant, ThreatWorld, make_config_map, make_stack

NINES = "9" * 5000
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]},
        },
    },
}
LEASE: dict[str, Any] = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "mine"},
    "spec": {"holderIdentity": "author"},
}
DURATION = 6.0
ELECTION = ("--leader-election", "--lease-duration=6s", "--renew-deadline=4s", "--retry-period=1s")
PROGRAM = """
import runpy, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))
sys.argv[0] = "hearth"
runpy.run_module("hearth", run_name="__main__", alter_sys=True)
"""
HANGS_ON_SIGNAL = (sys.executable, "-c", PROGRAM)
"""The operator, whose main thread sleeps after the signal while other threads run, as in a long C call."""


def assert_served(threats: ThreatWorld) -> None:
    """Check that other tenants are served, and the operator reports no problem."""
    threats.canary()
    assert threats.operator.get("/healthz").is_ok
    assert threats.operator.get("/readyz").is_ok


def test_d1b_poisoned_children_end_no_worker(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    names = [f"cfg{number}" for number in range(40)]
    tenant.author().create(make_stack(tenant.namespace, "shop", {name: make_config_map(name) for name in names}))
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    editor = tenant.editor("configmaps")
    poison = {"labels": {"hearth.dev/stack-uid": None}, "annotations": {"hearth.dev/incarnation": NINES}}
    for name in names:
        editor.patch("ConfigMap", tenant.namespace, name, {"metadata": poison}).expect()
    assert_served(threats)
    threats.operator.restart()
    assert_served(threats)
    assert threats.find_status(tenant.namespace, "shop")["phase"]


def make_deep_output() -> Any:
    """An output that is too deep for a JSON encoder once it is evaluated: 240 lists around 25 more."""
    value: Any = "${" + "[" * 25 + "cfg.data.a" + "]" * 25 + "}"
    for _ in range(240):
        value = [value]
    return value


def test_d1c_status_that_cannot_be_written_ends_no_writer(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    template = {"outputs": {"deep": {"value": make_deep_output()}}}
    names = [f"deep{number}" for number in range(10)]
    for name in names:
        resources = {"cfg": make_config_map(f"{name}-cfg")}
        author.create(make_stack(tenant.namespace, name, resources, template=template))
    assert_served(threats)
    threats.wait_for(
        lambda: all(threats.find_status(tenant.namespace, name).get("conditions") for name in names),
        what="a status of each",
    )


def test_d1c_forged_time_in_a_status_ends_no_writer(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    patcher = tenant.status_patcher("stacks", group="hearth.dev")
    names = [f"shop{number}" for number in range(10)]
    for name in names:
        author.create(make_stack(tenant.namespace, name, {"cfg": make_config_map(f"{name}-cfg")}))
    for name in names:
        threats.wait_phase(tenant.namespace, name, "CreateComplete")
    # A running operator immediately overwrites it.
    threats.operator.kill()
    patch = {"status": {"target": {"since": "9999-12-31T23:59:59-23:59"}, "phase": "UpdateInProgress"}}
    for name in names:
        patcher.patch("Stack", tenant.namespace, name, patch, subresource="status").expect()
    threats.operator.start()
    assert_served(threats)
    for name in names:
        threats.wait_phase(tenant.namespace, name, "CreateComplete", "UpdateComplete")


def make_shop(threats: ThreatWorld) -> Tenant:
    """A Stack of a Deployment and an independent ConfigMap."""
    tenant = threats.tenant()
    resources = {"web": {"manifest": DEPLOYMENT}, "cfg": make_config_map("cfg", {"v": "1"})}
    tenant.author().create(make_stack(tenant.namespace, "shop", resources))
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    return tenant


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(
            {"hearth.dev/suspended": json.dumps({"theirs": {"spec.minReadySeconds": 1, "spec.minReadySeconds.y": 2}})},
            id="a record of suspending that contradicts itself",
        ),
        pytest.param({"hearth.dev/incarnation": "9" * 4300}, id="an incarnation of 4300 digits"),
    ],
)
def test_d8_annotation_of_one_object_stops_no_other(threats: ThreatWorld, annotations: dict[str, str]) -> None:
    tenant = make_shop(threats)
    tenant.annotator("deployments", group="apps").annotate(
        "Deployment", tenant.namespace, "shop-web", annotations
    ).expect()
    patch = {"spec": {"template": {"resources": {"cfg": make_config_map("cfg", {"v": "2"})}}}}
    threats.api.patch("Stack", tenant.namespace, "shop", patch).expect()
    threats.wait_for(
        lambda: (threats.api.get("ConfigMap", tenant.namespace, "cfg") or {}).get("data") == {"v": "2"},
        what="the change of the other resource",
    )
    assert_served(threats)


def test_d9_kind_that_may_not_be_watched_concerns_its_stack_alone(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    author.create(make_stack(tenant.namespace, "shop", {"lease": {"manifest": LEASE}, "cfg": make_config_map("cfg")}))
    problem = threats.wait_problem(tenant.namespace, "shop")
    assert (problem["resource"], problem["reason"]) == ("lease", "Forbidden")
    assert 'cannot list resource "leases"' in problem["message"] or "leases" in problem["message"]
    assert_served(threats)
    threats.operator.restart()
    assert_served(threats)
    author.delete("Stack", tenant.namespace, "shop")
    threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "shop") is None, what="the end of the Stack")


@pytest.mark.operator_options(*ELECTION)
def test_the_standby_takes_over_from_a_leader_that_hangs(threats: ThreatWorld, tmp_path: Path) -> None:
    leader = threats.operator
    leader.kill()
    leader.program = HANGS_ON_SIGNAL
    leader.start()
    threats.canary(within=2 * DURATION + 10)
    standby = dataclasses.replace(leader, log_file=tmp_path / "standby.log", port=0, process=None)
    standby.start()
    try:
        assert leader.process is not None
        leader.process.send_signal(signal.SIGUSR1)
        began = time.monotonic()
        threats.operator = standby
        threats.canary(within=2 * DURATION + 5)
        print(f"served again after {time.monotonic() - began:.1f} s")

        assert leader.process.wait(timeout=1) == 1
        assert "its event loop hangs" in leader.read_log()
        assert standby.get("/healthz").is_ok
    finally:
        standby.kill()
        threats.operator = leader
