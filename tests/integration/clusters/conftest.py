"""Two control planes at once: the shared one has the Stacks, and a separate one has their objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from support.real import control_plane_processes, other_cluster
from support.real.control_plane_processes import OwnPlane
from support.real.other_cluster import Region


@pytest.fixture(scope="session")
def other_plane(worker_id: str) -> Iterator[OwnPlane]:
    """The other cluster, which tests may break."""
    with control_plane_processes.run_plane(f"other-{worker_id}") as plane:
        yield plane


@pytest.fixture
async def region(kubeconfig: Path, other_plane: OwnPlane, tmp_path: Path) -> AsyncIterator[Region]:
    """A namespace in both, and an operator in the first."""
    home = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    other = credentials.find_source(kubeconfig=str(other_plane.kubeconfig), context=None, environ={})
    async with other_cluster.run_region(home, other, kubeconfig, tmp_path) as made:
        yield made
        # Undo all faults that a test left behind, because the next test needs the cluster.
        await asyncio.to_thread(other_plane.restore)
