"""Sets of the field paths that a cache stores, and what they cover.

Pure; must not know which component requests the fields.
"""

from __future__ import annotations

from collections.abc import Iterable

from hearth.model import child_fields
from hearth.model.child import Path

ALWAYS_KEPT = frozenset(
    {("apiVersion",), ("kind",), *(("metadata", key) for key in child_fields.METADATA_KEPT)},
)


def is_covered(path: Path, *, by: frozenset[Path]) -> bool:
    """Return whether storing everything below the paths of `by` includes everything below `path`."""
    prefixes = (path[:length] for length in range(1, len(path) + 1))
    return any(prefix in by or prefix in ALWAYS_KEPT for prefix in prefixes)


def missing(paths: Iterable[Path], *, held: frozenset[Path]) -> frozenset[Path]:
    """Return those of `paths` that `held` does not cover."""
    return frozenset(path for path in paths if not is_covered(path, by=held))


def union(held: frozenset[Path], wanted: Iterable[Path]) -> frozenset[Path]:
    """Return the union of both sets, without paths below another path of the union."""
    both = held.union(wanted)
    return frozenset(path for path in both if not is_covered(path, by=both - {path}))


def is_metadata(paths: Iterable[Path]) -> bool:
    """Return whether metadata alone contains all of `paths`."""
    return all(path[0] == "metadata" for path in paths)
