"""API server and etcd are killed, paused and restarted under a running operator, on a separate control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from hearth.kube.auth.credentials import CredentialSource
from support.real import control_plane_processes, fault_scenario
from support.real.control_plane_processes import OwnPlane
from support.real.fault_scenario import Site, elapse

pytestmark = [pytest.mark.cluster, pytest.mark.long]
"""Marked explicitly, because these tests do not use the shared control plane."""
DOWN = [4.0, pytest.param(120.0, marks=pytest.mark.soak)]
"""Seconds."""


@pytest.fixture(scope="module")
def own_plane(worker_id: str) -> Iterator[OwnPlane]:
    """A control plane that tests may break."""
    with control_plane_processes.run_plane(f"faults-{worker_id}") as plane:
        yield plane


@pytest.fixture
def source(own_plane: OwnPlane) -> CredentialSource:
    """The administrator's credentials."""
    return credentials.find_source(kubeconfig=str(own_plane.kubeconfig), context=None, environ={})


@pytest.fixture
async def site(own_plane: OwnPlane, source: CredentialSource, tmp_path: Path) -> AsyncIterator[Site]:
    """A fresh namespace, a proxy and an operator."""
    async with fault_scenario.run_site(source, tmp_path) as made:
        yield made
        # Undo all faults that a test left behind, because the next test needs the control plane.
        await asyncio.to_thread(own_plane.restore)


@pytest.mark.parametrize("seconds", DOWN)
@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
async def test_killed_under_load_and_started_again(
    own_plane: OwnPlane, site: Site, component: str, seconds: float
) -> None:
    await site.create(40)
    await elapse(0.5)
    await break_down(own_plane, component, seconds)
    await site.until_complete()
    number = await site.edit()
    await elapse(0.5)
    await break_down(own_plane, component, seconds)
    await site.until_complete(number)
    await site.finish()


async def break_down(own_plane: OwnPlane, component: str, seconds: float) -> None:
    """Kill a component, and restart it after a while; returns when the server is ready."""
    await asyncio.to_thread(own_plane.kill, component)
    await elapse(seconds)
    await asyncio.to_thread(own_plane.restore)


@pytest.mark.parametrize("seconds", DOWN)
@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
async def test_held_under_load(own_plane: OwnPlane, site: Site, component: str, seconds: float) -> None:
    """The server hangs: connections stay open and no response comes."""
    await site.create(40)
    await site.until_complete()
    number = await site.edit()
    with own_plane.held(component):
        await elapse(seconds)
    await asyncio.to_thread(own_plane.wait_ready)
    await site.until_complete(number)
    await site.finish()


async def test_a_namespace_that_appears(own_plane: OwnPlane, source: CredentialSource, tmp_path: Path) -> None:
    """Its objects are created at once. The operator may serve all namespaces here, so the test has its own server."""
    async with fault_scenario.run_site(source, tmp_path, serves="") as site:
        elsewhere = f"{site.namespace}-elsewhere"
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": elsewhere}, "data": {"a": "b"}}
        await site.apply({"template": {"resources": {"web": {"manifest": manifest}}}})
        await site.until_said(f'namespaces "{elsewhere}" not found')
        await site.user.connection.request("POST", "/api/v1/namespaces", body={"metadata": {"name": elsewhere}})
        await site.until_said("the resource is ready")
        await site.finish()
        await site.user.connection.request("DELETE", f"/api/v1/namespaces/{elsewhere}")
