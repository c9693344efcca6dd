"""Annotations of other tools on imported objects, and the equivalent settings of a Stack.

Annotations that keep an object map to a deletion policy. Annotations that exclude an object from an installation, and
hooks, are recognized. Other known annotations are reported, because Hearth ignores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.model import object_fields

IsMeant: TypeAlias = Callable[[str], bool]
"""Whether a value of an annotation has a certain meaning."""


def split(value: str) -> list[str]:
    """Return the items of a list with commas, without the space around them."""
    return [item.strip() for item in value.split(",") if item.strip()]


def has_item(*wanted: str) -> IsMeant:
    """Return whether one of the items of a list with commas is one of these."""
    return lambda value: not set(wanted).isdisjoint(split(value))


def has_only(*known: str) -> IsMeant:
    """Return whether all items of a list with commas are among these."""
    return lambda value: set(split(value)) <= set(known)


def is_word(wanted: str) -> IsMeant:
    """Return whether the value is this word, in any case and with any space around it."""
    return lambda value: value.strip().lower() == wanted


HELM_HOOK: Final = "helm.sh/hook"
ARGO_HOOK: Final = "argocd.argoproj.io/hook"
SYNC_OPTIONS: Final = "argocd.argoproj.io/sync-options"

KEPT: Final[Mapping[str, IsMeant]] = {
    # Helm, pkg/action/resource_policy.go
    "helm.sh/resource-policy": is_word("keep"),
    # Argo CD, docs/user-guide/sync-options.md; a list, compared in this case
    SYNC_OPTIONS: has_item("Prune=false", "Delete=false"),
    # Flux, docs of Kustomization, "Garbage collection"; a label counts as well
    "kustomize.toolkit.fluxcd.io/prune": is_word("disabled"),
    # kapp, docs "Apply stage"
    "kapp.k14s.io/delete-strategy": is_word("orphan"),
    # cli-utils, pkg/common/common.go: kpt, Config Sync
    "cli-utils.sigs.k8s.io/on-remove": is_word("keep"),
    "client.lifecycle.config.k8s.io/deletion": is_word("detach"),
    # Pulumi has it as an option of a resource; conversions write it as an annotation
    "pulumi.com/retainOnDelete": is_word("true"),
}
"""By key, whether the value keeps the object when the installation is removed."""
LABELS: Final = frozenset({"kustomize.toolkit.fluxcd.io/prune"})
"""Keys that may be labels instead."""

NOT_INSTALLED: Final[Mapping[str, IsMeant]] = {
    # Helm, docs "Chart hooks": hooks that run at other times than installation and upgrade
    HELM_HOOK: has_only("pre-delete", "post-delete", "pre-rollback", "post-rollback", "test", "test-success", "test-failure"),
    # Argo CD, docs/user-guide/resource_hooks.md
    ARGO_HOOK: has_only("Skip", "SyncFail", "PreDelete", "PostDelete"),
    # kustomize and kpt: input of the tool itself
    "config.kubernetes.io/local-config": is_word("true"),
}  # fmt: skip
"""By key, whether the value excludes the object from a normal installation."""

TOOLS: Final = (
    *("helm.sh", "helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io", "argocd.argoproj.io", "kapp.k14s.io"),
    *("pulumi.com", "werf.io", "config.kubernetes.io", "client.lifecycle.config.k8s.io", "cli-utils.sigs.k8s.io"),
)
"""The prefixes of the tools' annotations."""
SILENT: Final = frozenset(
    {
        *("helm.sh/resource-policy", "kustomize.toolkit.fluxcd.io/prune", "kustomize.toolkit.fluxcd.io/checksum"),
        *("argocd.argoproj.io/compare-options", "argocd.argoproj.io/tracking-id", "argocd.argoproj.io/installation-id"),
        *("kapp.k14s.io/identity", "kapp.k14s.io/original", "kapp.k14s.io/original-diff-md5", "kapp.k14s.io/nonce"),
        *("kapp.k14s.io/disable-original", "config.kubernetes.io/path", "config.kubernetes.io/index"),
        *("config.kubernetes.io/origin", HELM_HOOK, ARGO_HOOK),
    }
)
"""Keys that need no message: tools' own records, translated keys, and hooks, which have separate messages."""
FITTING: Final = has_only(
    *("ServerSideApply=true", "SkipDryRunOnMissingResource=true", "CreateNamespace=true", "ApplyOutOfSyncOnly=true"),
    *("RespectIgnoreDifferences=true", "PruneLast=true", "Prune=true", "Prune=false", "Delete=true", "Delete=false"),
)
"""Whether Hearth already does everything that SYNC_OPTIONS ask for."""
COUNTERPARTS: Final[Mapping[str, str]] = {
    "helm.sh/hook-weight": "dependsOn orders resources",
    "argocd.argoproj.io/sync-wave": "dependsOn orders resources",
    "kapp.k14s.io/change-group": "dependsOn orders resources",
    "config.kubernetes.io/depends-on": "dependsOn orders resources",
    "werf.io/weight": "dependsOn orders resources",
    SYNC_OPTIONS: "updatePolicy.replace replaces objects, deletionPolicy keeps them",
    "kustomize.toolkit.fluxcd.io/force": "updatePolicy.replace replaces objects",
    "kapp.k14s.io/update-strategy": "updatePolicy.replace replaces objects",
    "kustomize.toolkit.fluxcd.io/ssa": "driftPolicy and ignoreFields leave fields to other managers",
    "helm.toolkit.fluxcd.io/driftDetection": "driftPolicy and ignoreFields leave fields to other managers",
    "client.lifecycle.config.k8s.io/mutation": "driftPolicy and ignoreFields leave fields to other managers",
}
"""The equivalent in a Stack, by key."""


def find_keeper(document: ManifestDocument) -> str:
    """Return the annotation that requires the object to survive: `helm.sh/resource-policy: keep`; "" without one."""
    labels = (each for each in list_stated(document, "labels") if each[0] in LABELS)
    found = (*list_stated(document, "annotations"), *labels)
    return next((f"{key}: {value.strip()}" for key, value in found if key in KEPT and KEPT[key](value)), "")


def find_exclusion(document: ManifestDocument) -> str:
    """Return the annotation that keeps the object out of every installation; "" without one."""
    for key, value in list_stated(document, "annotations"):
        if key in NOT_INSTALLED and split(value) and NOT_INSTALLED[key](value):
            return f"{key}: {value.strip()}"
    return ""


def find_hook(document: ManifestDocument) -> str:
    """Return the tool whose hook the object is, or "" if it is not a hook."""
    stated = dict(list_stated(document, "annotations"))
    return "Helm" if HELM_HOOK in stated else "Argo CD" if ARGO_HOOK in stated else ""


def find_unheeded(document: ManifestDocument) -> Iterator[tuple[str, str]]:
    """Yield the annotations that request something Hearth does not do, each with the equivalent in a Stack."""
    for key, value in list_stated(document, "annotations"):
        is_tool = key.partition("/")[0] in TOOLS
        is_met = FITTING(value) if key == SYNC_OPTIONS else key in KEPT and KEPT[key](value)
        if is_tool and key not in SILENT and not is_met:
            yield f"{key}: {value.strip()}", COUNTERPARTS.get(key, "")


def list_stated(document: ManifestDocument, word: str) -> Iterator[tuple[str, str]]:
    """Yield the labels or the annotations with text values, which excludes only invalid ones."""
    stated: Mapping[str, Any] = object_fields.mapping(document.metadata, word)
    for key, value in stated.items():
        if isinstance(value, str):
            yield key, value
