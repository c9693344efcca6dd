"""What must be watched, and kept of what is seen, for a blueprint to be judged."""

from __future__ import annotations

from hearth.model.child import Path
from hearth.model.kinds import Kind, Kinds
from hearth.plan.health.health_rules import HealthRules
from hearth.template.blueprint import Blueprint

OBSERVED_GENERATION: Path = ("status", "observedGeneration")
"""Tells whether a status that a `readyWhen` reads speaks of the object as it is now."""


def find_watched_fields(blueprint: Blueprint, kinds: Kinds, rules: HealthRules) -> dict[Kind, frozenset[Path]]:
    """By kind that the cluster serves the fields that rules and expressions read."""
    wanted: dict[Kind, frozenset[Path]] = {}
    for resource in blueprint.resources.values():
        kind = kinds.find(resource.api_version, resource.kind)
        if kind is None:
            continue
        reads = blueprint.reads.get(resource.name, frozenset()) | rules.paths(kind) | rules.suspension_paths(kind)
        if resource.ready_when:
            reads |= {OBSERVED_GENERATION}
        reads |= set(resource.replace_on)
        wanted[kind] = wanted.get(kind, frozenset()) | reads
    return wanted
