"""Resources of a new blueprint that are the same as in the previous one: both then contain the same object.

Planning finds by identity what a change of the definition concerns, however many resources it has.
"""

from __future__ import annotations

import dataclasses

from hearth.template.blueprint import Blueprint
from hearth.template.chunked_work import MARKS_IN_A_PIECE, ChunkedWork


def share(made: Blueprint, previous: Blueprint) -> ChunkedWork[Blueprint]:
    """Return the blueprint with the objects of `previous` for all resources that did not change."""
    resources = dict(made.resources)
    for number, (name, resource) in enumerate(made.resources.items()):
        if number % MARKS_IN_A_PIECE == 0:
            yield
        known = previous.resources.get(name)
        if known is not None and known is not resource and known == resource:
            resources[name] = known
    origin = made.compiled_from
    if origin is not None:
        origin = dataclasses.replace(origin, resources=resources)
    return dataclasses.replace(made, resources=resources, compiled_from=origin)
