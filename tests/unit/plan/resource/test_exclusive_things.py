"""Exclusive properties that an object and its successor cannot share."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.resource import exclusive_things


def deployment(**pod: Any) -> dict[str, Any]:
    """A Deployment with this spec of its Pods."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": pod}}}


def service(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "spec": spec}


PORT = {"containerPort": 80}


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(deployment(containers=[{"ports": [{**PORT, "hostPort": 8088}]}]), ["hostPort 8088"], id="a port of the node"),
        pytest.param(deployment(initContainers=[{"ports": [{**PORT, "hostPort": 1}]}]), ["hostPort 1"], id="of a sidecar"),
        pytest.param(deployment(hostNetwork=True, containers=[{"ports": [PORT]}]), ["hostPort 80"], id="the network of the node"),
        pytest.param(deployment(containers=[{"ports": [PORT]}]), [], id="a port of the Pod"),
        pytest.param(service(ports=[{"port": 80, "nodePort": 31777}]), ["nodePort 31777"], id="a port of all nodes"),
        pytest.param(service(loadBalancerIP="10.1.1.1", ports=[]), ["loadBalancerIP 10.1.1.1"], id="an address"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"ports": [{"hostPort": 2}]}]}}, ["hostPort 2"], id="a Pod"),
        pytest.param(deployment(containers="text"), [], id="a damaged manifest"),
        pytest.param({"apiVersion": "v1", "kind": "ConfigMap"}, [], id="another kind"),
    ],
)  # fmt: skip
def test_what_only_one_object_can_have(manifest: dict[str, Any], expected: list[str]) -> None:
    assert list(exclusive_things.find_exclusive(manifest)) == expected
