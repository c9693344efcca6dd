"""Events in templates: the operator may write Events and not list them, so it never knew whether one is left."""

from __future__ import annotations

import sys
from typing import Any

from support.threats.world import ThreatWorld, make_config_map, make_stack

EARLIER = """
import runpy, sys
from hearth.template.compiler import resource_analysis
getattr(resource_analysis, "REFUSED", {}).clear()
sys.argv[0] = "hearth"
runpy.run_module("hearth", run_name="__main__", alter_sys=True)
"""
"""The operator of a version that accepts them."""


def make_event(namespace: str, api_version: str = "v1") -> dict[str, Any]:
    """A resource of that kind."""
    involved = {"kind": "Pod", "namespace": namespace, "name": "web"}
    return {"manifest": {"apiVersion": api_version, "kind": "Event", "reason": "Mine", "involvedObject": involved}}


def test_n10_an_event_is_refused_with_its_path(threats: ThreatWorld) -> None:
    """Of both API groups, and the Stack can be deleted, as its namespace can."""
    tenant = threats.tenant()
    author = tenant.author()
    for name, api_version in (("old", "v1"), ("new", "events.k8s.io/v1")):
        resources = {"note": make_event(tenant.namespace, api_version), "cfg": make_config_map(f"{name}-cfg")}
        author.create(make_stack(tenant.namespace, name, resources))
        stack = threats.wait_phase(tenant.namespace, name, "CreateFailed")
        assert "spec.template.resources.note.manifest.kind: Event reports what happened" in str(stack["status"])
        author.delete("Stack", tenant.namespace, name)
        threats.wait_for(lambda name=name: threats.api.get("Stack", tenant.namespace, name) is None, what="its end")


def test_n10_a_stack_that_has_one_can_be_deleted(threats: ThreatWorld) -> None:
    """Where an earlier version accepted it."""
    program = threats.operator.program
    threats.operator.kill()
    threats.operator.program = (sys.executable, "-c", EARLIER)
    threats.operator.start()
    tenant = threats.tenant()
    author = tenant.author()
    resources = {"note": make_event(tenant.namespace), "cfg": make_config_map("cfg")}
    author.create(make_stack(tenant.namespace, "shop", resources))
    threats.wait_for(lambda: threats.find_status(tenant.namespace, "shop").get("phase"), what="a status")
    threats.operator.kill()
    threats.operator.program = program
    threats.operator.start()

    threats.wait_for(
        lambda: "Event reports what happened" in str(threats.find_status(tenant.namespace, "shop")), what="the refusal"
    )
    author.delete("Stack", tenant.namespace, "shop")
    threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "shop") is None, what="its end")
    threats.wait_for(
        lambda: threats.api.get("ConfigMap", tenant.namespace, "cfg") is None, what="the end of its object"
    )
