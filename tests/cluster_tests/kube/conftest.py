"""A connection of our own to the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube import credentials
from hearth.kube.connection import Connection
from hearth.kube.credentials import CredentialSource


@pytest.fixture
def source(kubeconfig: Path) -> CredentialSource:
    """The administrator's credentials."""
    return credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})


@pytest.fixture
async def connection(source: CredentialSource) -> AsyncIterator[Connection]:
    """An open connection."""
    async with Connection(source) as opened:
        yield opened
