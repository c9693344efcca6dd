"""Restores volumes from a StackSnapshot by setting `spec.dataSource` of PersistentVolumeClaims.

A claim's data source is used only when the claim is created, and the API server rejects later changes. An existing
claim therefore keeps its data source even if the manifest no longer sets it, and a restore replaces the claim. Claims
in the template are replaced through the blueprint, and claims of StatefulSets one by one.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Set
from typing import Any

from hearth.model import members, names
from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.template.blueprint import Blueprint, Replacement, ResourceBlueprint, RestoredVolume
from hearth.template.text import quantity

SNAPSHOT_GROUP = "snapshot.storage.k8s.io"
STATED = ("dataSource", "dataSourceRef")
"""The fields of a spec that select its content."""


def is_claim(kind: Kind) -> bool:
    """Return whether objects of this kind are PersistentVolumeClaims."""
    return kind.name == "PersistentVolumeClaim" and not kind.group


def find_data_source(child: Child) -> Mapping[str, Any] | None:
    """Return the content that the existing claim was created with; None for another object, or without content."""
    if not is_claim(child.kind):
        return None
    spec = child.fields.get("spec")
    found = spec.get("dataSource") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else None


def keep_data_source(manifest: Object, found: Mapping[str, Any]) -> Object:
    """Return the manifest of an existing claim with its present content, unless the manifest sets one."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict) or any(key in spec for key in STATED):
        return manifest
    return {**manifest, "spec": {**spec, "dataSource": dict(found)}}


def keep_content(manifest: Object, child: Child) -> Object:
    """Return the manifest of an existing object; a claim's manifest includes its present content."""
    found = find_data_source(child)
    return keep_data_source(manifest, found) if found is not None else manifest


def restore_content(manifest: Object, volume: RestoredVolume) -> Object:
    """Return the manifest of a claim that gets its content from a VolumeSnapshot."""
    metadata = manifest.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), names.ANNOTATION_RESTORED: volume.token}
    source = {"apiGroup": SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": volume.snapshot}
    spec = {key: value for key, value in (manifest.get("spec") or {}).items() if key not in STATED}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, "dataSource": source}}


# The blueprint of a snapshot's revision, with the data source of each claim. A claim from before this restore is
# replaced, because the annotation with the restore is a `replaceOn` field. All resources that the claims do not require
# wait until the claims are ready, so no workload starts with old data.

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
    """Return the blueprint where each claim gets the content of its VolumeSnapshot."""
    own = (each for each in request.claims if not each.claim)
    claims = {claim.resource: claim for claim in own if claim.resource in blueprint.resources}
    first = find_required(blueprint, claims)
    index = order_names(blueprint, first)
    waiting = [name for name in blueprint.resources if name not in first]
    resources: dict[str, ResourceBlueprint] = {}
    for name in sorted(blueprint.resources, key=index.__getitem__):
        resource = dataclasses.replace(blueprint.resources[name], index=index[name])
        if name not in first:
            resource = dataclasses.replace(resource, after=tuple(claims), content=object())
        elif name in claims:
            resource = restore_claim(resource, claims[name], request=request, waiting=waiting)
        resources[name] = resource
    collections = {
        name: dataclasses.replace(each, index=index[members.name_all(name)])
        for name, each in blueprint.collections.items()
    }
    return dataclasses.replace(blueprint, resources=resources, collections=collections)


def order_names(blueprint: Blueprint, first: Set[str]) -> dict[str, int]:
    """Return the positions of resources and whole collections: the names in `first` before all others."""
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
        content=object(),
        restored=RestoredVolume(token=request.token, snapshot=claim.snapshot),
        # The user requested the replacement, so the protection of data does not apply.
        replacement=Replacement.DELETE_FIRST if resource.is_name_pinned else Replacement.CREATE_FIRST,
        replace_on=(RESTORED, *resource.replace_on),
        dependents=tuple(dict.fromkeys((*resource.dependents, *waiting))),
    )


def find_required(blueprint: Blueprint, claims: Mapping[str, RestoredClaim]) -> set[str]:
    """Return the claims and everything that they require, directly or indirectly: resources, and whole collections."""
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


# Replacement of one claim of a StatefulSet: it is deleted and created again under the same name, with the data. A
# StatefulSet finds its claims by name, so they cannot be resources of the template. They are replaced while all
# workloads are suspended, and each step is decided only from the live claim.


class ClaimStep(enum.Enum):
    """What to do about one claim now."""

    DELETE = "delete"
    WAIT = "wait"
    """It is being deleted."""
    CREATE = "create"
    DONE = "done"


def find_claim_step(claim: RestoredClaim, request: RollbackRequest, live: Mapping[str, Any] | None) -> ClaimStep:
    """Decide on a claim. live: the object of its name; None if it does not exist."""
    if live is None:
        return ClaimStep.CREATE
    metadata = live["metadata"]
    if "deletionTimestamp" in metadata:
        return ClaimStep.WAIT
    token = (metadata.get("annotations") or {}).get(names.ANNOTATION_RESTORED)
    source = (live.get("spec") or {}).get("dataSource") or {}
    is_restored = token == request.token and source.get("name") == claim.snapshot
    return ClaimStep.DONE if is_restored else ClaimStep.DELETE


def explain_foreign_claim(live: Mapping[str, Any], stateful_set: Mapping[str, Any]) -> str:
    """Return why a live claim was not created by the StatefulSet; "" if it was.

    Its controller gives each claim the labels of the selector, and no owner other than the set or one of its Pods. A
    name proves nothing: any claim of the namespace may have it.
    """
    metadata, of_set = live["metadata"], stateful_set["metadata"]
    labels = metadata.get("labels") or {}
    if names.LABEL_STACK_UID in labels:
        return f"belongs to Stack {labels.get(names.LABEL_STACK) or labels[names.LABEL_STACK_UID]}"
    stem = f"{of_set['name']}-"
    for owner in metadata.get("ownerReferences") or ():
        name = str(owner.get("name"))
        is_set = owner.get("kind") == "StatefulSet" and owner.get("uid") == of_set.get("uid")
        is_pod = owner.get("kind") == "Pod" and name.startswith(stem) and name.removeprefix(stem).isdigit()
        if not is_set and not is_pod:
            return f"belongs to {str(owner.get('kind')).lower()}/{name}"
    wanted = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return f"does not have the labels of the selector of statefulset/{of_set['name']}"
    return ""


def find_claim_template(stateful_set: Mapping[str, Any], claim: str) -> Mapping[str, Any] | None:
    """Return the template that a claim of the StatefulSet was made from; None if it is not one of its claims."""
    for template in (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or ():
        stem, _, ordinal = claim.rpartition("-")
        if stem == f"{template['metadata']['name']}-{stateful_set['metadata']['name']}" and ordinal.isdigit():
            found: Mapping[str, Any] = template
            return found
    return None


def make_claim(
    claim: RestoredClaim,
    request: RollbackRequest,
    *,
    stateful_set: Mapping[str, Any],
    template: Mapping[str, Any],
    least: str,
) -> Object:
    """Make the claim as the StatefulSet would, with its data. least: the size that the VolumeSnapshot needs, "" if unknown."""
    metadata, selector = template["metadata"], stateful_set["spec"].get("selector") or {}
    manifest: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim.claim,
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**(metadata.get("labels") or {}), **(selector.get("matchLabels") or {})},
            "annotations": dict(metadata.get("annotations") or {}),
        },
        "spec": enlarge_spec(template.get("spec") or {}, least),
    }
    return restore_content(manifest, RestoredVolume(token=request.token, snapshot=claim.snapshot))


def enlarge_spec(spec: Mapping[str, Any], least: str) -> Object:
    """Return the spec of a claim that requests at least that size: the claim may have been enlarged after its creation."""
    resources = spec.get("resources") or {}
    requests = resources.get("requests") or {}
    size = str(requests.get("storage") or "")
    if not quantity.is_quantity(least) or (quantity.is_quantity(size) and quantity.compare(size, least) >= 0):
        return dict(spec)
    return {**spec, "resources": {**resources, "requests": {**requests, "storage": least}}}
