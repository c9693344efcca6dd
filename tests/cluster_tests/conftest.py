"""A world on a real API server, for stories and whatever else is told in one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube import credentials
from hearth.kube.connection import Connection
from hearth.model import crd
from support import probe_player, real_user
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
