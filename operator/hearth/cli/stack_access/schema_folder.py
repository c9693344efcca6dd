"""Kinds and schemas without a cluster, from a folder in the layout of kubeconform. Every kind counts as served.

Built-in kinds come with the program, but the folder takes precedence. File names at any depth are for example
`deployment-apps-v1.json` and `service-v1.json` (kubernetes-json-schema) or `example.org/widget_v1.json` (CRDs-catalog).
Source: kubeconform, `pkg/registry`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import orjson

from hearth.cli.importer import cluster_scoped_kinds
from hearth.cli.stack_access import built_in_schemas
from hearth.model.kinds import Kind


class FolderKinds:
    """Implementation of `hearth.model.kinds.Kinds`."""

    generation = 0

    def __init__(self, folder: Path | None) -> None:
        self._files = {self._key(file): file for file in sorted(folder.rglob("*.json"))} if folder is not None else {}
        self._loaded: dict[Path, Mapping[str, Any] | None] = {}

    @staticmethod
    def _key(file: Path) -> str:
        """Return the name of a schema file; for a custom resource it begins with the group."""
        name = file.stem.lower()
        return f"{file.parent.name.lower()}/{name}" if "_" in name and not name.startswith("_") else name

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind."""
        group, _, version = api_version.rpartition("/")
        if not version or not kind:
            return None
        is_wide = cluster_scoped_kinds.is_cluster_wide(group, kind)
        return Kind(group=group, version=version, name=kind, plural=f"{kind.lower()}s", namespaced=not is_wide)

    def all(self) -> Collection[Kind]:
        """Return no kinds, because the kinds that a cluster serves are not known."""
        return ()

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Return the schema of the kind, or None if it is not known."""
        name, first = kind.name.lower(), kind.group.partition(".")[0]
        suffix = f"-{first}-{kind.version}" if kind.group else f"-{kind.version}"
        for key in (f"{name}{suffix}", f"{kind.group}/{name}_{kind.version}"):
            if key.lower() in self._files:
                return self._load(self._files[key.lower()])
        return built_in_schemas.find_schema(kind.api_version, kind.name)

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """Return the target of `_definitions.json#/definitions/…`, or of a reference in a schema of Kubernetes."""
        file = self._files.get("_definitions")
        found = self._load(file) if file is not None else None
        definitions = (found or {}).get("definitions")
        own = definitions.get(reference.rpartition("/")[2]) if isinstance(definitions, dict) else None
        return own if own is not None else built_in_schemas.find_definition(reference)

    def _load(self, file: Path) -> Mapping[str, Any] | None:
        """Read a schema once. Returns None if it is not a JSON object."""
        if file not in self._loaded:
            try:
                content = simplify(orjson.loads(file.read_bytes()))
            except (OSError, ValueError):
                content = None
            self._loaded[file] = content if isinstance(content, dict) else None
        return self._loaded[file]


def simplify(value: Any) -> Any:
    """Return a schema with a single type: kubeconform's files permit null with most types."""
    if isinstance(value, list):
        return [simplify(each) for each in value]
    if not isinstance(value, dict):
        return value
    inner = {key: simplify(each) for key, each in value.items()}
    types = inner.get("type")
    if isinstance(types, list):
        named = [each for each in types if each != "null"]
        inner |= {"type": named[0]} if len(named) == 1 else {}
        if len(named) != 1:
            del inner["type"]
    return inner
