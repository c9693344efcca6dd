"""What a pod must find when it starts: the objects that a pod's spec names.

Knows the shape of pod specs, wherever a manifest holds one; must not know which of those objects are imported too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli.importer import safe_access
from hearth.cli.importer.safe_access import ObjectMention

TEMPLATES: Final = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"), ("template",))
"""Where a manifest may hold the template of its pods: workloads of any make, CronJob, PodTemplate."""
SOURCES: Final = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("secret", "Secret", "name"))
"""Within a volume, or a source of a projected one."""
REFERENCES: Final = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
KEY_REFERENCES: Final = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))


def find_template(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Metadata and spec of the pods that the manifest stands for, or None where there are none.

    Any kind counts that looks like one: rollouts and the like are custom kinds.
    """
    if manifest["kind"] == "Pod":
        return manifest
    for path in TEMPLATES:
        template = safe_access.mapping(manifest, *path)
        if safe_access.mappings(template, "spec", "containers"):
            return template
    return None


def find_needs(spec: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Everything that a pod's spec names."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    yield ObjectMention(kind="ServiceAccount", name=account)
    yield ObjectMention(group="scheduling.k8s.io", kind="PriorityClass", name=spec.get("priorityClassName"))
    yield ObjectMention(group="node.k8s.io", kind="RuntimeClass", name=spec.get("runtimeClassName"))
    for secret in safe_access.mappings(spec, "imagePullSecrets"):
        yield ObjectMention(kind="Secret", name=secret.get("name"))
    for claim in safe_access.mappings(spec, "resourceClaims"):
        yield ObjectMention(group="resource.k8s.io", kind="ResourceClaim", name=claim.get("resourceClaimName"))
        template = claim.get("resourceClaimTemplateName")
        yield ObjectMention(group="resource.k8s.io", kind="ResourceClaimTemplate", name=template)
    for volume in safe_access.mappings(spec, "volumes"):
        yield from find_volume_needs(volume)
    for key in ("initContainers", "containers"):
        for container in safe_access.mappings(spec, key):
            yield from find_container_needs(container)


def find_volume_needs(volume: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """What one volume is filled from."""
    yield ObjectMention(
        kind="PersistentVolumeClaim", name=safe_access.find(volume, "persistentVolumeClaim", "claimName")
    )
    for source in (volume, *safe_access.mappings(volume, "projected", "sources")):
        for key, kind, field in SOURCES:
            yield ObjectMention(kind=kind, name=safe_access.find(source, key, field))
    for inner in volume.values():
        # Volumes of a network's storage name the Secret of their account so, each within its own field.
        for key in ("secretRef", "nodePublishSecretRef"):
            yield ObjectMention(kind="Secret", name=safe_access.find(inner, key, "name"))


def find_container_needs(container: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """What one container's environment is filled from."""
    yield from find_named(safe_access.mappings(container, "envFrom"), REFERENCES)
    values = [safe_access.mapping(variable, "valueFrom") for variable in safe_access.mappings(container, "env")]
    yield from find_named(values, KEY_REFERENCES)


def find_named(entries: Sequence[Mapping[str, Any]], references: Sequence[tuple[str, str]]) -> Iterator[ObjectMention]:
    """What the entries name under those keys."""
    for entry in entries:
        for key, kind in references:
            yield ObjectMention(kind=kind, name=safe_access.find(entry, key, "name"))
