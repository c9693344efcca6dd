"""Replacement of a StatefulSet under the same name: new claim sizes, and obstacles to the replacement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from hearth.model import value_class
from hearth.model.child import Child, Object
from hearth.plan.resource import data_kinds
from hearth.plan.state.desired import DesiredResource
from hearth.plan.target.target import DetachedSet
from hearth.template.text import quantity

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSize:
    """Present and desired size of the claims of one template."""

    template: str
    present: str
    """Storage requests in the template of the live StatefulSet."""
    wanted: str = field()

    @property
    def is_smaller(self) -> bool:
        """Return whether the template gets smaller."""
        return quantity.compare(self.wanted, self.present) < 0


def find_sizes(live: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[ClaimSize]:
    """Return the claim templates whose size differs between the live StatefulSet and the manifest."""
    present, wanted = (_list_sizes(each) for each in (live, manifest))
    return [
        ClaimSize(template=name, present=present[name], wanted=size)
        for name, size in wanted.items()
        if name in present and quantity.compare(size, present[name]) != 0
    ]


def _list_sizes(stateful_set: Mapping[str, Any]) -> dict[str, str]:
    """Return the requested sizes by the names of the templates."""
    templates = (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or ()
    sizes = {str((each.get("metadata") or {}).get("name")): read_size(each) for each in templates}
    return {name: size for name, size in sizes.items() if size}


def read_size(claim: Mapping[str, Any]) -> str:
    """Return the size that a claim, or a template of claims, requests, or "" if that is not a quantity."""
    size = (((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")
    return str(size) if quantity.is_quantity(str(size)) else ""


def is_below(claim: Mapping[str, Any], size: str) -> bool:
    """Return whether a claim requests less than that size."""
    present = read_size(claim)
    return not present or quantity.compare(present, size) < 0


def make_resize(claim: Mapping[str, Any], size: str) -> Object:
    """Return the merge patch that gives exactly this claim another size."""
    metadata = {key: claim["metadata"][key] for key in ("uid", "resourceVersion")}
    return {"metadata": metadata, "spec": {"resources": {"requests": {"storage": size}}}}


def find_kept_pods(manifest: Mapping[str, Any]) -> str:
    """Return why the controller would not restart all Pods of the StatefulSet for a new Pod template, or "" if it would."""
    strategy = (manifest.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return "spec.updateStrategy.type: OnDelete leaves the restart of its Pods to you"
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    return (
        f"spec.updateStrategy.rollingUpdate.partition keeps the Pods below {partition} as they are" if partition else ""
    )


def is_selector_changed(live: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Return whether the next StatefulSet would not find the Pods of the live one."""
    present, wanted = ((each.get("spec") or {}).get("selector") or {} for each in (live, manifest))
    return any((present.get(key) or None) != (wanted.get(key) or None) for key in ("matchLabels", "matchExpressions"))


def is_followed_by(detached: DetachedSet, desired: DesiredResource) -> bool:
    """Return whether the wanted object takes over the Pods and claims of a deleted StatefulSet."""
    if (desired.kind.key, desired.namespace) != (data_kinds.STATEFUL_SET, detached.namespace):
        return False
    return any(ref.name == detached.name for ref in desired.refs_at(detached.incarnation))


def find_next(detached: DetachedSet, children: Iterable[Child]) -> Child | None:
    """Return the StatefulSet that took the place of the deleted one; None before it exists."""
    place = (data_kinds.STATEFUL_SET, detached.namespace, detached.name)
    found = (child for child in children if (child.kind.key, child.namespace, child.name) == place)
    return next((child for child in found if child.uid != detached.uid and not child.deleting), None)


def is_left_pod(pod: Mapping[str, Any], name: str) -> bool:
    """Return whether a Pod has that name, has no controller, and was left behind by a deleted StatefulSet."""
    metadata = pod["metadata"]
    is_of_set = (metadata.get("labels") or {}).get(POD_NAME_LABEL) == name
    return is_of_set and not any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
