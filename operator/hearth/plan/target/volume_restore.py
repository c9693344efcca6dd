"""Restore of the volumes of a snapshot: the blueprint of its revision, in which each claim gets its content.

A claim of another restore, or of none, is replaced, because the annotation with the restore is a `replaceOn` field.
Everything that the claims do not require waits until they are ready, so no workload starts with old data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from hearth.model import members, names
from hearth.model.child import Path
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.template.blueprint import Blueprint, Replacement, ResourceBlueprint, RestoredVolume

RESTORED: Path = ("metadata", "annotations", names.ANNOTATION_RESTORED)


def find_missing(blueprint: Blueprint, request: RollbackRequest) -> list[str]:
    """Return the resources of the snapshot's claims that the revision does not contain as claims."""
    return [
        claim.resource
        for claim in request.claims
        if not claim.claim
        and ((found := blueprint.resources.get(claim.resource)) is None or found.kind != "PersistentVolumeClaim")
    ]


def restore_volumes(blueprint: Blueprint, request: RollbackRequest) -> Blueprint:
    """Return the blueprint in which each claim gets the content of its VolumeSnapshot."""
    own = (each for each in request.claims if not each.claim)
    claims = {claim.resource: claim for claim in own if claim.resource in blueprint.resources}
    first = find_required(blueprint, claims)
    index = order(blueprint, first)
    waiting = [name for name in blueprint.resources if name not in first]
    resources: dict[str, ResourceBlueprint] = {}
    for name in sorted(blueprint.resources, key=index.__getitem__):
        resource = dataclasses.replace(blueprint.resources[name], index=index[name])
        if name not in first:
            resource = dataclasses.replace(resource, after=tuple(claims))
        elif name in claims:
            resource = restore_claim(resource, claims[name], request=request, waiting=waiting)
        resources[name] = resource
    collections = {
        name: dataclasses.replace(each, index=index[members.name_all(name)])
        for name, each in blueprint.collections.items()
    }
    return dataclasses.replace(blueprint, resources=resources, collections=collections)


def order(blueprint: Blueprint, first: Set[str]) -> dict[str, int]:
    """Return the positions of resources, and of collections as a whole: those in `first` before all others."""
    places = {name: each.index for name, each in blueprint.resources.items()}
    places |= {members.name_all(name): each.index for name, each in blueprint.collections.items()}
    found = sorted(places, key=lambda name: (name not in first, places[name]))
    return {name: position for position, name in enumerate(found)}


def restore_claim(
    resource: ResourceBlueprint, claim: RestoredClaim, *, request: RollbackRequest, waiting: list[str]
) -> ResourceBlueprint:
    """Return the claim with its content. waiting: the resources that wait for it."""
    return dataclasses.replace(
        resource,
        restored=RestoredVolume(token=request.token, snapshot=claim.snapshot),
        # The user requested the replacement, so the protection of data does not apply.
        replacement=Replacement.DELETE_FIRST if resource.is_name_pinned else Replacement.CREATE_FIRST,
        replace_on=(RESTORED, *resource.replace_on),
        dependents=tuple(dict.fromkeys((*resource.dependents, *waiting))),
    )


def find_required(blueprint: Blueprint, claims: Mapping[str, RestoredClaim]) -> set[str]:
    """Return the claims and all that they require, directly or indirectly: resources, and collections as a whole."""
    found: set[str] = set()
    left = list(claims)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        if members.is_all(name):
            left.extend(blueprint.collections[members.root_of(name)].members)
        else:
            left.extend(blueprint.resources[name].requires)
    return found
