"""Dependencies between manifests: the references of each kind, and dependencies that kinds imply."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hearth.cli.importer import stack_assembly
from hearth.cli.importer.manifest_documents import ManifestDocument, SourceText
from hearth.cli.importer.manifest_references import ManifestIndex
from support import repository

SHOP = repository.DATA / "shop.yaml"


def find_required(dependent: str, *others: str) -> list[str]:
    """The manifests that the dependent requires, as `Kind/name`. Each is a manifest without `apiVersion: v1`."""
    manifests = [{"apiVersion": "v1", **yaml.safe_load(text)} for text in (dependent, *others)]
    documents = [ManifestDocument(manifest=manifest, place="") for manifest in manifests]
    index = ManifestIndex(documents, "default")
    index.fill()
    required = stack_assembly.find_dependencies(index)[0]
    return [f"{documents[position].kind}/{documents[position].name}" for position in required]


def named(kind: str, name: str = "x", *, group: str = "", **fields: Any) -> str:
    """A manifest of that kind and name."""
    manifest = {"kind": kind, "metadata": {"name": name}} | fields
    return yaml.safe_dump({"apiVersion": f"{group}/v1", **manifest} if group else manifest)


def pod(spec: str) -> str:
    return f"{{kind: Pod, metadata: {{name: pod}}, spec: {{{spec}}}}}"


RBAC, STORAGE, APPS = "rbac.authorization.k8s.io", "storage.k8s.io", "apps"


@pytest.mark.parametrize(
    ("dependent", "required"),
    [
        pytest.param(pod("serviceAccountName: x"), named("ServiceAccount"), id="account"),
        pytest.param(pod("serviceAccount: x"), named("ServiceAccount"), id="account under its old name"),
        pytest.param(pod("imagePullSecrets: [{name: x}]"), named("Secret"), id="pull secret"),
        pytest.param(pod("priorityClassName: x"), named("PriorityClass", group="scheduling.k8s.io"), id="priority"),
        pytest.param(pod("runtimeClassName: x"), named("RuntimeClass", group="node.k8s.io"), id="runtime"),
        pytest.param(pod("volumes: [{configMap: {name: x}}]"), named("ConfigMap"), id="volume of a ConfigMap"),
        pytest.param(pod("volumes: [{secret: {secretName: x}}]"), named("Secret"), id="volume of a Secret"),
        pytest.param(
            pod("volumes: [{projected: {sources: [{secret: {name: x}}]}}]"), named("Secret"), id="projected Secret"
        ),
        pytest.param(
            pod("volumes: [{projected: {sources: [{configMap: {name: x}}]}}]"),
            named("ConfigMap"),
            id="projected ConfigMap",
        ),
        pytest.param(
            pod("volumes: [{persistentVolumeClaim: {claimName: x}}]"), named("PersistentVolumeClaim"), id="claim"
        ),
        pytest.param(
            pod("volumes: [{csi: {nodePublishSecretRef: {name: x}}}]"), named("Secret"), id="account of a storage"
        ),
        pytest.param(
            pod("resourceClaims: [{resourceClaimTemplateName: x}]"),
            named("ResourceClaimTemplate", group="resource.k8s.io"),
            id="device",
        ),
        pytest.param(pod("containers: [{envFrom: [{configMapRef: {name: x}}]}]"), named("ConfigMap"), id="envFrom"),
        pytest.param(
            pod("initContainers: [{env: [{valueFrom: {secretKeyRef: {name: x}}}]}]"), named("Secret"), id="one variable"
        ),
        pytest.param(
            "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {serviceAccountName: x, containers: [{}]}}}}",
            named("ServiceAccount"),
            id="template of a workload",
        ),
        pytest.param(
            "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: "
            "{serviceAccountName: x, containers: [{}]}}}}}}",
            named("ServiceAccount"),
            id="template of a CronJob",
        ),
        pytest.param(
            "{apiVersion: argoproj.io/v1, kind: Rollout, spec: {template: {spec: {serviceAccountName: x, "
            "containers: [{}]}}}}",
            named("ServiceAccount"),
            id="template of a custom kind",
        ),
        pytest.param(
            "{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: x}}", named("Service"), id="serviceName"
        ),
        pytest.param(
            "{apiVersion: apps/v1, kind: StatefulSet, spec: {volumeClaimTemplates: [{spec: {storageClassName: x}}]}}",
            named("StorageClass", group=STORAGE),
            id="class of a claim template",
        ),
        pytest.param(
            "{kind: PersistentVolumeClaim, metadata: {annotations: {volume.beta.kubernetes.io/storage-class: x}}}",
            named("StorageClass", group=STORAGE),
            id="class by annotation",
        ),
        pytest.param(
            "{kind: PersistentVolumeClaim, spec: {volumeName: x}}", named("PersistentVolume"), id="volume by name"
        ),
        pytest.param(
            "{kind: PersistentVolume, spec: {storageClassName: x}}",
            named("StorageClass", group=STORAGE),
            id="class of a volume",
        ),
        pytest.param(
            "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, "
            "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}}",
            named("Deployment", group=APPS),
            id="autoscaler",
        ),
        pytest.param(
            "{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, spec: {scaleTargetRef: {name: x}}}",
            named("Deployment", group=APPS),
            id="autoscaler that means Deployments",
        ),
        pytest.param(
            f"{{apiVersion: {RBAC}/v1, kind: RoleBinding, roleRef: {{kind: Role, name: x}}}}",
            named("Role", group=RBAC),
            id="role",
        ),
        pytest.param(
            f"{{apiVersion: {RBAC}/v1, kind: ClusterRoleBinding, roleRef: {{kind: ClusterRole, name: x}}}}",
            named("ClusterRole", group=RBAC),
            id="cluster role",
        ),
        pytest.param(
            f"{{apiVersion: {RBAC}/v1, kind: RoleBinding, subjects: [{{kind: ServiceAccount, name: x}}]}}",
            named("ServiceAccount"),
            id="subject",
        ),
        pytest.param("{kind: ServiceAccount, imagePullSecrets: [{name: x}]}", named("Secret"), id="pull secret of all"),
        pytest.param(
            "{kind: Secret, type: kubernetes.io/service-account-token, "
            "metadata: {annotations: {kubernetes.io/service-account.name: x}}}",
            named("ServiceAccount"),
            id="token",
        ),
        pytest.param(
            "{apiVersion: networking.k8s.io/v1, kind: Ingress, "
            "spec: {rules: [{http: {paths: [{backend: {service: {name: x}}}]}}]}}",
            named("Service"),
            id="backend",
        ),
        pytest.param(
            "{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {defaultBackend: {service: {name: x}}}}",
            named("Service"),
            id="default backend",
        ),
        pytest.param(
            "{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {tls: [{secretName: x}]}}",
            named("Secret"),
            id="certificate",
        ),
        pytest.param(
            "{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {ingressClassName: x}}",
            named("IngressClass", group="networking.k8s.io"),
            id="ingress class",
        ),
        pytest.param(
            "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, "
            "webhooks: [{clientConfig: {service: {name: x, namespace: default}}}]}",
            named("Service"),
            id="webhook",
        ),
        pytest.param(
            "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, "
            "spec: {policyName: x}}",
            named("ValidatingAdmissionPolicy", group="admissionregistration.k8s.io"),
            id="policy",
        ),
        pytest.param(
            "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: {service: {name: x, namespace: default}}}",
            named("Service"),
            id="aggregated API",
        ),
        pytest.param(
            "{apiVersion: example.org/v1, kind: Lamp}",
            named(
                "CustomResourceDefinition",
                group="apiextensions.k8s.io",
                spec={"group": "example.org", "names": {"kind": "Lamp"}},
            ),
            id="custom resource",
        ),
        pytest.param("{kind: ConfigMap, metadata: {namespace: x}}", named("Namespace"), id="namespace"),
        pytest.param(pod("containers: [{}]"), named("ResourceQuota"), id="quota of the namespace"),
    ],
)
def test_an_object_that_names_another_waits_for_it(dependent: str, required: str) -> None:
    manifest = yaml.safe_load(required)
    is_by_place = manifest["kind"] == "ResourceQuota"
    bystander = yaml.safe_dump({**manifest, "metadata": {"name": "y"}, "spec": {}})
    elsewhere = yaml.safe_dump({**manifest, "metadata": {"name": "x", "namespace": "elsewhere"}, "spec": {}})
    is_namespaced = (
        ManifestDocument(manifest={"apiVersion": "v1", **manifest}, place="").locate("default").namespace != ""
    )
    others = [] if is_by_place else [bystander]

    assert find_required(dependent, required, *others, *([elsewhere] if is_namespaced else [])) == [
        f"{manifest['kind']}/x"
    ]


def test_rights_come_before_the_pods_that_use_them() -> None:
    binding = f"{{apiVersion: {RBAC}/v1, kind: RoleBinding, metadata: {{name: b}}, subjects: [{{kind: ServiceAccount, name: x}}]}}"

    assert find_required(pod("serviceAccountName: x"), named("ServiceAccount"), binding) == [
        "ServiceAccount/x",
        "RoleBinding/b",
    ]


def test_a_webhook_waits_for_those_that_answer_it() -> None:
    webhook = (
        "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, "
        "webhooks: [{clientConfig: {service: {name: x, namespace: default}}}]}"
    )
    template = {"metadata": {"labels": {"app": "x", "tier": "back"}}, "spec": {"containers": [{}]}}
    service = named("Service", spec={"selector": {"app": "x"}})
    answering = named("Deployment", "answering", group=APPS, spec={"template": template})
    other = named("Deployment", "other", group=APPS, spec={"template": {**template, "metadata": {"labels": {}}}})

    assert find_required(webhook, service, answering, other) == ["Service/x", "Deployment/answering"]
    # A Service without a selector leads to no pods, not to all.
    assert find_required(webhook, named("Service"), answering, other) == ["Service/x"]


def test_a_mention_may_state_another_namespace() -> None:
    binding = (
        f"{{apiVersion: {RBAC}/v1, kind: ClusterRoleBinding, "
        "subjects: [{kind: ServiceAccount, name: x, namespace: elsewhere}]}"
    )
    elsewhere = named("ServiceAccount", metadata={"name": "x", "namespace": "elsewhere"})

    assert find_required(binding, named("ServiceAccount")) == []
    assert find_required(binding, named("ServiceAccount"), elsewhere) == ["ServiceAccount/x"]


def test_nothing_waits_for_itself() -> None:
    assert find_required("{kind: Namespace, metadata: {name: a, namespace: a}}") == []


@pytest.mark.parametrize(
    "manifest",
    [
        "{kind: Pod, spec: text}",
        "{kind: Pod, spec: {volumes: text, containers: [text, {env: {}}], imagePullSecrets: [{name: 3}]}}",
        "{kind: Pod, metadata: , spec: {volumes: [{projected: {sources: [text]}}, {configMap: text}]}}",
        "{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: [x], volumeClaimTemplates: [3]}}",
        "{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{http: 3}], tls: [{}]}}",
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, roleRef: x, subjects: [x]}",
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {names: []}}",
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {scaleTargetRef: {apiVersion: 3}}}",
    ],
)
def test_a_manifest_of_any_shape_is_read(manifest: str) -> None:
    assert find_required(manifest, named("Service"), named("Secret")) == []


def test_a_whole_shop_is_put_in_order() -> None:
    result = stack_assembly.assemble(
        [SourceText(source="shop.yaml", content=SHOP.read_text())], name="shop", namespace=None
    )

    resources = result.stack["spec"]["template"]["resources"]
    (warning,) = result.warnings
    assert warning.startswith(
        "spec.template.resources.shopPassword.manifest.stringData: has the literal value of password"
    )
    assert {name: entry["dependsOn"] for name, entry in resources.items() if "dependsOn" in entry} == {
        "shopIngress": ["shopService", "shopCertificate"],
        "shopHorizontalPodAutoscaler": ["shop"],
        "shop": [
            "pictures",
            "shopSettings",
            "shopPassword",
            "shopCertificate",
            "shopRoleBinding",
            "shopServiceAccount",
            "importTrial",
        ],
        "database": ["databaseService", "importTrialStorageClass"],
        "autumn": ["coupons"],
        "pictures": ["importTrialStorageClass"],
        "shopRoleBinding": ["shopRole", "shopServiceAccount"],
    }
