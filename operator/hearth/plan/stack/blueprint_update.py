"""Comparison of two blueprints: whether a planner of the one may continue with the other."""

from __future__ import annotations

import operator

from hearth.template.blueprint import Blueprint


def find_changed(known: Blueprint, new: Blueprint) -> list[str] | None:
    """Return the resources whose manifests changed if nothing else did; None if a new planner must plan everything.

    A target without changes is confirmed by planning everything; if most resources change, a new planner is not slower.
    """
    if new.rolling or known.rolling or not new.has_same_structure(known):
        return None
    # Both have the same names in the same order.
    pairs = zip(new.resources, map(operator.is_, new.resources.values(), known.resources.values()), strict=True)
    changed = [name for name, is_same in pairs if not is_same]
    if not 0 < len(changed) <= len(known.resources) / 2:
        return None
    if not all(new.resources[name].is_watched_like(known.resources[name]) for name in changed):
        return None
    return changed
