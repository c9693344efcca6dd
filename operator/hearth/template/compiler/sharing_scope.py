"""Which other Stacks a compiled result is valid for.

Considers only the parts of a Stack's identity that it depends on. The caller ensures that template and values are the
same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hearth.template.blueprint import SharingScope
from hearth.template.cel.expressions import Parsed

ROOT = "stack"
"""The name of the Stack in expressions."""


class ObjectNaming(NamedTuple):
    """How a resource's object gets its name."""

    group: str
    kind: str
    has_name: bool
    """Whether its manifest sets a name; otherwise it is derived from the Stack's."""
    has_namespace: bool
    """Whether its manifest sets a namespace; otherwise it is the Stack's."""


def of_expression(parsed: Parsed) -> SharingScope:
    """Return the Stacks for which an expression has the same meaning."""
    if ROOT not in parsed.roots:
        return SharingScope.ANY
    paths = (read.path for read in parsed.reads.reads if read.root == ROOT)
    return SharingScope.NAMESPACE if all(path[:1] == ("namespace",) for path in paths) else SharingScope.ONE


def of_names(namings: Iterable[ObjectNaming]) -> SharingScope:
    """Return the Stacks for which duplicate object names occur in the same resources, if any.

    A name in a manifest may equal one that is derived from a certain Stack's name; the same is true of a namespace.
    """
    found = set(namings)
    named, placed = {each[:2] for each in found if each.has_name}, {each[:2] for each in found if each.has_namespace}
    if any(each[:2] in named and not each.has_name for each in found):
        return SharingScope.ONE
    if any(each[:2] in placed and not each.has_namespace for each in found):
        return SharingScope.NAMESPACE
    return SharingScope.ANY
