"""What is read of a Stack beside its objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.model.kinds import Kind

SCHEMA = {"properties": {"status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}


class FakeSession:
    """As much of a session as schemas take."""

    def __init__(self) -> None:
        self.schemas = self
        self.loaded: list[Kind] = []

    async def load(self, kinds: Collection[Kind]) -> None:
        """Take note of the kinds."""
        self.loaded += kinds

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """The schema of a kind that was loaded."""
        return SCHEMA if kind in self.loaded else None


def make_child(group: str, name: str, status: Any = None) -> FoundChild:
    """An object with that status."""
    kind = Kind(group=group, version="v1", name=name, plural=f"{name.lower()}s", namespaced=True)
    return FoundChild(kind, {"metadata": {"name": name.lower()}, **({"status": status} if status else {})})


async def test_schemas_are_read_only_for_objects_that_say_nothing() -> None:
    """Of kinds without a rule: a schema costs a request."""
    session = FakeSession()
    silent = make_child("example.com", "Widget")
    others = [
        make_child("", "ConfigMap"),
        make_child("", "Service"),
        make_child("apps", "Deployment"),
        make_child("cert-manager.io", "Certificate"),
        make_child("example.com", "Gadget", {"phase": "Up"}),
    ]
    used = cast(Session, session)
    found = await StackReader(used).add_schemas(used, [silent, *others])
    assert session.loaded == [silent.kind]
    assert [child.schema for child in found] == [SCHEMA, None, None, None, None, None]
