"""References by kind to objects that must exist first: a table of rules, one for each group of kinds.

Knows which fields are references; must not know which of the objects are imported too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from hearth.cli import object_fields
from hearth.cli.importer import cluster_scoped_kinds, pod_references
from hearth.cli.importer.object_mention import ObjectMention

Rule: TypeAlias = Callable[[Mapping[str, Any]], Iterator[ObjectMention]]

ADMISSION: Final = "admissionregistration.k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"
NETWORKING: Final = "networking.k8s.io"
STORAGE: Final = "storage.k8s.io"
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation that `storageClassName` replaced; still supported."""
TOKEN_ANNOTATION: Final = "kubernetes.io/service-account.name"  # noqa: S105 -- the name of an annotation


def find_mentions(manifest: Mapping[str, Any]) -> Iterator[ObjectMention]:
    """Yield every object that must exist before the manifest; may repeat, and may yield references without a name."""
    kind = cluster_scoped_kinds.key_of(cluster_scoped_kinds.group_of(manifest["apiVersion"]), manifest["kind"])
    yield ObjectMention(kind="Namespace", name=object_fields.find(manifest, "metadata", "namespace"))
    template = pod_references.find_template(manifest)
    if template is not None:
        yield from pod_references.find_needs(object_fields.mapping(template, "spec"))
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
