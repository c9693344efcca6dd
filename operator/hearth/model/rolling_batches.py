"""Arithmetic of rolling updates: how many members change at once, and how far a group grows meanwhile. Numbers only."""

from __future__ import annotations

from collections.abc import Iterator


def find_batch_size(stated: int | str, *, members: int) -> int:
    """Return how many members may change at once, at least 1. stated: a number, or a percentage of all, rounded down."""
    if isinstance(stated, str):
        return max(1, int(stated.removesuffix("%")) * members // 100)
    return max(1, stated)


def find_surge(size: int, *, batch: int, in_service: int) -> int:
    """Return the number of members to add to a group during an update, so that enough members stay in service.

    Zero if a whole batch may be out of service. in_service: the minimum, limited to the size of the group.
    """
    return max(0, min(batch, size) + min(in_service, size) - size)


def describe_low_size(in_service: int, *, size: int) -> str:
    """Return the warning that a group was scaled below its minimum."""
    return (
        f"spec.rollingUpdate.minInService: is {in_service}, but the group was scaled to {size} members, so {size} counts; "
        f"lower it, or raise spec.replicas"
    )


def find_next(*, batch: int, available: int, in_service: int) -> int:
    """Return how many members may be taken out of service together. available: the members in service now."""
    return max(0, min(batch, available - in_service))


def plan_batches(size: int, *, outdated: int, batch: int, in_service: int) -> Iterator[int]:
    """Yield the sizes of the successive batches if every change succeeds; they add up to `outdated`.

    size: of the group, with all members in service. It grows by `find_surge` during the update.
    """
    in_service = min(in_service, size)
    available = size + find_surge(size, batch=batch, in_service=in_service)
    while outdated > 0:
        changed = min(outdated, find_next(batch=batch, available=available, in_service=in_service))
        yield changed
        outdated -= changed
