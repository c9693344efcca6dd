"""A world on a real API server, for stories and anything else that is written as one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from support import process_lock
from support.real import operator_fleet, real_user
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.real_world import RealWorld


@pytest.fixture
async def world(kubeconfig: Path, namespace: str) -> AsyncIterator[RealWorld]:
    """A world in a namespace of its own."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        user = RealUser(connection, namespace)
        await real_user.install_all(user)
        made = RealWorld(user, source)
        made.open()
        yield made
        await made.close()


@pytest.fixture
async def user(kubeconfig: Path, namespace: str) -> AsyncIterator[RealUser]:
    """A user with all rights, in a namespace of their own."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        made = RealUser(connection, namespace)
        await real_user.install_all(made)
        yield made


@pytest.fixture
async def workers(kubeconfig: Path, user: RealUser, tmp_path: Path) -> AsyncIterator[Crew]:
    """The operators of that namespace; none complains in the end, and no Stack stays behind without one."""
    made = Crew(kubeconfig=kubeconfig, namespace=user.namespace, folder=tmp_path)
    yield made
    await made.dismiss()
    await operator_fleet.abandon_stacks(user)
    assert [line for each in made.members for line in each.find_complaints()] == []


@pytest.fixture
async def _alone_defines() -> AsyncIterator[None]:
    """No other operator serves StackDefinitions meanwhile."""
    async with process_lock.held_meanwhile(process_lock.DEFINERS):
        yield


@pytest.fixture
def definers(_alone_defines: None, workers: Crew) -> Crew:
    """The operators of that namespace, which may serve StackDefinitions; they end before others may."""
    return workers
