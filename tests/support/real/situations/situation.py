"""Situations where a Stack has a problem, each on a real API server, and the expected explanations.

The control plane has no node, so tests write statuses of Pods (image pulls, crashes, probes) as a kubelet would; the
real server and its controllers create everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
CONFIG: Object = {"apiVersion": "v1", "kind": "ConfigMap"}
WAITING: Object = {"metadata": {"finalizers": ["example.org/hold"]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One Stack in trouble. `NS` in any text is replaced by the namespace."""

    name: str
    resources: Mapping[str, Any]
    spec: Mapping[str, Any] = field(default_factory=dict)
    before: Sequence[Object] = ()
    """Objects that exist before the Stack."""
    pod: Object | None = None
    """The status that the Pods of the Stack get, in the form that a kubelet writes."""
    event: tuple[str, str] | None = None
    """Reason and message of a Warning about these pods."""
    progress: tuple[str, str] | None = None
    """Reason and message of a Normal Event about these Pods, posted before the Warning."""
    then: Sequence[tuple[str, str, Object | None]] = ()
    """Kind, name and merge patch of each change after the Stack is settled; None for a deletion."""
    where: str = ""
    """The resource to explain; "" for the Stack."""
    expected: Sequence[str]
    """Texts that the explanation contains."""
    edit: str = ""
    """The user's change in `kubectl edit` that ends the situation, as a `sed` script."""
    remains: str = ""
    """Why a suggested command that makes a change does not end the situation; "" if it does."""


def container(**extra: Any) -> Object:
    return {"name": "app", "image": "web:1", "resources": {"requests": {"cpu": "1m"}}} | extra


def pods(labels: Mapping[str, str], **spec: Any) -> Object:
    return {
        "metadata": {"labels": {"app": "web", **labels}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container()], **spec},
    }


def deployment(*, held: bool = True, **spec: Any) -> Object:
    labels = {"test.hearth.dev/pod": "never-ready"} if held else {}
    template = pods(labels, **spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def resource(manifest: Object, **rules: Any) -> Object:
    return {"manifest": manifest, **rules}


def config(**fields: Any) -> Object:
    return CONFIG | fields


def held(**state: Any) -> Object:
    """The status of a pod whose container is in that state."""
    status = {"name": "app", "image": "web:1", "imageID": "", "ready": False, "restartCount": 0, **state}
    # The control plane's simulated stages start Pods that are Pending.
    return {"phase": "Running", "containerStatuses": [status]}


def unready(reason: str = "ContainersNotReady") -> list[Object]:
    return [{"type": "Ready", "status": "False", "reason": reason, "message": "containers with unready status: [app]"}]


def nested(**resources: Any) -> Object:
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "spec": {"template": {"resources": resources}},
    }


def quota(name: str, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}
