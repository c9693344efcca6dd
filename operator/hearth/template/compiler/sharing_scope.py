"""For which Stacks what is compiled holds, besides the one that it was compiled for.

Looks only at what of a Stack's identity went into it; that template and values are the same, whoever shares it must know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hearth.template.blueprint import SharingScope
from hearth.template.cel.expressions import Parsed

ROOT = "stack"
"""What expressions call the Stack."""


class ObjectNaming(NamedTuple):
    """How a resource's object comes by its name."""

    group: str
    kind: str
    has_name: bool
    """Whether its manifest states one; else it is made of the Stack's."""
    has_namespace: bool
    """The same of the namespace."""


def of_expression(parsed: Parsed) -> SharingScope:
    """For which Stacks an expression means the same."""
    if ROOT not in parsed.roots:
        return SharingScope.ANY
    paths = (read.path for read in parsed.reading.reads if read.root == ROOT)
    return SharingScope.NAMESPACE if all(path[:1] == ("namespace",) for path in paths) else SharingScope.ONE


def of_names(namings: Iterable[ObjectNaming]) -> SharingScope:
    """For which Stacks it is the same resources, if any, that name one object.

    A name that is stated may be one that is made of a certain Stack's; and so may a namespace.
    """
    found = set(namings)
    named, placed = {each[:2] for each in found if each.has_name}, {each[:2] for each in found if each.has_namespace}
    if any(each[:2] in named and not each.has_name for each in found):
        return SharingScope.ONE
    if any(each[:2] in placed and not each.has_namespace for each in found):
        return SharingScope.NAMESPACE
    return SharingScope.ANY
