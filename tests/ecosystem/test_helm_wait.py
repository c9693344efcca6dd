"""Helm waits for a Stack in the chart of a user: the real program on a real API server."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import names
from support.ecosystem.helm import Helm
from support.real import real_user
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.stories import stack_manifests

API = f"{names.GROUP}/{names.VERSION}"
STACK = """
apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: {{ .Release.Name }}}
spec:
  rollback: {onFailure: true}
  template:
    resources:
      a:
        failedWhen: ["a.data.state == 'bad'"]
        manifest: {apiVersion: v1, kind: ConfigMap, data: {state: {{ .Values.state }}, stack: "${stack.name}"}}
"""
PATIENCE = 120
"""Seconds for Helm, and more than a failure may take to be noticed."""


@dataclass(frozen=True, slots=True)
class User:
    """A user with a chart, in one namespace of a cluster with the operator."""

    helm: Helm
    cluster: RealUser
    chart: Path

    async def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of Helm that waits."""
        where = (f"--namespace={self.cluster.namespace}", "--wait", f"--timeout={PATIENCE}s")
        return await asyncio.to_thread(self.helm.run, command, "shop", *arguments, *where)

    async def deploy(self, command: str, state: str) -> subprocess.CompletedProcess[str]:
        """Install or upgrade."""
        return await self.run(command, str(self.chart), f"--set=state={state}")

    async def read_phase(self) -> str | None:
        """The phase of the Stack; None if it does not exist."""
        stack = stack_manifests.address_in(self.cluster.namespace)
        found = await self.cluster.find(stack)
        return None if found is None else str(found.get("status", {}).get("phase"))

    async def read_release(self) -> str:
        where = (f"--namespace={self.cluster.namespace}", "--output=json")
        return str(json.loads(await asyncio.to_thread(self.helm.call, "status", "shop", *where))["info"]["status"])


@pytest.fixture
async def user(kubeconfig: Path, namespace: str, helm: Helm, tmp_path: Path) -> AsyncIterator[User]:
    """The operator, and a chart with a Stack."""
    chart = tmp_path / "shop"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    (chart / "templates" / "stack.yaml").write_text(STACK)
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        made = RealUser(connection, namespace)
        await real_user.install_all(made)
        world = RealWorld(made, source)
        await world.start_controller()
        yield User(replace(helm, kubeconfig=kubeconfig), made, chart)
        await world.close()


async def test_helm_waits_for_the_stack(user: User) -> None:
    done = await user.deploy("install", "good")
    assert done.returncode == 0, done.stderr
    assert await user.read_phase() == "CreateComplete"

    done = await user.deploy("upgrade", "bad")
    assert done.returncode != 0
    assert "Stack/" in done.stderr
    assert "status: Failed, message: rolled back to revision 1 because" in done.stderr
    assert (await user.read_phase(), await user.read_release()) == ("RollbackComplete", "failed")

    done = await user.run("rollback", "1")
    assert done.returncode == 0, done.stderr
    assert (await user.read_phase(), await user.read_release()) == ("UpdateComplete", "deployed")

    done = await user.run("uninstall")
    assert done.returncode == 0, done.stderr
    assert await user.read_phase() is None


async def test_helm_fails_with_the_first_installation(user: User) -> None:
    done = await user.deploy("install", "bad")
    assert done.returncode != 0
    assert "status: Failed, message: rolled back to the empty revision" in done.stderr
    assert (await user.read_phase(), await user.read_release()) == ("RollbackComplete", "failed")

    done = await user.deploy("upgrade", "good")
    assert done.returncode == 0, done.stderr
    assert (await user.read_phase(), await user.read_release()) == ("UpdateComplete", "deployed")

    done = await user.run("upgrade", str(user.chart), "--set=state=bad", "--rollback-on-failure")
    assert done.returncode != 0
    assert (await user.read_phase(), await user.read_release()) == ("UpdateComplete", "deployed")
