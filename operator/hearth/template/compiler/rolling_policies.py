"""The rolling updates of a template's collections, with the numbers that follow from their members.

Collects mistakes in the PartialEvaluator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hearth.model import rolling_batches
from hearth.template.blueprint import RollingPolicy
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.compiler.resource_binding import BoundResource
from hearth.template.parser.rolling_policy import RollingSource
from hearth.template.parser.template_parser import ResourceSource


def make_all(
    present: Mapping[str, Sequence[BoundResource]], evaluator: PartialEvaluator, *, surge: int
) -> dict[str, RollingPolicy]:
    """Return the policies by collection, of those that state one. surge: members of a group beyond its size."""
    found: dict[str, RollingPolicy] = {}
    for name, bound in present.items():
        source = bound[0].analyzed.source if bound else None
        if source is not None and source.rolling is not None:
            if source.indices is None and evaluator.part is None:
                refuse_standstill(source.rolling, len(bound), evaluator)
            found[name] = make_one(source, source.rolling, tuple(each.name for each in bound), surge=surge)
    return found


def make_one(
    source: ResourceSource, rolling_source: RollingSource, names: tuple[str, ...], *, surge: int
) -> RollingPolicy:
    """Return the policy of one collection with these members. surge: members of a group beyond its size."""
    if source.indices is not None:
        return make_for_group(source.name, rolling_source, names, surge=surge)
    return make_policy(source.name, rolling_source, names, size=len(names))


def make_policy(
    name: str, source: RollingSource, names: tuple[str, ...], *, size: int, surge: int = 0
) -> RollingPolicy:
    """Return the policy of one collection. size: the number of members that a share refers to."""
    return RollingPolicy(
        collection=name,
        members=names,
        max_batch=rolling_batches.find_batch_size(source.max_batch, members=size),
        min_ready=min(source.min_ready, size),
        min_ready_stated=source.min_ready,
        pause=source.pause,
        surge=surge,
    )


def make_for_group(name: str, source: RollingSource, names: tuple[str, ...], *, surge: int) -> RollingPolicy:
    """Return the policy of a group, which may grow to keep enough members in service."""
    size = len(names) - surge
    batch = rolling_batches.find_batch_size(source.max_batch, members=size)
    needed = rolling_batches.find_surge(size, batch=batch, in_service=source.min_ready)
    return make_policy(name, source, names, size=size, surge=needed)


def refuse_standstill(source: RollingSource, size: int, evaluator: PartialEvaluator) -> None:
    """Record a minimum that leaves no member to change."""
    if is_standstill(source, size):
        message = f"is {source.min_ready}, but there are {size} members, so none could ever change; use a lower number"
        evaluator.note(f"{source.path}.minReady", message)


def is_standstill(source: RollingSource, size: int) -> bool:
    """Return whether a minimum leaves no member to change."""
    return 0 < size <= source.min_ready
