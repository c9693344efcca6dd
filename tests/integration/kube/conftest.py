"""A connection of our own to the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.client.connection import Connection


@pytest.fixture
def source(kubeconfig: Path) -> CredentialSource:
    """The administrator's credentials."""
    return credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})


@pytest.fixture
async def connection(source: CredentialSource) -> AsyncIterator[Connection]:
    """An open connection."""
    async with Connection(source) as opened:
        yield opened
