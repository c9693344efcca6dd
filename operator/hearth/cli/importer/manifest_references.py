"""Finds references from a manifest to objects that must exist first, and which of these objects are imported as well.

A table lists the reference fields of each kind. Pod specs are handled separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

from hearth.cli.importer import cluster_scoped_kinds
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.model import kinds, object_fields, value_class
from hearth.model.kinds import ObjectRef

ADMISSION: Final = "admissionregistration.k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"
NETWORKING: Final = "networking.k8s.io"
STORAGE: Final = "storage.k8s.io"
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation that `storageClassName` replaced; still supported."""
TOKEN_ANNOTATION: Final = "kubernetes.io/service-account.name"  # noqa: S105 -- the name of an annotation


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMention:
    """A reference to an object. Its namespace is the namespace of the referencing manifest unless the reference sets
    one.
    """

    kind: str
    name: Any
    """The name as found: the API server reports mistakes in it. A value that is not text names nothing."""
    group: str = ""
    namespace: Any = None
    """The namespace as found; a text if the reference sets it."""


Rule: TypeAlias = Callable[[Mapping[str, Any]], Iterator[ObjectMention]]


def find_mentions(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield every object that must exist before the manifest; may repeat, and may yield references without a name."""
    kind = kinds.make_key(cluster_scoped_kinds.group_of(manifest["apiVersion"]), manifest["kind"])
    yield ObjectMention(kind="Namespace", name=object_fields.find(manifest, "metadata", "namespace"))
    template = find_pod_template(manifest)
    if template is not None:
        yield from find_pod_needs(object_fields.mapping(template, "spec"))
    yield from find_scale_target(manifest)
    rule = RULES.get(kind)
    if rule is not None:
        yield from rule(manifest)


def find_scale_target(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the scale target of an autoscaler."""
    target = object_fields.mapping(manifest, "spec", "scaleTargetRef")
    api_version, kind = target.get("apiVersion", "apps/v1"), target.get("kind", "Deployment")
    if target and isinstance(api_version, str) and isinstance(kind, str):
        yield ObjectMention(group=cluster_scoped_kinds.group_of(api_version), kind=kind, name=target.get("name"))


def find_for_stateful_set(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the governing Service of a StatefulSet, and the classes of its claims."""
    yield ObjectMention(kind="Service", name=object_fields.find(manifest, "spec", "serviceName"))
    for claim in object_fields.entries(manifest, "spec", "volumeClaimTemplates"):
        yield from find_for_claim(claim)


def find_for_claim(claim: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the class of a claim or a volume, and the volume of a claim."""
    yield ObjectMention(group=STORAGE, kind="StorageClass", name=find_storage_class(claim))
    yield ObjectMention(kind="PersistentVolume", name=object_fields.find(claim, "spec", "volumeName"))


def find_storage_class(claim: Mapping[str, Any]) -> Any:
    """Return the class of a claim or a volume; None for the default class."""
    annotated = object_fields.find(claim, "metadata", "annotations", CLASS_ANNOTATION)
    return annotated or object_fields.find(claim, "spec", "storageClassName")


def find_for_binding(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the role of a binding, and its accounts."""
    role = object_fields.mapping(manifest, "roleRef")
    yield ObjectMention(group=RBAC, kind=str(role.get("kind")), name=role.get("name"))
    for subject in object_fields.entries(manifest, "subjects"):
        if subject.get("kind") == "ServiceAccount":
            yield ObjectMention(kind="ServiceAccount", name=subject.get("name"), namespace=subject.get("namespace"))


def find_for_account(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the image pull secrets of an account."""
    for secret in object_fields.entries(manifest, "imagePullSecrets"):
        yield ObjectMention(kind="Secret", name=secret.get("name"))


def find_for_secret(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the account of a token. Without it, the API server deletes the token at once."""
    if manifest.get("type") == "kubernetes.io/service-account-token":
        yield ObjectMention(
            kind="ServiceAccount", name=object_fields.find(manifest, "metadata", "annotations", TOKEN_ANNOTATION)
        )


def find_for_ingress(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the backend Services of an Ingress, its class, and its certificates."""
    spec = object_fields.mapping(manifest, "spec")
    yield ObjectMention(group=NETWORKING, kind="IngressClass", name=spec.get("ingressClassName"))
    backends = [object_fields.mapping(spec, "defaultBackend")]
    for rule in object_fields.entries(spec, "rules"):
        backends += [object_fields.mapping(path, "backend") for path in object_fields.entries(rule, "http", "paths")]
    for backend in backends:
        yield ObjectMention(kind="Service", name=object_fields.find(backend, "service", "name"))
    for entry in object_fields.entries(spec, "tls"):
        yield ObjectMention(kind="Secret", name=entry.get("secretName"))


def find_for_webhooks(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the Services of a webhook configuration."""
    for webhook in object_fields.entries(manifest, "webhooks"):
        yield from find_service(object_fields.mapping(webhook, "clientConfig", "service"))


def find_for_api_service(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the Service of an APIService."""
    yield from find_service(object_fields.mapping(manifest, "spec", "service"))


def find_service(reference: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the Service that a cluster-scoped object references with its namespace."""
    yield ObjectMention(kind="Service", name=reference.get("name"), namespace=reference.get("namespace"))


def find_for_policy_binding(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the policy of a binding."""
    kind = manifest["kind"].removesuffix("Binding")
    group = cluster_scoped_kinds.group_of(manifest["apiVersion"])
    yield ObjectMention(group=group, kind=kind, name=object_fields.find(manifest, "spec", "policyName"))


WEBHOOKS: Final = frozenset(f"{kind}WebhookConfiguration.{ADMISSION}" for kind in ("Validating", "Mutating"))
API_SERVICE: Final = "APIService.apiregistration.k8s.io"
BINDINGS: Final = frozenset({f"RoleBinding.{RBAC}", f"ClusterRoleBinding.{RBAC}"})

RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(WEBHOOKS, find_for_webhooks),
    **dict.fromkeys(BINDINGS, find_for_binding),
    API_SERVICE: find_for_api_service,
    f"Ingress.{NETWORKING}": find_for_ingress,
    "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io": find_for_policy_binding,
    "PersistentVolume": find_for_claim,
    "PersistentVolumeClaim": find_for_claim,
    "Secret": find_for_secret,
    "ServiceAccount": find_for_account,
    "StatefulSet.apps": find_for_stateful_set,
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": find_for_policy_binding,
}
"""By `Kind.group`."""


# References of a pod's spec to objects that must exist when the pod starts.

POD_TEMPLATES: Final = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"), ("template",))
"""The places of a pod template in a manifest: workloads of any kind, CronJob, PodTemplate."""
VOLUME_SOURCES: Final = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("secret", "Secret", "name"),
)
"""References within a volume, or within a source of a projected volume."""
WHOLE_REFERENCES: Final = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
KEY_REFERENCES: Final = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))


def find_pod_template(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return metadata and spec of the manifest's pods, or None if it has none.

    Accepts any kind with such a structure, because custom kinds may contain pod templates.
    """
    if manifest["kind"] == "Pod":
        return manifest
    for path in POD_TEMPLATES:
        template = object_fields.mapping(manifest, *path)
        if object_fields.entries(template, "spec", "containers"):
            return template
    return None


def find_pod_needs(spec: Mapping[str, Any]) -> Iterator[ObjectMention]:
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
        for key, kind, name_key in VOLUME_SOURCES:
            yield ObjectMention(kind=kind, name=object_fields.find(source, key, name_key))
    for inner in volume.values():
        # Network storage volumes reference the Secret of their account this way, each within its own field.
        for key in ("secretRef", "nodePublishSecretRef"):
            yield ObjectMention(kind="Secret", name=object_fields.find(inner, key, "name"))


def find_container_needs(container: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield the references of one container's environment."""
    yield from find_named(object_fields.entries(container, "envFrom"), WHOLE_REFERENCES)
    values = [object_fields.mapping(variable, "valueFrom") for variable in object_fields.entries(container, "env")]
    yield from find_named(values, KEY_REFERENCES)


def find_named(entries: Sequence[Mapping[str, Any]], references: Sequence[tuple[str, str]]) -> Iterator[ObjectMention]:
    """Yield the references of the entries under those keys."""
    for entry in entries:
        for key, kind in references:
            yield ObjectMention(kind=kind, name=object_fields.find(entry, key, "name"))


# Indexes the imported manifests by object, kind and role, to find those that another manifest references, serves or
# selects.

DEFINITION: Final = "CustomResourceDefinition.apiextensions.k8s.io"


@value_class.dataclass(frozen=True, slots=True)
class ManifestIndex:
    """Index of the imported manifests."""

    documents: Sequence[ManifestDocument]
    default_namespace: str
    objects: dict[ObjectRef, int] = field(default_factory=dict)
    keys: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Positions by `Kind.group`."""
    served: dict[tuple[str, str], int] = field(default_factory=dict)
    """The CustomResourceDefinition of a group and kind."""
    bound: dict[ObjectRef, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The bindings that grant rights to an account."""

    def fill(self) -> None:
        """Index all documents."""
        for position, document in enumerate(self.documents):
            self.keys[document.key].append(position)
            self.objects[document.locate(self.default_namespace)] = position
            if document.key == DEFINITION:
                group = object_fields.text(document.manifest, "spec", "group")
                self.served[group, object_fields.text(document.manifest, "spec", "names", "kind")] = position
            if document.key in BINDINGS:
                for reference in self.locate_mentions(document):
                    if reference.kind == "ServiceAccount":
                        self.bound[reference].append(position)

    def is_cluster_wide(self, document: ManifestDocument) -> bool:
        """Return whether the object of a document is cluster-scoped, including kinds that the manifests define."""
        definition = self.served.get((document.group, document.kind))
        if definition is not None:
            return object_fields.text(self.documents[definition].manifest, "spec", "scope") == "Cluster"
        return cluster_scoped_kinds.is_cluster_wide(document.group, document.kind)

    def find_namespace(self, document: ManifestDocument) -> str:
        """Return the namespace of a document, or the default one."""
        return document.namespace or self.default_namespace

    def locate_mentions(self, document: ManifestDocument) -> Iterator[ObjectRef]:
        """Return the objects that a document references."""
        for mention in find_mentions(document.manifest):
            yield from self.locate(mention, document)

    def locate(self, mention: ObjectMention, document: ManifestDocument) -> Iterator[ObjectRef]:
        """Yield the object that a document mentions; none if the mention names none."""
        if isinstance(mention.name, str) and mention.name:
            stated = mention.namespace if isinstance(mention.namespace, str) else ""
            is_wide = cluster_scoped_kinds.is_cluster_wide(mention.group, mention.kind)
            namespace = "" if is_wide else stated or self.find_namespace(document)
            yield ObjectRef(group=mention.group, kind=mention.kind, namespace=namespace, name=mention.name)


def find_answering(service: ObjectRef, index: ManifestIndex) -> Iterator[int]:
    """Return the workloads whose pods a Service selects."""
    position = index.objects.get(service)
    if service.kind != "Service" or position is None:
        return
    selector = object_fields.mapping(index.documents[position].manifest, "spec", "selector")
    for candidate, document in enumerate(index.documents):
        template = find_pod_template(document.manifest)
        namespace = index.find_namespace(document)
        if template is not None and namespace == service.namespace and selects(selector, template):
            yield candidate


def selects(selector: Mapping[str, Any], template: Mapping[str, Any]) -> bool:
    """Return whether a Service's selector matches the pods of a template; an empty one matches none."""
    labels = object_fields.mapping(template, "metadata", "labels")
    return bool(selector) and selector.items() <= labels.items()
