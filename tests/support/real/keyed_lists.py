"""Generates the table of keyed lists of built-in kinds from the schemas that an API server publishes.

Write the file again: `PYTHONPATH=tests python -m support.real.keyed_lists KUBECONFIG`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import orjson

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.kube.discovery.discovery import SCHEMAS_PATH
from hearth.template.schema import literal_validator, shapes

Schema = Mapping[str, Any]
PREFIX = "#/components/schemas/"


async def get_built_in(connection: Connection) -> Schema:
    """The expected contents of the file."""
    definitions: dict[str, Schema] = {}
    kinds: dict[str, str] = {}
    index = (await connection.request("GET", SCHEMAS_PATH))["paths"]
    for path in sorted(index):
        if not is_own(path):
            continue
        document = await connection.request("GET", f"{SCHEMAS_PATH}/{path}")
        for name, schema in document["components"]["schemas"].items():
            if not name.startswith("io.k8s."):
                continue
            definitions[PREFIX + name] = schema
            for each in schema.get("x-kubernetes-group-version-kind") or ():
                version = f"{each['group']}/{each['version']}" if each["group"] else each["version"]
                if {"metadata", "kind"} <= set(schema.get("properties") or ()) and not each["kind"].endswith("List"):
                    kinds[f"{version}/{each['kind']}"] = PREFIX + name
    return prune(definitions, kinds)


def is_own(path: str) -> bool:
    """Whether that document describes built-in kinds."""
    sort, _, rest = path.partition("/")
    group, _, version = rest.rpartition("/")
    if sort == "api":
        return bool(version)
    return sort == "apis" and bool(group) and ("." not in group or group.endswith(".k8s.io"))


def prune(definitions: Mapping[str, Schema], kinds: Mapping[str, str]) -> Schema:
    """Keep only the paths to lists with keys; a kind without any still has its metadata."""
    leading = find_leading(definitions)
    kept: dict[str, Schema] = {}
    pending = sorted(leading.intersection(kinds.values()))
    while pending:
        name = pending.pop()
        if name not in kept:
            kept[name] = reduce(definitions[name], leading)
            pending += find_references(kept[name])
    return {
        "kinds": {kind: name for kind, name in sorted(kinds.items()) if name in kept},
        "definitions": dict(sorted(kept.items())),
    }


def find_leading(definitions: Mapping[str, Schema]) -> set[str]:
    """The definitions that contain such a list, directly or indirectly."""
    found: set[str] = set()
    while True:
        more = {name for name, schema in definitions.items() if name not in found and leads(schema, found)}
        if not more:
            return found
        found |= more


def leads(schema: Any, leading: set[str]) -> bool:
    """Whether a schema is or contains such a list."""
    if not isinstance(schema, dict):
        return False
    if schema.get("x-kubernetes-list-type") in ("map", "set"):
        return True
    if shapes.find_reference(schema) in leading:
        return True
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(leads(each, leading) for each in inner)


def reduce(schema: Schema, leading: set[str]) -> Schema:
    """The schema reduced to paths to keyed lists; status is not part of a manifest."""
    kept: dict[str, Any] = {}
    reference = shapes.find_reference(schema)
    if reference is not None:
        return {"$ref": reference}
    for word in ("x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
        if word in schema:
            kept[word] = schema[word]
    if kept.get("x-kubernetes-list-type") == "atomic":
        del kept["x-kubernetes-list-type"]
    if schema.get("type") == "array":
        kept["type"] = "array"
    properties = {
        name: reduce(inner, leading) if leads(inner, leading) else {"default": inner["default"]}
        for name, inner in (schema.get("properties") or {}).items()
        if name != "status" and (leads(inner, leading) or isinstance(inner.get("default") or None, str | int))
    }
    kept |= {"properties": properties} if properties else {}
    for word in ("items", "additionalProperties"):
        inner = schema.get(word)
        if isinstance(inner, dict) and leads(inner, leading):
            kept[word] = reduce(inner, leading)
        elif word == "items" and isinstance(inner, dict) and kept.get("x-kubernetes-list-type") == "map":
            # Keep the defaults of the keys.
            kept[word] = {"$ref": shapes.find_reference(inner)} if shapes.find_reference(inner) else {}
    return kept


def find_references(schema: Any) -> list[str]:
    """The definitions that a schema refers to."""
    if isinstance(schema, dict):
        own = [schema["$ref"]] if "$ref" in schema else []
        return own + [each for inner in schema.values() for each in find_references(inner)]
    return []


async def write(kubeconfig: str) -> None:
    source = credentials.find_source(kubeconfig=kubeconfig, context=None, environ={})
    async with Connection(source) as connection:
        found = await get_built_in(connection)
    literal_validator.BUILT_IN.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
