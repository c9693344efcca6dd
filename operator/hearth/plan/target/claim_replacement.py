"""Replacement of one claim of a StatefulSet in a restore: deleted, then created under its name with its data. Pure.

A StatefulSet finds its claims by their names, so they cannot be resources of the template. They are replaced while all
workloads are suspended, each step decided from the live claim alone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from hearth.plan.target import claim_content
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.template.blueprint import RestoredVolume
from hearth.template.cel import quantity


class ClaimStep(enum.Enum):
    """What to do about one claim now."""

    DELETE = "delete"
    WAIT = "wait"
    """It is being deleted."""
    CREATE = "create"
    DONE = "done"


def decide(claim: RestoredClaim, request: RollbackRequest, live: Mapping[str, Any] | None) -> ClaimStep:
    """Decide on a claim. live: the object of its name; None if there is none."""
    if live is None:
        return ClaimStep.CREATE
    metadata = live["metadata"]
    if "deletionTimestamp" in metadata:
        return ClaimStep.WAIT
    token = (metadata.get("annotations") or {}).get(names.ANNOTATION_RESTORED)
    source = (live.get("spec") or {}).get("dataSource") or {}
    is_restored = token == request.token and source.get("name") == claim.snapshot
    return ClaimStep.DONE if is_restored else ClaimStep.DELETE


def find_foreign(live: Mapping[str, Any], stateful_set: Mapping[str, Any]) -> str:
    """Return why a live claim is not one that the StatefulSet made; "" if it is.

    Its controller gives each claim the labels of the selector, and no owner besides itself or one of its Pods. A name
    alone proves nothing: any claim of the namespace may have it.
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


def find_template(stateful_set: Mapping[str, Any], claim: str) -> Mapping[str, Any] | None:
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
        "spec": enlarge(template.get("spec") or {}, least),
    }
    return claim_content.restore(manifest, RestoredVolume(token=request.token, snapshot=claim.snapshot))


def enlarge(spec: Mapping[str, Any], least: str) -> Object:
    """Return the spec of a claim that requests at least that size: the claim may have been enlarged after its creation."""
    resources = spec.get("resources") or {}
    requests = resources.get("requests") or {}
    size = str(requests.get("storage") or "")
    if not quantity.is_quantity(least) or (quantity.is_quantity(size) and quantity.compare(size, least) >= 0):
        return dict(spec)
    return {**spec, "resources": {**resources, "requests": {**requests, "storage": least}}}
