"""`ExternalQuery` and `ExternalView`: references to the objects that a Stack only reads, and their cached state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import value_class
from hearth.model.child import Child, Path
from hearth.model.kinds import Kind
from hearth.model.label_selectors import LabelSelector


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ExternalQuery:
    """One object by its name, or a list of objects by their labels."""

    kind: Kind
    namespace: str
    """"" for cluster scope, and for a list in all namespaces."""
    name: str = ""
    """"" for a list."""
    selector: LabelSelector | None = None
    """The selector of a list."""
    paths: frozenset[Path] = frozenset()
    """Fields that are read in addition to the metadata."""

    def accepts(self, *, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the query matches an object of the kind."""
        if self.namespace and self.namespace != namespace:
            return False
        return self.selector.accepts(labels) if self.selector is not None else self.name == name

    def accepts_metadata(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the query matches an object of the kind with this `metadata`."""
        labels = metadata.get("labels") or {}
        return self.accepts(namespace=metadata.get("namespace", ""), name=metadata["name"], labels=labels)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ExternalView:
    """The cached state of the objects of a query."""

    objects: tuple[Child, ...] = ()
    """Sorted by namespace and name. They are not children, but the type has all data that is read from an object."""
    is_known: bool = False
    """Whether all objects of the query are cached, with the fields that it reads."""
    is_kind_gone: bool = False
    """Whether the API server no longer serves the kind. Its objects may still exist."""
    denial: str = ""
    """The API server's reason for denying the operator the watch, or "" if it does not."""
    excess: str = ""
    """The limit that prevents the watch, or ""."""


UNKNOWN_VIEW = ExternalView()
