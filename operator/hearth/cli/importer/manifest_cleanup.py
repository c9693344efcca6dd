"""Prepares a manifest for a template: removes fields that a server added, and escapes `${`.

Exported manifests contain defaults of the API server and fields of controllers. In a template, the Stack would own
these fields and conflict with the controllers. Manifests written by a person keep their fields.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

from hearth.cli.importer import cluster_scoped_kinds, manifest_references, withheld_values
from hearth.model import kinds, names, object_fields
from hearth.model.child import Object
from hearth.template.parser import template_parser
from hearth.template.text import error_hints, interpolation

ADDED: Final = frozenset({*template_parser.SERVER_FIELDS, "generateName"})
"""Metadata fields that a template cannot have. Server-side apply does not support `generateName`."""
BOOKKEEPING: Final = template_parser.TRACKING_METADATA | {
    names.KUBECTL_LAST_APPLIED,
    withheld_values.ANNOTATION,
}
"""Labels and annotations that Hearth and kubectl use to record their actions; valid for the original object only."""


def clean(manifest: Mapping[str, Any], *, is_cluster_wide: bool = False) -> Object:
    """Return the manifest without fields that a server added, and with every expression escaped.

    is_cluster_wide: whether objects of its kind have no namespace; the API server ignores a namespace in the manifest.
    """
    sent = drop_server_values(manifest) if is_export(manifest) else manifest
    kept = {key: value for key, value in sent.items() if key != "status"}
    is_ours = cluster_scoped_kinds.group_of(kept["apiVersion"]) == names.GROUP
    if isinstance(kept.get("metadata"), dict):
        kept["metadata"] = clean_metadata(kept["metadata"], is_export=sent is not manifest)
        for key in ("name", "namespace"):
            if not kept["metadata"].get(key, ...) or (key == "namespace" and is_cluster_wide):
                kept["metadata"].pop(key, None)
    # The template of a Stack within a Stack has its own expressions, which the outer one does not evaluate.
    return {key: escape_spec(value) if key == "spec" and is_ours else escape(value) for key, value in kept.items()}


def clean_metadata(metadata: Mapping[str, Any], *, is_export: bool) -> Object:
    """Return the metadata without the parts that a server, kubectl or Hearth added. is_export: whether a server stored
    it.
    """
    kept = {key: value for key, value in metadata.items() if key not in ADDED}
    if is_export:
        drop_server_keys(kept)
    for word in ("labels", "annotations"):
        stated = kept.get(word)
        if isinstance(stated, dict) and BOOKKEEPING & stated.keys():
            kept[word] = {key: value for key, value in stated.items() if key not in BOOKKEEPING}
        if kept.get(word, ...) in ({}, None):
            # kubectl leaves an empty map where it removed the last key.
            del kept[word]
    return kept


def escape_spec(spec: Any) -> Any:
    """Return the spec of one of Hearth's kinds."""
    if not isinstance(spec, dict):
        return escape(spec)
    return {key: value if key == "template" else escape(value) for key, value in spec.items()}


def escape(value: Any) -> Any:
    """Return `value` with every text escaped, so that a template yields it unchanged; keys are never expressions."""
    match value:
        case str():
            return interpolation.escape(value)
        case list():
            return [escape(item) for item in value]
        case dict():
            return {key: escape(item) for key, item in value.items()}
        case _:
            return value


def find_expression_keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the keys in a clean manifest that a template would take for expressions."""
    match value:
        case list():
            for at, item in enumerate(value):
                yield from find_expression_keys(item, f"{path}[{at}]")
        case dict():
            is_ours = not path and cluster_scoped_kinds.group_of(value["apiVersion"]) == names.GROUP
            for key, item in value.items():
                place = (path + error_hints.write_key(key)).removeprefix(".")
                if interpolation.has_expressions(key):
                    yield place
                if not (is_ours and key == "spec"):
                    yield from find_expression_keys(item, place)


# Exported fields that no person wrote.

Path: TypeAlias = tuple[str, ...]
ITEMS: Final = "*"
"""In a path: each item of a list."""
MARKS: Final = ("uid", "resourceVersion", "managedFields")
"""Metadata that only an API server writes."""

WRITTEN_ANNOTATIONS: Final = frozenset(
    {
        "deployment.kubernetes.io/revision",
        "deployment.kubernetes.io/revision-history",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deprecated.daemonset.template.generation",
        "autoscaling.alpha.kubernetes.io/conditions",
        "autoscaling.alpha.kubernetes.io/current-metrics",
        "batch.kubernetes.io/job-tracking",
        "control-plane.alpha.kubernetes.io/leader",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "kubernetes.io/change-cause",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/provisioned-by",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
    }
)
WRITTEN_LABELS: Final = frozenset(
    {
        *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"),
        *("controller-revision-hash", "pod-template-hash", "pod-template-generation", "kubernetes.io/metadata.name"),
        *("apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name"),
    }
)
WRITTEN: Final[Mapping[str, tuple[Path, ...]]] = {
    "Service": tuple(
        ("spec", field)
        for field in ("clusterIPs", "ipFamilies", "healthCheckNodePort", "allocateLoadBalancerNodePorts")
    ),
    "PersistentVolumeClaim": (("spec", "volumeName"),),
    "PersistentVolume": (("spec", "claimRef", "uid"), ("spec", "claimRef", "resourceVersion")),
    "Pod": (("spec", "nodeName"), ("spec", "priority"), ("spec", "preemptionPolicy")),
    "Namespace": (("spec", "finalizers"),),
}
"""Fields by kind that controllers fill in, with any value."""
DEFAULTS: Final[Mapping[str, tuple[tuple[Path, Any], ...]]] = {
    "Deployment.apps": (
        (("spec", "progressDeadlineSeconds"), 600),
        (("spec", "revisionHistoryLimit"), 10),
        (
            ("spec", "strategy"),
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        ),
    ),
    "StatefulSet.apps": (
        (("spec", "podManagementPolicy"), "OrderedReady"),
        (("spec", "revisionHistoryLimit"), 10),
        (("spec", "updateStrategy"), {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        (("spec", "persistentVolumeClaimRetentionPolicy"), {"whenDeleted": "Retain", "whenScaled": "Retain"}),
        (("spec", "volumeClaimTemplates", ITEMS, "spec", "volumeMode"), "Filesystem"),
        (("spec", "volumeClaimTemplates", ITEMS, "status"), {"phase": "Pending"}),
        (("spec", "volumeClaimTemplates", ITEMS, "metadata", "creationTimestamp"), None),
    ),
    "DaemonSet.apps": (
        (("spec", "revisionHistoryLimit"), 10),
        (("spec", "updateStrategy"), {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
    ),
    "Job.batch": (
        (("spec", "backoffLimit"), 6),
        (("spec", "completionMode"), "NonIndexed"),
        (("spec", "manualSelector"), False),
        (("spec", "podReplacementPolicy"), "TerminatingOrFailed"),
        (("spec", "suspend"), False),
    ),
    "CronJob.batch": (
        (("spec", "concurrencyPolicy"), "Allow"),
        (("spec", "failedJobsHistoryLimit"), 1),
        (("spec", "successfulJobsHistoryLimit"), 3),
        (("spec", "suspend"), False),
        (("spec", "jobTemplate", "metadata", "creationTimestamp"), None),
    ),
    "Service": (
        (("spec", "type"), "ClusterIP"),
        (("spec", "ipFamilyPolicy"), "SingleStack"),
        (("spec", "internalTrafficPolicy"), "Cluster"),
        (("spec", "sessionAffinity"), "None"),
        (("spec", "ports", ITEMS, "protocol"), "TCP"),
    ),
    "PersistentVolumeClaim": ((("spec", "volumeMode"), "Filesystem"),),
}
"""The API server's default values of fields, by kind."""
POD_DEFAULTS: Final[tuple[tuple[Path, Any], ...]] = (
    (("dnsPolicy",), "ClusterFirst"),
    (("enableServiceLinks",), True),
    (("restartPolicy",), "Always"),
    (("schedulerName",), "default-scheduler"),
    (("securityContext",), {}),
    (("terminationGracePeriodSeconds",), 30),
    *(
        (("volumes", ITEMS, source, "defaultMode"), 420)
        for source in ("configMap", "secret", "projected", "downwardAPI")
    ),
    (("volumes", ITEMS, "hostPath", "type"), ""),
)
CONTAINER_DEFAULTS: Final[tuple[tuple[Path, Any], ...]] = (
    (("resources",), {}),
    (("terminationMessagePath",), "/dev/termination-log"),
    (("terminationMessagePolicy",), "File"),
    (("ports", ITEMS, "protocol"), "TCP"),
    (("env", ITEMS, "valueFrom", "fieldRef", "apiVersion"), "v1"),
    *(
        ((probe, *field), value)
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for field, value in (
            (("failureThreshold",), 3),
            (("periodSeconds",), 10),
            (("successThreshold",), 1),
            (("timeoutSeconds",), 1),
            (("httpGet", "scheme"), "HTTP"),
        )
    ),
)


def is_export(manifest: Mapping[str, Any]) -> bool:
    """Return whether an API server has stored the object."""
    metadata = object_fields.mapping(manifest, "metadata")
    return any(mark in metadata for mark in MARKS)


def drop_server_values(manifest: Mapping[str, Any]) -> Object:
    """Return an exported manifest without the values that no person wrote."""
    kept: Object = copy.deepcopy(dict(manifest))
    kind = kinds.make_key(cluster_scoped_kinds.group_of(kept["apiVersion"]), kept["kind"])
    for path in WRITTEN.get(kind, ()):
        for holder in _find_maps(kept, path[:-1]):
            holder.pop(path[-1], None)
    _drop_equal(kept, DEFAULTS.get(kind, ()))
    if kind == "Service":
        _drop_addresses(kept)
    if kind == "Job.batch" and object_fields.find(kept, "spec", "manualSelector") is not True:
        # The field refers to the old object, and the API server rejects it for a new one.
        for spec in _find_maps(kept, ("spec",)):
            spec.pop("selector", None)
    template = manifest_references.find_pod_template(kept)
    if isinstance(template, dict):
        _clean_pod(template, is_pod=template is kept)
    return kept


def _drop_equal(holder: Object, defaults: tuple[tuple[Path, Any], ...]) -> None:
    """Remove the fields that have their default."""
    for path, value in defaults:
        for inner in _find_maps(holder, path[:-1]):
            if path[-1] in inner and inner[path[-1]] == value and type(inner[path[-1]]) is type(value):
                del inner[path[-1]]


def _drop_addresses(service: Object) -> None:
    """Remove the address of a Service that has one; `None` means a Service without an address."""
    for spec in _find_maps(service, ("spec",)):
        if spec.get("clusterIP") != "None":
            spec.pop("clusterIP", None)
    for port in _find_maps(service, ("spec", "ports", ITEMS)):
        if port.get("targetPort") == port.get("port"):
            port.pop("targetPort", None)


def _clean_pod(template: Object, *, is_pod: bool) -> None:
    """Remove fields that no person wrote from a Pod, or a Pod template."""
    metadata = template.get("metadata")
    if isinstance(metadata, dict):
        if not is_pod and metadata.get("creationTimestamp", ...) is None:
            del metadata["creationTimestamp"]
        drop_server_keys(metadata)
        if not metadata.get("annotations", ...):
            del metadata["annotations"]
    for spec in _find_maps(template, ("spec",)):
        _drop_equal(spec, POD_DEFAULTS)
        if spec.get("serviceAccount") == spec.get("serviceAccountName"):
            # The older name of the same field.
            spec.pop("serviceAccount", None)
        for key in ("containers", "initContainers"):
            for container in _find_maps(spec, (key, ITEMS)):
                _drop_equal(container, CONTAINER_DEFAULTS)
                if container.get("imagePullPolicy") == find_pull_policy(container.get("image")):
                    del container["imagePullPolicy"]


def find_pull_policy(image: Any) -> str:
    """Return the kubelet's default pull policy for an image."""
    name = str(image).rpartition("/")[2]
    is_latest = "@" not in name and (":" not in name or name.endswith(":latest"))
    return "Always" if is_latest else "IfNotPresent"


def drop_server_keys(metadata: MutableMapping[str, Any]) -> None:
    """Remove the labels and annotations that controllers write."""
    for word, written in (("labels", WRITTEN_LABELS), ("annotations", WRITTEN_ANNOTATIONS)):
        stated = metadata.get(word)
        if isinstance(stated, Mapping) and written & stated.keys():
            metadata[word] = {key: value for key, value in stated.items() if key not in written}


def _find_maps(holder: Any, path: Path) -> Iterator[Object]:
    """Find the maps at a path."""
    if not path:
        if isinstance(holder, dict):
            yield holder
    elif path[0] == ITEMS:
        for item in holder if isinstance(holder, list) else ():
            yield from _find_maps(item, path[1:])
    elif isinstance(holder, dict):
        yield from _find_maps(holder.get(path[0]), path[1:])
