"""Live objects of Hearth's own kinds, as reviews need them."""

from __future__ import annotations

from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef

API_VERSION = f"{names.GROUP}/{names.VERSION}"


async def find(builder: RevisionBuilder, kind_name: str, *, namespace: str, name: str) -> Object | None:
    """Return the live object; None if there is none. Raises ApiStatusError or Unreachable if that is unknown."""
    kind = builder.cluster.kinds.find(API_VERSION, kind_name)
    if kind is None:
        return None
    ref = ObjectRef(group=names.GROUP, kind=kind_name, namespace=namespace, name=name)
    try:
        return await builder.cluster.get(ref, kind=kind)
    except errors.ApiStatusError as error:
        if not error.is_not_found:
            raise
        return None
