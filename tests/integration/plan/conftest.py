"""Shared fixtures of the tests in this folder, on the real API server."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION
from support.real import raw_api
from support.real.raw_api import RawApi
from support.units import sample_manifests


@pytest.fixture(scope="session")
def api(api_client: Any) -> RawApi:
    """Raw requests, on a server that serves the kind of the shapes."""
    server = RawApi(api_client)
    definition = sample_manifests.DEFINITION
    answer = server.apply(definition, kind=CUSTOM_RESOURCE_DEFINITION)
    assert answer.is_accepted, answer.body
    kind = sample_manifests.CUSTOM
    # The kind is served some time after it is accepted. Each request checks it again, so no sleep is needed.
    collection = raw_api.collection_of({"metadata": {"namespace": "default"}}, kind=kind)
    assert any(server.send("GET", collection).is_accepted for _ in range(1000))
    return server
