"""Finds the object of Flux or Argo CD that applies a Stack from Git. An edit in the cluster would be reverted."""

from __future__ import annotations

from typing import Final

from hearth.model import object_fields, value_class
from hearth.model.child import Object

FLUX: Final = {
    "kustomize.toolkit.fluxcd.io": "Kustomization",
    "helm.toolkit.fluxcd.io": "HelmRelease",
}
"""The kinds of Flux that apply objects, by their group, which is also the prefix of their labels."""
ARGO_GROUP: Final = "argoproj.io"
ARGO_LABEL: Final = "argocd.argoproj.io/instance"
ARGO_ANNOTATION: Final = "argocd.argoproj.io/tracking-id"
"""The default since Argo CD 3, e.g. `team_apps:hearth.dev/Stack:shop/shop`."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class GitManager:
    """The object that applies a Stack from Git."""

    tool: str
    group: str
    kind: str
    name: str
    namespace: str = ""
    """Empty if the labels do not show it."""


def find_git_manager(raw: Object) -> GitManager | None:
    """Return the object that applies a Stack or instance, or None if its labels and annotations name none."""
    labels = object_fields.mapping(raw, "metadata", "labels")
    for group, kind in FLUX.items():
        if name := object_fields.text(labels, f"{group}/name"):
            namespace = object_fields.text(labels, f"{group}/namespace")
            return GitManager(tool="Flux", group=group, kind=kind, name=name, namespace=namespace)
    tracked = object_fields.text(raw, "metadata", "annotations", ARGO_ANNOTATION).partition(":")[0]
    # The namespace is a prefix unless it is the one of Argo CD.
    namespace, _, name = (tracked or object_fields.text(labels, ARGO_LABEL)).rpartition("_")
    if name:
        return GitManager(tool="Argo CD", group=ARGO_GROUP, kind="Application", name=name, namespace=namespace)
    return None
