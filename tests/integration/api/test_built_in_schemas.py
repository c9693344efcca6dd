"""The schemas that ship with the program equal the schemas that the API server publishes."""

from __future__ import annotations

from hearth.cli.stack_access import built_in_schemas
from hearth.kube.client.connection import Connection
from support.real import built_in_schemas as published_schemas


async def test_the_stored_schemas_are_those_of_the_api_server(connection: Connection) -> None:
    published = await published_schemas.get_built_in(connection)
    stored = built_in_schemas.read()
    # Other tests may add definitions to groups with the same suffix as Kubernetes groups.
    kinds = {kind: name for kind, name in published["kinds"].items() if kind in stored["kinds"]}
    definitions = {name: each for name, each in published["definitions"].items() if name in stored["definitions"]}
    assert stored == {**published, "kinds": kinds, "definitions": definitions}
