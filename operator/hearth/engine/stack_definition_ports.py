"""The port of the StackDefinitions and of the kinds that they make. See `hearth.engine.ports`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from hearth.engine.cluster_objects import Revision, StackObject
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.template.instances.instance_form import InstanceForms


class StackDefinitionClient(Protocol):
    """The StackDefinitions of the management cluster, their CustomResourceDefinitions, and their instances."""

    async def list_definitions(self) -> list[Object]:
        """Return all StackDefinitions; none if the kind is not served."""

    def follow(self, on_change: Callable[[str, str], None]) -> None:
        """Report each state of each StackDefinition by its name and UID from now on, also that it is gone."""

    async def list_revisions(self, uid: str, namespace: str) -> list[Revision]:
        """Return the stored revisions of the StackDefinition with that UID, by rising number."""

    async def get_definition(self, name: str) -> Object | None:
        """Return a StackDefinition; None if it does not exist."""

    async def write_finalizers(self, raw: Object, finalizers: list[str]) -> Object | None:
        """Set the finalizers of a StackDefinition (precondition: its version); None if it does not exist any more."""

    async def write_definition_status(self, raw: Object, status: Object) -> None:
        """Merge-patch the status of a StackDefinition; ignore one that is gone."""

    async def get_object(self, kind: Kind, name: str) -> Object | None:
        """Return an object without a namespace; None if it does not exist."""

    async def apply_object(self, kind: Kind, manifest: Object) -> Object:
        """Apply an object without a namespace; return it as stored."""

    async def delete_object(self, kind: Kind, raw: Object) -> None:
        """Delete exactly this object (precondition: UID); ignore one that is gone."""

    def serve(self, kind: Kind, forms: InstanceForms) -> None:
        """Watch the instances of a kind from now on, which are Stacks to the engine. forms: how; may grow later."""

    async def wait_served(self, kind: Kind) -> None:
        """Wait until all instances of the kind are known."""

    async def withdraw(self, kind: Kind) -> None:
        """Watch them no longer; instances that are left are none of the engine's any more."""

    async def release_instances(self, kind: Kind) -> int:
        """Remove the operator's finalizer from all instances of a kind that is not watched; return how many had it."""

    def find_instances(self, kind: Kind) -> Collection[StackObject]:
        """Return all known instances of a kind, whichever process serves them."""

    def move(self, kind: Kind, uid: str, number: int) -> None:
        """Give an instance another revision of its StackDefinition, if this process serves it; its Stack is enqueued."""
