"""Why an object whose deletion was requested is still there: finalizers, users, and what it reports itself. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from hearth.cli import object_fields
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import advice
from hearth.cli.stack_views.causes.cause import Cause, Evidence
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.model import names
from hearth.plan.health import deletion_reports

SHOWN_AT_MOST: Final = 3
"""Objects that hold up one deletion and are explained: others have the same cause in most cases."""
CLAIM: Final = "PersistentVolumeClaim"
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
KEPT: Final = re.compile(
    r"(kubernetes|foregroundDeletion|orphan|[a-z0-9.-]*\.k8s\.io|[a-z0-9.-]*\.kubernetes\.io|kubernetes\.io|hearth\.dev)(/.*)?"
)
"""Finalizers that Kubernetes or Hearth removes by itself once its reason is gone. Removed by hand, they lose something."""
RESOURCES_LEFT: Final = re.compile(r"([a-z0-9-]{1,253})\.([a-z0-9.-]{0,253}) has [0-9]+ resource")
GROUPS_AWAY: Final = re.compile(r"\b([a-z0-9-]+(?:\.[a-z0-9-]+)+)/(v[a-z0-9]{1,60}): ")


def explain(child: FoundChild, evidence: Evidence) -> Cause:
    """Return what holds up the deletion of an object."""
    held = safe_text.one_line(", ".join(child.finalizers))
    foreign = [each for each in child.finalizers if not KEPT.fullmatch(each)]
    below = tuple(find_holders(child, evidence))
    parts = ["is being deleted"]
    if foreign:
        parts[0] += f", held by the finalizers {held}: their controllers must remove them"
        parts.append("if these are gone for good, remove the finalizers yourself")
    elif held:
        parts[0] += f", held by the finalizers {held}"
    since = object_fields.text(child.raw, "metadata", "deletionTimestamp")
    return Cause(
        subject=str(child), message="; ".join(parts), since=since, command=find_command(child, foreign), causes=below
    )


def find_command(child: FoundChild, foreign: list[str]) -> str:
    """Return the command that ends the wait; "" if there is none for this object."""
    if names.is_stack(child.kind.group, child.kind.name):
        argument = f"rg/{child.name}" if child.is_group else child.name
        return advice.join("kubectl stack why", argument, *child.scope)
    if not foreign:
        return ""
    kept = [each for each in child.finalizers if each not in foreign]
    patch = json.dumps({"metadata": {"finalizers": kept or None}}, separators=(",", ":"))
    return advice.join("kubectl patch", child.type, child.name, *child.scope, "--type=merge", "-p", patch)


def find_holders(child: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield the other objects that hold it."""
    if child.kind.key == deletion_reports.NAMESPACE:
        held = [each for each in evidence.remaining if each.namespace == child.name and each.finalizers]
        yield from (explain(each, evidence) for each in held[:SHOWN_AT_MOST])
        yield from explain_groups(child)
    if child.kind.key == CLAIM and CLAIM_PROTECTION in child.finalizers:
        users = (
            pod for pod in evidence.claim_users if pod.namespace == child.namespace and child.name in claims_of(pod)
        )
        yield from (explain_user(pod) for pod in list(users)[:SHOWN_AT_MOST])
    if child.kind.key == "PersistentVolume" and VOLUME_PROTECTION in child.finalizers:
        claim = object_fields.mapping(child.raw, "spec", "claimRef")
        if named := object_fields.text(claim, "name"):
            where = f"persistentvolumeclaim/{named} in {object_fields.text(claim, 'namespace')}"
            yield Cause(subject=safe_text.one_line(where), message="is bound to it: the volume goes after the claim")


def explain_groups(namespace: FoundChild) -> Iterator[Cause]:
    """Yield the APIs that do not answer, so that it is not known whether the Namespace still has objects of them."""
    messages = deletion_reports.find_messages(namespace.kind.key, namespace.raw)
    failure = messages.get("NamespaceDeletionDiscoveryFailure", "")
    for group, version in dict.fromkeys(GROUPS_AWAY.findall(failure)):
        name = f"{version}.{group}"
        yield Cause(
            subject=f"apiservice.apiregistration.k8s.io/{name}",
            message="does not answer: start the server behind it, or delete the APIService if it is gone for good",
            command=advice.join("kubectl delete apiservice", name),
        )


def explain_user(pod: FoundChild) -> Cause:
    """Return that a pod uses a claim. Of a pod with a controller, another one would follow."""
    owner = next(
        (each for each in object_fields.entries(pod.raw, "metadata", "ownerReferences") if each.get("controller")), None
    )
    if owner is None:
        command = advice.join("kubectl delete pod", pod.name, "-n", pod.namespace)
        return Cause(subject=str(pod), message="uses it: the claim goes after the pod", command=command)
    named = f"{object_fields.text(owner, 'kind').lower()}/{object_fields.text(owner, 'name')}"
    return Cause(subject=str(pod), message=safe_text.one_line(f"uses it, and belongs to {named}"))


def claims_of(pod: FoundChild) -> list[str]:
    """Return the names of the claims that a pod uses."""
    found = []
    for volume in object_fields.entries(pod.raw, "spec", "volumes"):
        if name := object_fields.text(volume, "persistentVolumeClaim", "claimName"):
            found.append(name)
        elif object_fields.mapping(volume, "ephemeral"):
            found.append(f"{pod.name}-{object_fields.text(volume, 'name')}")
    return found


def find_remaining(namespace: FoundChild) -> list[tuple[str, str]]:
    """Return plural and group of the kinds of which a Namespace still has objects."""
    messages = deletion_reports.find_messages(namespace.kind.key, namespace.raw)
    return list(dict.fromkeys(RESOURCES_LEFT.findall(messages.get(deletion_reports.REMAINING, ""))))
