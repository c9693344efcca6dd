"""A reference from one manifest to another object, as the manifest states it."""

from __future__ import annotations

from typing import Any

from hearth.model import value_class


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMention:
    """A reference to an object. Its namespace is that of the referencing manifest unless the reference sets one."""

    kind: str
    name: Any
    """The name as found: the API server reports what is wrong with it. A value that is not text names nothing."""
    group: str = ""
    namespace: Any = None
    """The namespace as found; a text if the reference sets it."""
