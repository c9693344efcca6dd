"""Lists with unique keys: the API server publishes the same keys, and rejects duplicates."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.template.schema import literal_validator
from support.real import keyed_lists

APPLY = "application/apply-patch+yaml"
POD: dict[str, Any] = {"name": "a", "image": "x"}


async def test_the_stored_lists_are_those_of_the_api_server(connection: Connection) -> None:
    published = await keyed_lists.get_built_in(connection)
    stored = orjson.loads(literal_validator.BUILT_IN.read_bytes())
    # Other tests may add definitions to groups with the same suffix as Kubernetes groups.
    kinds = {kind: name for kind, name in published["kinds"].items() if kind in stored["kinds"]}
    definitions = {name: each for name, each in published["definitions"].items() if name in stored["definitions"]}
    assert stored == {**published, "kinds": kinds, "definitions": definitions}


@pytest.mark.parametrize(
    ("plural", "kind", "spec"),
    [
        ("pods", "Pod", {"containers": [POD, POD]}),
        ("pods", "Pod", {"containers": [POD | {"env": [{"name": "A", "value": "a"}, {"name": "A", "value": "b"}]}]}),
        ("pods", "Pod", {"containers": [POD | {"ports": [{"containerPort": 1}, {"containerPort": 1, "name": "b"}]}]}),
        (
            "pods",
            "Pod",
            {"containers": [POD | {"ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}]}]},
        ),
        ("pods", "Pod", {"containers": [POD], "volumes": [{"name": "v"}, {"name": "v"}]}),
        ("pods", "Pod", {"containers": [POD], "tolerations": [{"key": "a"}, {"key": "a"}]}),
        ("pods", "Pod", {"containers": [POD], "imagePullSecrets": [{"name": "s"}, {"name": "s"}]}),
        ("pods", "Pod", {"containers": [POD], "hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]}),
        ("services", "Service", {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]}),
        ("services", "Service", {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b", "protocol": "UDP"}]}),
    ],
)
async def test_a_mistake_is_what_the_api_server_cannot_apply(
    connection: Connection, namespace: str, plural: str, kind: str, spec: dict[str, Any]
) -> None:
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "twice"}, "spec": spec}
    found = literal_validator.find_repeated(manifest, literal_validator.find_built_in(f"v1/{kind}"))
    query = {"fieldManager": "test", "dryRun": "All"}
    refused = ""

    path = f"/api/v1/namespaces/{namespace}/{plural}/twice"
    try:
        await connection.request("PATCH", path, query=query, body=manifest, content_type=APPLY)
    except errors.ApiStatusError as refusal:
        refused = str(refusal)

    assert ("duplicate entries" in refused) == bool(found), refused
