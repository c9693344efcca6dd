"""A world on a real API server, for stories and whatever else is told in one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube import credentials
from hearth.kube.connection import Connection
from hearth.model import crd
from support import crew, probe_player, real_user
from support.crew import Crew
from support.real_user import RealUser
from support.real_world import RealWorld


@pytest.fixture
async def world(kubeconfig: Path, namespace: str) -> AsyncIterator[RealWorld]:
    """A world in a namespace of its own."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        user = RealUser(connection, namespace)
        await real_user.install(user, [*crd.make_crds(), probe_player.definition()])
        made = RealWorld(user, source)
        made.open()
        yield made
        await made.close()


@pytest.fixture
async def user(kubeconfig: Path, namespace: str) -> AsyncIterator[RealUser]:
    """Somebody with all rights, in a namespace of their own."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        made = RealUser(connection, namespace)
        await real_user.install(made, [*crd.make_crds(), probe_player.definition()])
        yield made


@pytest.fixture
async def workers(kubeconfig: Path, user: RealUser, tmp_path: Path) -> AsyncIterator[Crew]:
    """The operators of that namespace; none complains in the end, and no Stack stays behind without one."""
    made = Crew(kubeconfig=kubeconfig, namespace=user.namespace, folder=tmp_path)
    yield made
    await made.dismiss()
    await crew.abandon_stacks(user)
    assert [line for each in made.members for line in each.find_complaints()] == []
