"""Comparison of two blueprints: whether a planner of the one may continue with the other."""

from __future__ import annotations

import dataclasses
import itertools
import operator

from hearth.model import members, value_class
from hearth.plan.environment.environment_rules import EnvironmentRules
from hearth.template.blueprint import Blueprint, ResourceBlueprint


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintUpdate:
    """What differs between two blueprints."""

    changed: tuple[str, ...] = ()
    """The resources whose manifests changed."""
    added: tuple[str, ...] = ()
    """New members of collections."""
    removed: tuple[str, ...] = ()

    @property
    def outdated(self) -> tuple[str, ...]:
        """Return the resources whose present statuses no longer count."""
        return (*self.changed, *self.removed)

    @property
    def names(self) -> tuple[str, ...]:
        """Return all resources that must be planned again."""
        return (*self.changed, *self.added, *self.removed)


def find_update(known: Blueprint, new: Blueprint, *, rules: EnvironmentRules) -> BlueprintUpdate | None:
    """Return what differs if these are only manifests and members; None if a new planner must plan everything.

    rules: those in force, which may name members that come or go. A target without changes is confirmed by planning
    everything; if most resources change, a new planner is not slower.
    """
    if new.rolling or known.rolling or not new.is_used_like(known):
        return None
    update = find_changed(known, new) if new.collections == known.collections else find_resized(known, new, rules=rules)
    return update if update is not None and 0 < len(update.names) <= len(known.resources) / 2 else None


def find_changed(known: Blueprint, new: Blueprint) -> BlueprintUpdate | None:
    """Return what differs between blueprints with the same members."""
    if list(new.resources) != list(known.resources):
        return None
    differ = map(operator.is_not, new.resources.values(), known.resources.values())
    changed = tuple(itertools.compress(new.resources, differ))
    is_watched = all(new.resources[name].is_watched_like(known.resources[name]) for name in changed)
    return BlueprintUpdate(changed=changed) if is_watched else None


def find_resized(known: Blueprint, new: Blueprint, *, rules: EnvironmentRules) -> BlueprintUpdate | None:
    """Return what differs between blueprints with other members."""
    added = tuple(name for name in new.resources if name not in known.resources)
    removed = tuple(name for name in known.resources if name not in new.resources)
    resized = [name for name, each in new.collections.items() if each.members != known.collections[name].members]
    if not (rules.is_empty and all(map(members.is_member, (*added, *removed)))):
        return None
    if not all(is_free(known, new, name) for name in resized):
        return None
    changed: list[str] = []
    for name, resource in new.resources.items():
        before = known.resources.get(name)
        if before is None or before is resource:
            continue
        # Other members give it another place, which concerns no status.
        moved = dataclasses.replace(resource, index=before.index, dependents=before.dependents)
        if moved == before:
            continue
        if not moved.is_watched_like(before):
            return None
        changed.append(name)
    is_watched = all(is_known_kind(known, new.resources[name]) for name in added)
    return BlueprintUpdate(changed=tuple(changed), added=added, removed=removed) if is_watched else None


def is_free(known: Blueprint, new: Blueprint, name: str) -> bool:
    """Return whether no status but those of its members depends on which members a collection has."""
    return not (known.collections[name].dependents or new.collections[name].dependents)


def is_known_kind(known: Blueprint, member: ResourceBlueprint) -> bool:
    """Return whether objects like that of a new member are watched for others of its collection."""
    collection = known.collections.get(members.root_of(member.name))
    if collection is None or not collection.members:
        return False
    other = known.resources[collection.members[0]]
    mine, theirs = (
        (each.api_version, each.kind, each.replace_on, each.ready_when == (), each.failed_when == ())
        for each in (member, other)
    )
    return mine == theirs
