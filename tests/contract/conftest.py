"""The bench, on the fake cluster and on a real API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.bench import Bench, Ears
from hearth.kube.auth import credentials
from hearth.kube.cache.revision_cache import RevisionCache
from hearth.kube.cache.source_cache import SourceCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.kube.client.connection import Connection
from hearth.kube.health_mark_client import KubeHealthMarkClient
from hearth.kube.management_cluster import KubeManagementCluster
from hearth.kube.workload_cluster import KubeWorkloadCluster
from support.fake_world.fake_user import FakeUser
from support.ports.fake_connection import FakeWire
from support.ports.fake_health_mark_client import FakeMarks
from support.ports.fake_management_cluster import FakeManagementCluster
from support.ports.fake_workload_cluster import FakeWorkloadCluster
from support.real import real_user
from support.real.real_user import RealUser
from support.server.fake_server import FakeServer
from support.server.request_faults import Traffic
from support.stories import probe_controller
from support.units.blueprints import HASHER


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.cluster)])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """The bench for either world."""
    if request.param == "fake":
        wire = FakeWire(FakeServer(time.time), Traffic())
        yield await make_fake(wire)
        wire.cut()
        return
    kubeconfig: Path = request.getfixturevalue("kubeconfig")
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        user = RealUser(connection, request.getfixturevalue("namespace"))
        async for made in make_real(connection, user):
            yield made


async def make_fake(wire: FakeWire) -> Bench:
    """The bench on the fake cluster."""
    user = FakeUser(wire.server)
    await user.create(probe_controller.definition())
    ears = Ears()
    return Bench(
        cluster=FakeWorkloadCluster(wire, ears, signatures=HASHER),
        home=FakeManagementCluster(wire, ears),
        marks=FakeMarks(wire, ears.on_health_mark),
        ears=ears,
        user=user,
        namespace="default",
    )


async def make_real(connection: Connection, user: RealUser) -> AsyncIterator[Bench]:
    """The bench on a real API server."""
    await real_user.install_all(user)
    ears = Ears()
    stacks = StackCache(connection, ears.on_stack, namespace=user.namespace)
    revisions = RevisionCache(connection, ears.on_revision, namespace=user.namespace)
    sources = SourceCache(connection, ears.on_source)
    cluster = KubeWorkloadCluster(connection, ears, namespace=user.namespace)
    cluster.trust(HASHER)
    await cluster.open()
    marks = KubeHealthMarkClient(connection, ears.on_health_mark, namespace=user.namespace)
    marks.start()
    for cache in (stacks, revisions):
        cache.start()
        await cache.wait_synced()
    home = KubeManagementCluster(connection, stacks=stacks, revisions=revisions, sources=sources)
    yield Bench(cluster=cluster, home=home, marks=marks, ears=ears, user=user, namespace=user.namespace)
    await asyncio.gather(cluster.close(), stacks.close(), revisions.close(), sources.close(), marks.close())
