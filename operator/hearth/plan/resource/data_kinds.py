"""Kinds that hold data, and the effect of a replacement on that data.

Custom kinds are not covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.model import names, workloads
from hearth.template.blueprint import Replacement

STATEFUL_SET: Final = "StatefulSet.apps"
LOSSES: Final[Mapping[str, str]] = {
    "PersistentVolumeClaim": "the new claim is empty, and the present one is deleted with its data, unless its volume "
    "has the reclaim policy Retain",
    "PersistentVolume": "the present volume is deleted, and its claim loses its data",
    "Namespace": "everything in the present namespace is deleted with it",
    "CustomResourceDefinition.apiextensions.k8s.io": "all objects of its kind are deleted with the present one",
    f"{names.STACK}.{names.GROUP}": "all objects of the present one are deleted with it, among them its claims",
    f"{names.GROUP_KIND}.{names.GROUP}": "all members of the present one are deleted with it, among them claims",
}
"""Effect of an object's replacement on its data, by `Kind.group`."""
HOLDING: Final = frozenset({*LOSSES, STATEFUL_SET}) - frozenset(
    {f"{names.STACK}.{names.GROUP}", f"{names.GROUP_KIND}.{names.GROUP}"}
)
"""The kinds whose objects hold data, or contain objects that do, by `Kind.group`. Stacks have steps of their own."""
SET_LOSSES: Final[Mapping[Replacement, str]] = {
    Replacement.CREATE_FIRST: "the new StatefulSet has another name, so its claims are new and empty, and the existing "
    "claims stay unused",
    Replacement.DELETE_FIRST: "its Pods stop first, claims keep their size, and those with "
    "persistentVolumeClaimRetentionPolicy.whenDeleted: Delete are deleted",
}
"""Effect on data when a StatefulSet with claims is replaced."""
KNOWN_GROUPS: Final = frozenset(
    {
        "", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io",
        "scheduling.k8s.io", "node.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io",
        "apiregistration.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "resource.k8s.io",
        "flowcontrol.apiserver.k8s.io", "events.k8s.io",
    }
)  # fmt: skip
"""The API groups of Kubernetes itself."""


def describe_loss(kind: str, replacement: Replacement, *, has_claims: bool) -> str:
    """Return the effect of a replacement on data, as a clause; "" for no effect or an unknown one.

    kind: `Kind.group`; has_claims: whether a StatefulSet has claims.
    """
    if kind == STATEFUL_SET:
        return SET_LOSSES.get(replacement, "") if has_claims else ""
    return "" if replacement is Replacement.NEVER else LOSSES.get(kind, "")


def describe_overlap(replacement: Replacement | None, manifest: Mapping[str, Any]) -> str:
    """Return the effect of running old and new Pods at the same time if that is not allowed, otherwise ""."""
    reason = workloads.find_stop_reason(manifest) if replacement is Replacement.CREATE_FIRST else ""
    return f"old and new Pods run at the same time, although {reason}" if reason else ""


def has_claims(manifest: Mapping[str, Any]) -> bool:
    """Return whether a StatefulSet has claim templates."""
    spec = manifest.get("spec")
    return isinstance(spec, dict) and bool(spec.get("volumeClaimTemplates"))


def may_hold_data(kind: str) -> bool:
    """Return whether a new object of the kind lacks the data of an old one. kind: `Kind.group`."""
    return kind == STATEFUL_SET or kind in LOSSES


def describe_rename(kind: str, *, old: str, new: str) -> str:
    """Return the warning about a removed resource if the template has a new one of the same kind."""
    name = kind.partition(".")[0]
    fate = (
        "leaves its claims behind, unused, until a resource has its name again"
        if kind == STATEFUL_SET
        else "is deleted with its data"
    )
    return (
        f"{new} is a new {name} without the data of {old}, which is no longer in the template and {fate}; "
        f"if this renames {old}, keep its name"
    )
