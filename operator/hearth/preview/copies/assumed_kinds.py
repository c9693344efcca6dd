"""The kinds of a cluster, with those that the definitions of kinds in a preview add. Must not know how these are applied."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from hearth.model.child import Object
from hearth.model.kinds import Kind, Kinds

DEFINITION: Final = "CustomResourceDefinition.apiextensions.k8s.io"
"""`Kind.key` of what defines a kind."""
Schema = Mapping[str, Any]


class AssumedKinds:
    """`hearth.model.kinds.Kinds`, as the cluster serves them once the preview has come true."""

    def __init__(self, live: Kinds) -> None:
        """live: those that are served now, which win: only their schemas are the API server's own."""
        self._live = live
        self._added: dict[tuple[str, str], Kind] = {}
        self._schemas: dict[Kind, Schema] = {}
        self._additions = 0

    @property
    def generation(self) -> int:
        """Return a number that increases with each change."""
        return self._live.generation + self._additions

    def add(self, definition: Object) -> bool:
        """Add the kinds that a CustomResourceDefinition defines; return whether one is new."""
        known = len(self._added)
        for kind, schema in list_kinds(definition):
            pair = (kind.api_version, kind.name)
            if self._live.find(*pair) is None and pair not in self._added:
                self._added[pair], self._schemas[kind] = kind, schema
        self._additions += len(self._added) - known
        return len(self._added) > known

    def is_assumed(self, kind: Kind) -> bool:
        """Return whether the cluster does not serve the kind yet."""
        return kind in self._schemas

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Find the kind; None if neither the cluster nor a definition has it."""
        return self._live.find(api_version, kind) or self._added.get((api_version, kind))

    def all(self) -> Collection[Kind]:
        """Return every kind."""
        return [*self._live.all(), *self._added.values()]

    def find_schema(self, kind: Kind) -> Schema | None:
        """Find the schema of the kind."""
        return self._schemas.get(kind) or self._live.find_schema(kind)

    def find_definition(self, reference: str) -> Schema | None:
        """Find the target of a `$ref`, which the schema of a definition does not contain."""
        return self._live.find_definition(reference)


def list_kinds(definition: Object) -> list[tuple[Kind, Schema]]:
    """Return the kinds that a definition lets the API server serve, with their schemas."""
    spec = definition["spec"]
    stated = spec["names"]
    return [
        (
            Kind(
                group=spec["group"],
                version=version["name"],
                name=stated["kind"],
                plural=stated["plural"],
                namespaced=spec["scope"] == "Namespaced",
            ),
            (version.get("schema") or {}).get("openAPIV3Schema") or {},
        )
        for version in spec["versions"]
        if version.get("served")
    ]
