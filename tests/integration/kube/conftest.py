"""A cluster with its listener, and Stacks as a kind that the real API server serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from contract.bench import Ears
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import errors
from hearth.model.api import crd
from hearth.model.well_known_kinds import STACK
from support.units import signing

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def ears() -> Ears:
    """The listeners of the caches."""
    return Ears()


@pytest.fixture
async def cluster(connection: Connection, ears: Ears) -> AsyncIterator[KubeWorkloadCluster]:
    """A cluster whose kinds are known."""
    made = KubeWorkloadCluster(connection, ears)
    made.trust(signing.Trusting())
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def serves_stacks(connection: Connection) -> None:
    """Let Stacks be served."""
    definition = crd.make_crds()[0]
    path = f"{CRDS}/{definition['metadata']['name']}"
    query = api_requests.apply_query(manager="test", force=True)
    await connection.request("PATCH", path, query=query, body=definition, content_type=api_requests.APPLY)
    async with asyncio.timeout(30):
        while not await is_served(connection):
            pass


async def is_served(connection: Connection) -> bool:
    """Whether Stacks can be listed."""
    try:
        await connection.request("GET", api_requests.collection_path(STACK))
    except errors.ApiStatusError:
        return False
    return True
