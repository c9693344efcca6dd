"""Kinds that hold data, and what a replacement does to it. Pure.

A custom kind may hold anything, so nothing is said about it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from hearth.model import kinds, names
from hearth.template.blueprint import Blueprint, Evaluable, Replacement, ResourceBlueprint
from hearth.template.compiler.manifest_template import ManifestTemplate

STATEFUL_SET: Final = "StatefulSet.apps"
LOSSES: Final[Mapping[str, str]] = {
    "PersistentVolumeClaim": "the new claim is empty, and the present one is deleted with its data, unless its volume "
    "has the reclaim policy Retain",
    "PersistentVolume": "the present volume is deleted, and what is bound to it loses its data",
    "Namespace": "everything in the present namespace is deleted with it",
    "CustomResourceDefinition.apiextensions.k8s.io": "all objects of its kind are deleted with the present one",
    f"{names.STACK}.{names.GROUP}": "all objects of the present one are deleted with it, among them its claims",
    f"{names.GROUP_KIND}.{names.GROUP}": "all members of the present one are deleted with it, among them claims",
}
"""By `Kind.group`: what the replacement of an object does to data."""
SET_LOSSES: Final[Mapping[Replacement, str]] = {
    Replacement.CREATE_FIRST: "the new StatefulSet has another name, so its claims are new and empty, and those of the "
    "present one are left, unused",
    Replacement.DELETE_FIRST: "its Pods stop first, claims keep their size, and those with "
    "persistentVolumeClaimRetentionPolicy.whenDeleted: Delete are deleted",
}
"""What the replacement of a StatefulSet with claims does to data."""
KNOWN_GROUPS: Final = frozenset(
    {
        "", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io",
        "scheduling.k8s.io", "node.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io",
        "apiregistration.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "resource.k8s.io",
        "flowcontrol.apiserver.k8s.io", "events.k8s.io",
    }
)  # fmt: skip
"""The API groups of Kubernetes itself."""
WARNINGS_AT_MOST: Final = 20
"""Warnings about one definition: a status lists no more."""


def describe_loss(kind: str, policy: Replacement, *, has_claims: bool) -> str:
    """Return what a replacement does to data, as a clause; "" if it does nothing, or that is unknown.

    kind: `Kind.group`; has_claims: whether a StatefulSet has claims.
    """
    if kind == STATEFUL_SET:
        return SET_LOSSES.get(policy, "") if has_claims else ""
    return "" if policy is Replacement.NEVER else LOSSES.get(kind, "")


def has_claims(manifest: Mapping[str, Any]) -> bool:
    """Return whether a StatefulSet has templates of claims."""
    spec = manifest.get("spec")
    return isinstance(spec, dict) and bool(spec.get("volumeClaimTemplates"))


def find_warnings(blueprint: Blueprint) -> Iterator[str]:
    """Find replacements that the definition allows and that lose data."""
    told: set[str] = set()
    for resource in blueprint.resources.values():
        text = describe_replacement(resource) if is_replaceable(resource) else ""
        # All members of a collection are replaced alike.
        if text and resource.path not in told:
            told.add(resource.path)
            yield text
            if len(told) == WARNINGS_AT_MOST:
                return


def is_replaceable(resource: ResourceBlueprint) -> bool:
    """Return whether the definition itself allows a replacement, so that nothing is looked at for all others."""
    return resource.replacement is not None or bool(resource.replace_on)


def describe_replacement(resource: ResourceBlueprint) -> str:
    """Describe what the replacement that a resource allows does to its data; "" for nothing."""
    if resource.restored is not None:
        # The user asked for this replacement, which brings the data.
        return ""
    group = resource.api_version.rpartition("/")[0]
    kind, policy = kinds.make_key(group, resource.kind), resource.replacement
    word = "replace"
    if policy is None:
        word, policy = "replaceOn", Replacement.CREATE_FIRST
    loss = describe_loss(kind, policy, has_claims=kind == STATEFUL_SET and may_have_claims(resource.manifest))
    if not loss:
        return ""
    advice = "write KeepClaims, or " if kind == STATEFUL_SET else ""
    shown = f"replace: {policy.value}" if word == "replace" else "replaceOn"
    return (
        f"{resource.path}.updatePolicy.{word}: {shown} may lose the data of a {resource.kind}: {loss}; "
        f"{advice}remove it if you do not want that"
    )


def may_have_claims(manifest: Evaluable) -> bool:
    """Return whether a StatefulSet has, or may have, templates of claims, as far as the definition says."""
    known = orjson.loads(manifest.raw)[0] if isinstance(manifest, ManifestTemplate) else None
    return isinstance(known, dict) and has_claims(known)
