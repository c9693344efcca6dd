"""Bundles that people install every day: imported, run, left alone, changed, rolled back and deleted, on a real API server.

Each has the control plane for itself, since its objects are everywhere; several planes work at once.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import import_world
import pytest

from hearth.cli.demo import operator_process
from hearth.cli.demo.demo_cluster import Cluster
from hearth.cli.demo.operator_process import Operator
from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from support import repository
from support.ecosystem import bundles
from support.ecosystem.bundles import Bundle
from support.ecosystem.kubectl import Kubectl
from support.real.operator_process import is_complaint, sum_metric
from support.real.stack_command import StackCommand
from support.threats.slots import Slots

FOLDER = repository.DATA / "bundles"
PATIENCE = "90s"
QUIET = 4.0
"""Seconds without a request; the operator sends hundreds to create a bundle."""
SETTLED = 30.0
"""Seconds until the last events of a change must have arrived."""
REQUESTS = "hearth_api_requests_total"
TENANCY = "trusted"
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expectations about a bundle."""

    resources: int
    held: int = 0
    """Pairs of a custom resource and a workload that it comes after; with the right to, the workload holds it by a finalizer."""
    kept: tuple[str, ...] = ()
    """Objects that are kept, as their manifests request."""


BUNDLES = {
    "agents": Expected(resources=11),
    "certificates": Expected(resources=26, held=4),
    "database": Expected(resources=13, held=2, kept=("persistentvolumeclaim/data-db-0", "persistentvolumeclaim/data-db-1")),
    "gitops": Expected(resources=17, held=6),
    "ingress": Expected(resources=17),
    "mesh": Expected(resources=22, held=4),
    "metrics-api": Expected(resources=10),
    "monitoring": Expected(resources=23, held=5),
    "policy": Expected(resources=21, held=2),
    "shop": Expected(resources=13, kept=("persistentvolumeclaim/uploads",)),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """One control plane, the operator on it, and a namespace for the Stack."""

    kubeconfig: Path
    connection: Connection
    namespace: str
    operator: Operator

    @property
    def kubectl(self) -> Kubectl:
        """The administrator's."""
        return Kubectl(kubeconfig=self.kubeconfig, namespace=self.namespace)

    @property
    def kubectl_stack(self) -> StackCommand:
        """The administrator's."""
        return StackCommand(kubeconfig=self.kubeconfig, namespace=self.namespace)

    async def apply(self, bundle: Bundle) -> None:
        """Apply the Stack, and wait for it."""
        await asyncio.to_thread(self.kubectl.call, "apply", "--server-side", "-f", "-", stdin=bundle.write())
        await self.kubectl_stack.expect("wait", "bundle", "--timeout", PATIENCE)

    def count_requests(self) -> float:
        """Return the number of the operator's requests, except those for its own Lease. Blocks."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.operator.port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        counts = (sum_metric(lines, REQUESTS), sum_metric(lines, REQUESTS, kind="Lease.coordination.k8s.io"))
        return counts[0] - counts[1]

    async def wait_quiet(self) -> None:
        """Until the operator sends no request for a while."""
        async with asyncio.timeout(SETTLED):
            before = -1.0
            while before != (before := await asyncio.to_thread(self.count_requests)):  # noqa: ASYNC110 -- silence has no event
                await asyncio.sleep(QUIET)

    def read_images(self, bundle: Bundle) -> set[str]:
        """Return the images of the workloads in the cluster."""
        found: set[str] = set()
        for resource in bundle.resources.values():
            manifest = resource["manifest"]
            if manifest["kind"] in WORKLOADS:
                where = manifest["metadata"].get("namespace", self.namespace)
                kubectl = Kubectl(kubeconfig=self.kubeconfig, namespace=where)
                (live,) = kubectl.get(f"{manifest['kind']}/{manifest['metadata']['name']}")
                found |= {each["image"] for each in live["spec"]["template"]["spec"]["containers"]}
        return found


@pytest.fixture
async def plane(slots: Slots, tmp_path: Path) -> AsyncIterator[Plane]:
    """A control plane of its own."""
    with slots.take() as kubeconfig:
        source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
        async with Connection(source) as connection:
            await Cluster(connection).install()
            namespace = await import_world.World(connection).create_namespace()
            options = ("--tenancy=trusted", "--log-format=json")
            running = operator_process.run_operator(str(kubeconfig), folder=str(tmp_path), options=options)
            async with running as operator:
                async with asyncio.timeout(SETTLED):
                    while not await operator.is_ready():  # noqa: ASYNC110 -- it is another process that we wait for
                        await asyncio.sleep(bundles.LOOK)
                yield Plane(kubeconfig=kubeconfig, connection=connection, namespace=namespace, operator=operator)
            assert [line for line in operator.log.read_text().splitlines() if is_complaint(line)] == []


@pytest.mark.parametrize("name", BUNDLES)
async def test_a_bundle_lives_a_whole_life(plane: Plane, name: str) -> None:
    expected = BUNDLES[name]
    with bundles.aggregated_api() as port:
        text = (FOLDER / f"{name}.yaml").read_text().replace(bundles.API_PORT, str(port))
        both = [bundles.import_bundle(each, namespace=plane.namespace) for each in (text, text.replace(":v1", ":v2"))]
        first, second = await asyncio.gather(*both)
        assert len(first.resources) == expected.resources
        assert len(list(bundles.find_finalizers(first))) == expected.held
        async with bundles.played(plane.connection, first):
            uid = await live(plane, first, second)
            await asyncio.to_thread(plane.kubectl.call, "delete", "stack/bundle", f"--timeout={PATIENCE}")
            async with asyncio.timeout(SETTLED):
                # Pods are deleted a moment after their owners.
                while (left := await find_left(plane, uid=uid)) != set(expected.kept):
                    assert set(expected.kept) <= left
                    await asyncio.sleep(bundles.LOOK)


async def live(plane: Plane, first: Bundle, second: Bundle) -> str:
    """From the first apply to a rollback; returns the UID of the Stack."""
    await plane.apply(first)
    uid = plane.kubectl.get("stack/bundle")[0]["metadata"]["uid"]
    await plane.wait_quiet()
    assert await diff(plane, first) == f"stack/bundle in {plane.namespace}: to revision 1\nno change"
    before = await asyncio.to_thread(plane.read_images, first)
    assert before
    assert all(image.endswith(":v1") for image in before)

    await plane.apply(second)
    assert await asyncio.to_thread(plane.read_images, first) == {image.replace(":v1", ":v2") for image in before}

    await plane.kubectl_stack.expect("rollback", "bundle", "--wait", "--timeout", PATIENCE)
    assert await asyncio.to_thread(plane.read_images, first) == before
    await plane.wait_quiet()
    return str(uid)


async def diff(plane: Plane, bundle: Bundle) -> str:
    """Return a preview of the same file."""
    file = Path(plane.operator.log).with_name("stack.yaml")
    file.write_text(bundle.write())
    return (await plane.kubectl_stack.expect("diff", "--tenancy", TENANCY, "-f", str(file))).strip()


async def find_left(plane: Plane, *, uid: str) -> set[str]:
    """Return leftovers in the Stack's namespace, or anywhere with its label, once no more objects are being deleted."""
    world = import_world.World(plane.connection)
    found = await world.find_left(plane.namespace, stack_uid=uid)
    return {*found.claims, *found.others}
