"""Definitions of stored revisions, as `kubectl stack` reads them."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import pytest

from hearth.cli.stack_access import revisions
from hearth.cli.stack_access.session import Session
from hearth.engine.cluster_objects import Revision
from hearth.kube.objects import controller_revision
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.units import stack_objects

HUGE: Object = {"template": {"a": random.Random(1).randbytes(1_500_000).hex()}, "parameters": {}}
STACK = stack_objects.make_stack(namespace="prod")
REVISION = Revision(name="shop-x", number=1, hash="h", kinds=frozenset(), namespace="prod", owner="u")


class Shelf:
    """A session that knows these objects."""

    def __init__(self, *objects: Object) -> None:
        self._objects = {each["metadata"]["name"]: each for each in objects}

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """As a session does."""
        if (kind.name, namespace) != ("ControllerRevision", "prod") or name not in self._objects:
            raise errors.ApiStatusError(code=404, status={"reason": "NotFound"})
        return self._objects[name]


def read(shelf: Shelf, revision: Object) -> Object:
    """Return the definition of a revision."""
    return asyncio.run(revisions.get_definition(cast("Session", shelf), revision))


def test_a_definition_in_several_objects_is_read() -> None:
    """One of them that is missing is named, with the way out."""
    *parts, last = controller_revision.make_objects(STACK, REVISION, HUGE)
    assert read(Shelf(*parts, last), last) == HUGE
    with pytest.raises(
        errors.TamperedRevision, match=r"shop-x contains no definition \(shop-x-part-2 does not exist\)"
    ):
        read(Shelf(*parts[:1], last), last)
