"""References of a pod's spec to objects that must exist when the pod starts.

Knows pod specs and their places in manifests; must not know which of the objects are imported too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.importer.object_mention import ObjectMention

TEMPLATES: Final = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"), ("template",))
"""The places of a pod template in a manifest: workloads of any kind, CronJob, PodTemplate."""
SOURCES: Final = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("secret", "Secret", "name"))
"""References within a volume, or within a source of a projected volume."""
REFERENCES: Final = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
KEY_REFERENCES: Final = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))


def find_template(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return metadata and spec of the manifest's pods, or None if it has none.

    Accepts any kind with such a structure, because custom kinds may contain pod templates.
    """
    if manifest["kind"] == "Pod":
        return manifest
    for path in TEMPLATES:
        template = object_fields.mapping(manifest, *path)
        if object_fields.entries(template, "spec", "containers"):
            return template
    return None


def find_needs(spec: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield all references of a pod's spec."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    yield ObjectMention(kind="ServiceAccount", name=account)
    yield ObjectMention(group="scheduling.k8s.io", kind="PriorityClass", name=spec.get("priorityClassName"))
    yield ObjectMention(group="node.k8s.io", kind="RuntimeClass", name=spec.get("runtimeClassName"))
    for secret in object_fields.entries(spec, "imagePullSecrets"):
        yield ObjectMention(kind="Secret", name=secret.get("name"))
    for claim in object_fields.entries(spec, "resourceClaims"):
        yield ObjectMention(group="resource.k8s.io", kind="ResourceClaim", name=claim.get("resourceClaimName"))
        template = claim.get("resourceClaimTemplateName")
        yield ObjectMention(group="resource.k8s.io", kind="ResourceClaimTemplate", name=template)
    for volume in object_fields.entries(spec, "volumes"):
        yield from find_volume_needs(volume)
    for key in ("initContainers", "containers"):
        for container in object_fields.entries(spec, key):
            yield from find_container_needs(container)


def find_volume_needs(volume: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the references of one volume."""
    yield ObjectMention(
        kind="PersistentVolumeClaim", name=object_fields.find(volume, "persistentVolumeClaim", "claimName")
    )
    for source in (volume, *object_fields.entries(volume, "projected", "sources")):
        for key, kind, field in SOURCES:
            yield ObjectMention(kind=kind, name=object_fields.find(source, key, field))
    for inner in volume.values():
        # Volumes of a network's storage name the Secret of their account so, each within its own field.
        for key in ("secretRef", "nodePublishSecretRef"):
            yield ObjectMention(kind="Secret", name=object_fields.find(inner, key, "name"))


def find_container_needs(container: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the references of one container's environment."""
    yield from find_named(object_fields.entries(container, "envFrom"), REFERENCES)
    values = [object_fields.mapping(variable, "valueFrom") for variable in object_fields.entries(container, "env")]
    yield from find_named(values, KEY_REFERENCES)


def find_named(entries: Sequence[Mapping[str, Any]], references: Sequence[tuple[str, str]]) -> Iterator[ObjectMention]:
    """Yield the references of the entries under those keys."""
    for entry in entries:
        for key, kind in references:
            yield ObjectMention(kind=kind, name=object_fields.find(entry, key, "name"))
