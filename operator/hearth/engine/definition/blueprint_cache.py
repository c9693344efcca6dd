"""Cache of blueprints that Stacks with the same definition share.

A blueprint stays cached while any Stack uses it, so the cache needs no memory of its own. Must not know how blueprints
are compiled.
"""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

from hearth.template.blueprint import Blueprint, Definition, Outline, SharingScope, StackIdentity

Key: TypeAlias = tuple[bytes, str | None]
"""A definition's digest, and the namespace if the blueprint is valid in only one."""
DIGEST_SIZE = 16
"""Bytes. A collision would give a Stack another Stack's objects; 128 bits exclude that."""


@dataclass(slots=True)
class BlueprintCache:
    """The blueprints in use."""

    _known: weakref.WeakValueDictionary[Key, Blueprint] = field(default_factory=weakref.WeakValueDictionary)

    def find(self, digest: bytes, stack: StackIdentity) -> Blueprint | None:
        """Return the blueprint of that definition for the Stack if another Stack has it."""
        if not digest:
            return None
        found = self._known.get((digest, None))
        return found if found is not None else self._known.get((digest, stack.namespace))

    def keep(self, digest: bytes, stack: StackIdentity, blueprint: Blueprint) -> None:
        """Cache the Stack's blueprint for all Stacks that it is valid for."""
        if digest and blueprint.reach is not SharingScope.ONE:
            self._known[digest, None if blueprint.reach is SharingScope.ANY else stack.namespace] = blueprint


def find_digest(
    definition: Definition, *, adopts: bool, generation: int, cluster: str = "", outline: Outline | None = None
) -> bytes:
    """Return a digest that is equal only for equal blueprints, apart from the Stack's identity; empty if unknown.

    adopts: the Stack's adoption policy; generation: of the kinds; cluster: key of the cluster that serves them; outline:
    of the definition and the kinds, if it has one. The digest stays in this process, so it needs no key of its own.
    """
    if outline is not None:
        lists = {name: [each.length, each.blocks.hex()] for name, each in outline.lists.items()}
        parts: tuple[object, ...] = (outline.head.hex(), lists, adopts, _describe_size(definition), definition.surge)
        return hashlib.blake2b(orjson.dumps(parts), digest_size=DIGEST_SIZE).digest()
    parts = (
        *(definition.template, definition.parameters, definition.origins),
        *(definition.template_path, definition.parameters_path, adopts, generation, cluster),
        *(_describe_size(definition), definition.surge),
    )
    try:
        # Keep the written order: it determines the order of the resources.
        written = orjson.dumps(parts)
    except TypeError:
        return b""
    return hashlib.blake2b(written, digest_size=DIGEST_SIZE).digest()


def _describe_size(definition: Definition) -> object:
    return (definition.size.replicas, definition.size.removed) if definition.size is not None else None
