"""Manifests and addresses of Stacks as users create them in a world: `default/shop`, and others."""

from __future__ import annotations

from hearth.model import names
from hearth.model.child import Object
from support.stories.world import Address

STACK = Address(api_version=f"{names.GROUP}/{names.VERSION}", kind=names.STACK, namespace="default", name="shop")


def make_stack(spec: Object, *, name: str = STACK.name, namespace: str = STACK.namespace) -> Object:
    """The manifest of a Stack with that spec."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": STACK.api_version, "kind": STACK.kind, "metadata": metadata, "spec": spec}


def address_in(namespace: str, name: str = STACK.name) -> Address:
    """The address of the Stack with that name, or of `shop`."""
    return Address(api_version=STACK.api_version, kind=STACK.kind, namespace=namespace, name=name)
