"""The metadata of an object, as the API server returned it. Accepts objects of any shape."""

from __future__ import annotations

from hearth.cli import object_fields
from hearth.model.child import Object


class NamedObject:
    """Properties of a class whose `raw` is the object."""

    __slots__ = ()
    raw: Object

    @property
    def name(self) -> str:
        """Return its name."""
        return object_fields.text(self.raw, "metadata", "name")

    @property
    def namespace(self) -> str:
        """Return its namespace, "" for cluster scope."""
        return object_fields.text(self.raw, "metadata", "namespace")

    @property
    def uid(self) -> str:
        """Return its UID."""
        return object_fields.text(self.raw, "metadata", "uid")

    @property
    def created(self) -> str:
        """Return its creation time."""
        return object_fields.text(self.raw, "metadata", "creationTimestamp")
