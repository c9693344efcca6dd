"""Kinds to watch and fields to store so that a blueprint can be planned."""

from __future__ import annotations

from hearth.model import names
from hearth.model.child import Path
from hearth.model.kinds import Kind, Kinds
from hearth.plan.health.health_rules import HealthRules
from hearth.template.blueprint import Blueprint

OBSERVED_GENERATION: Path = ("status", "observedGeneration")
"""Shows whether a status that `readyWhen` reads describes the current generation of the object."""
CONDITIONS: Path = ("status", "conditions")
"""Of nested Stacks: what blocks the deletion of one is reported for its parent too, also while no blueprint wants it."""

CLAIM = ("", "PersistentVolumeClaim")
DATA_SOURCE: Path = ("spec", "dataSource")
"""A claim keeps the content that it was created with, see `hearth.plan.target.claim_content`."""


def find_watched_fields(blueprint: Blueprint, kinds: Kinds, rules: HealthRules) -> dict[Kind, frozenset[Path]]:
    """Return the fields that rules and expressions read, by kind that the cluster serves."""
    wanted: dict[Kind, frozenset[Path]] = {}
    for resource in blueprint.resources.values():
        kind = kinds.find(resource.api_version, resource.kind)
        if kind is None:
            continue
        reads = blueprint.reads.get(resource.own_name, frozenset()) | rules.paths(kind) | rules.suspension_paths(kind)
        if resource.ready_when:
            reads |= {OBSERVED_GENERATION}
        reads |= set(resource.replace_on)
        if (kind.group, kind.name) == CLAIM:
            reads |= {DATA_SOURCE}
        wanted[kind] = wanted.get(kind, frozenset()) | reads
    return wanted


def find_lasting_fields(kind: Kind, rules: HealthRules) -> frozenset[Path]:
    """Return the fields of a kind that are also read of objects which no blueprint contains."""
    is_stack = names.is_stack(kind.group, kind.name)
    return rules.suspension_paths(kind) | ({CONDITIONS} if is_stack else frozenset())
