"""Generates the schemas of built-in kinds that `lint` uses without a cluster, from an API server.

Write the file again: `PYTHONPATH=operator:tests python -m support.real.built_in_schemas KUBECONFIG`.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

import orjson

from hearth.cli.stack_access import built_in_schemas
from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.kube.discovery.discovery import SCHEMAS_PATH
from support.real import keyed_lists

Schema = Mapping[str, Any]
KEPT: Final = ("type", "$ref", "nullable", "format")
"""Keywords that validation needs, in addition to extensions and keywords that contain other schemas."""
EXTENSIONS: Final = (
    *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
)


async def get_built_in(connection: Connection) -> dict[str, Any]:
    """Return the expected contents of the file."""
    definitions: dict[str, Schema] = {}
    kinds: dict[str, str] = {}
    index = (await connection.request("GET", SCHEMAS_PATH))["paths"]
    for path in sorted(index):
        if not keyed_lists.is_own(path):
            continue
        document = await connection.request("GET", f"{SCHEMAS_PATH}/{path}")
        for full_name, schema in document["components"]["schemas"].items():
            if not full_name.startswith("io.k8s."):
                continue
            definitions[full_name] = reduce(schema)
            for each in schema.get("x-kubernetes-group-version-kind") or ():
                version = f"{each['group']}/{each['version']}" if each["group"] else each["version"]
                if {"metadata", "kind"} <= set(schema.get("properties") or ()) and not each["kind"].endswith("List"):
                    kinds[f"{version}/{each['kind']}"] = full_name
    # Many groups use this definition for delete options.
    kinds = {kind: name for kind, name in kinds.items() if not kind.endswith("/DeleteOptions")}
    version = (await connection.request("GET", "/version"))["gitVersion"]
    number = re.match(r"v?(\d+\.\d+)", version)
    return {
        "version": number[1] if number is not None else version,
        "kinds": dict(sorted(kinds.items())),
        "definitions": dict(sorted(definitions.items())),
    }


def reduce(schema: Any) -> Any:
    """Return a schema without the parts that Hearth's validation never reads."""
    if not isinstance(schema, dict):
        return schema
    kept = {word: schema[word] for word in (*KEPT, *EXTENSIONS) if word in schema}
    if kept.get("format") != "byte":
        kept.pop("format", None)
    if "$ref" in kept:
        kept = {"$ref": kept["$ref"].rpartition("/")[2]}
    for word in ("items", "additionalProperties"):
        if word in schema:
            kept[word] = reduce(schema[word])
    if "properties" in schema:
        kept["properties"] = {name: reduce(inner) for name, inner in schema["properties"].items()}
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1:
        return {**reduce(parts[0]), **{word: each for word, each in kept.items() if word != "type"}}
    return kept


def pack(content: Mapping[str, Any]) -> bytes:
    """Return the file, with the same bytes for the same content."""
    return gzip.compress(orjson.dumps(content), mtime=0)


async def write(kubeconfig: str) -> None:
    source = credentials.find_source(kubeconfig=kubeconfig, context=None, environ={})
    async with Connection(source) as connection:
        found = await get_built_in(connection)
    built_in_schemas.FILE.write_bytes(pack(found))


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
