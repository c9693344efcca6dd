"""Kinds that create Pods, and manifests whose old and new Pods must not run at the same time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.model import names

POD_OWNERS: Final = frozenset(
    {
        "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "ReplicationController",
        "Job.batch", "CronJob.batch", "Rollout.argoproj.io",
    }
)  # fmt: skip
"""By `Kind.key`. Their controllers create no Pods for an object that is being deleted, so its deletion can wait for its
Pods. Controllers of other kinds might recreate the Pods, and the deletion would never end."""
POD_KINDS: Final = POD_OWNERS | {"Pod"}
"""Kinds whose objects, when deleted by the operator, exist until their Pods are deleted."""

OWN_CLAIM: Final = re.compile(r"\$\{(?!params\b)")
"""In the name of a claim in a nested Stack: an expression that reads a resource of that Stack."""


def find_stop_reason(manifest: Mapping[str, Any]) -> str:
    """Explain, as a clause, why old Pods must terminate before new Pods start. Empty if both can run at the same time.

    A claim counts at any depth: the Pods may belong to a custom kind or to a nested Stack. Claims that a nested Stack
    creates itself do not count, because the next nested Stack has its own.
    """
    is_nested = names.is_stack(str(manifest.get("apiVersion")).partition("/")[0], manifest.get("kind"))
    claims = (name for name in find_claims(manifest) if not (is_nested and OWN_CLAIM.search(name)))
    claim = next(claims, None)
    if claim is not None:
        is_literal = claim and "${" not in claim
        return f"it mounts claim {claim}" if is_literal else "it mounts a claim"
    spec = manifest.get("spec")
    strategy = spec.get("strategy") if isinstance(spec, dict) else None
    is_recreated = isinstance(strategy, dict) and strategy.get("type") == "Recreate"
    return "its strategy is Recreate" if is_recreated else ""


def find_pod_labels(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a workload's Pods. Empty for objects that create no Pods."""
    spec = manifest.get("spec")
    template = manifest if manifest.get("kind") == "Pod" else spec.get("template") if isinstance(spec, dict) else None
    metadata = template.get("metadata") if isinstance(template, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}


def find_claims(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Find the names of the claims that volumes mount. Yields an empty string for a name that is not known yet."""
    values: list[Any] = [manifest]
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += reversed(value)
        elif isinstance(value, dict):
            volume = value.get("persistentVolumeClaim")
            if isinstance(volume, dict) and "claimName" in volume:
                name = volume["claimName"]
                yield name if isinstance(name, str) else ""
            values += reversed(value.values())
