"""A field that selects one of several other fields changes, on a real API server: the object becomes equal to a new
one.

The API server sets defaults for an object's current choice. No manager owns them, so no apply removes them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import pytest

from hearth.engine.writes.step_execution import StepDone, StepExecutor, StepResult
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.tenancy import Boundary
from hearth.plan.ownership import field_changes
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.state.steps import Apply
from support.units.blueprints import HASHER

OURS = "hearth:test/shop"
OWN_LABELS = {names.LABEL_STACK_UID: "u", names.LABEL_RESOURCE: "a"}
"""Labels that make the operator cache an object."""
LABELS = {"app": "web"}
ALLOCATED = (
    "spec.clusterIP", "spec.ports", "spec.healthCheckNodePort",
    'metadata.annotations["autoscaling.alpha.kubernetes.io/conditions"]',
)  # fmt: skip
"""Values that the API server allocates for a new object, and the conditions of an older version; they may differ."""
Definition: TypeAlias = tuple[str, str, Object]


def pod(container: Object | None = None, **spec: Any) -> Object:
    """A template of pods with one container."""
    main = {"name": "web", "image": "web:1", **(container or {})}
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [main], **spec}}


def deployment(template: Object | None = None, **spec: Any) -> Definition:
    """A Deployment without pods."""
    stated = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template or pod(), **spec}
    return "apps/v1", "Deployment", {"spec": stated}


def daemon_set(**spec: Any) -> Definition:
    """A DaemonSet that matches no node."""
    return "apps/v1", "DaemonSet", {"spec": {"selector": {"matchLabels": LABELS}, "template": pod(nodeSelector={"a": "b"}), **spec}}  # fmt: skip


def stateful_set(**spec: Any) -> Definition:
    """A StatefulSet without pods."""
    return "apps/v1", "StatefulSet", {"spec": {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": pod(), **spec}}  # fmt: skip


def container(**stated: Any) -> Definition:
    """A Deployment whose container has these fields."""
    return deployment(pod(stated))


def volume(**source: Any) -> Definition:
    return deployment(pod(volumes=[{"name": "data", **source}]))


def variable(**source: Any) -> Definition:
    """A Deployment with one environment variable."""
    return container(env=[{"name": "A", **source}])


def probe(**handler: Any) -> Definition:
    return container(livenessProbe=handler)


def service(**spec: Any) -> Definition:
    return "v1", "Service", {"spec": {"selector": LABELS, "ports": [{"port": 80}], **spec}}


def external_service() -> Definition:
    """A Service that is only a name."""
    return "v1", "Service", {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}


def autoscaler(version: str = "v2", **spec: Any) -> Definition:
    """An autoscaler without an existing target."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    return f"autoscaling/{version}", "HorizontalPodAutoscaler", {"spec": {"scaleTargetRef": target, "maxReplicas": 4, **spec}}  # fmt: skip


def metric(name: str, **target: Any) -> Object:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def policy(**spec: Any) -> Definition:
    """A NetworkPolicy of all pods."""
    return "networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": {}, **spec}}


def ingress(**backend: Any) -> Definition:
    """An Ingress with only a backend."""
    return "networking.k8s.io/v1", "Ingress", {"spec": {"defaultBackend": backend}}


def budget(**spec: Any) -> Definition:
    return "policy/v1", "PodDisruptionBudget", {"spec": {"selector": {"matchLabels": LABELS}, **spec}}


def cron_job(**job: Any) -> Definition:
    """A CronJob that never runs."""
    template = {"spec": {"template": pod(restartPolicy="Never"), **job}}
    return "batch/v1", "CronJob", {"spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": template}}


FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}
CPU = metric("cpu", type="Utilization", averageUtilization=50)
MEMORY = metric("memory", type="Utilization", averageUtilization=50)
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
CHANGES: tuple[tuple[str, Definition, Definition], ...] = (
    ("Recreate after a default", deployment(), deployment(strategy={"type": "Recreate"})),
    ("Recreate after numbers", deployment(strategy=ROLLING), deployment(strategy={"type": "Recreate"})),
    ("Recreate after half of the numbers", deployment(strategy={"rollingUpdate": {"maxSurge": 1}}), deployment(strategy={"type": "Recreate"})),
    ("a default after Recreate", deployment(strategy={"type": "Recreate"}), deployment()),
    ("OnDelete of a StatefulSet", stateful_set(), stateful_set(updateStrategy={"type": "OnDelete"})),
    ("OnDelete after a partition", stateful_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}), stateful_set(updateStrategy={"type": "OnDelete"})),
    ("OnDelete of a DaemonSet", daemon_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}), daemon_set(updateStrategy={"type": "OnDelete"})),
    ("a volume that was defaulted", volume(), volume(configMap={"name": "a"})),
    ("a volume that is defaulted", volume(configMap={"name": "a"}), volume()),
    ("a ConfigMap after emptyDir", volume(emptyDir={}), volume(configMap={"name": "a"})),
    ("a Secret after a ConfigMap", volume(configMap={"name": "a"}), volume(secret={"secretName": "a"})),
    ("a claim after a Secret", volume(secret={"secretName": "a"}), volume(persistentVolumeClaim={"claimName": "a"})),
    ("emptyDir after hostPath", volume(hostPath={"path": "/a"}), volume(emptyDir={})),
    ("downwardAPI after projected", volume(projected={"sources": [{"configMap": {"name": "a"}}]}), volume(downwardAPI={"items": [{"path": "a", **FIELD}]})),
    ("exec after httpGet", probe(httpGet={"path": "/", "port": 80}), probe(exec={"command": ["a"]})),
    ("tcpSocket after exec", probe(exec={"command": ["a"]}), probe(tcpSocket={"port": 80})),
    ("grpc after tcpSocket", probe(tcpSocket={"port": 80}), probe(grpc={"port": 80})),
    ("httpGet after grpc", probe(grpc={"port": 80}), probe(httpGet={"port": 80})),
    ("a hook", container(lifecycle={"preStop": {"httpGet": {"port": 80}}}), container(lifecycle={"preStop": {"exec": {"command": ["a"]}}})),
    ("valueFrom after value", variable(value="1"), variable(valueFrom=FIELD)),
    ("value after valueFrom", variable(valueFrom=FIELD), variable(value="1")),
    ("another valueFrom", variable(valueFrom=FIELD), variable(valueFrom={"secretKeyRef": {"name": "a", "key": "a"}})),
    ("Localhost", deployment(pod(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}})), deployment(pod(securityContext={"seccompProfile": {"type": "RuntimeDefault"}}))),
    ("dnsPolicy", deployment(pod(dnsPolicy="None", dnsConfig={"nameservers": ["1.1.1.1"]})), deployment()),
    ("a toleration", deployment(pod(tolerations=[{"key": "a", "operator": "Exists"}])), deployment(pod(tolerations=[{"key": "a", "value": "b"}]))),
    ("a sidecar", deployment(pod(initContainers=[{"name": "i", "image": "i:1"}])), deployment(pod(initContainers=[{"name": "i", "image": "i:1", "restartPolicy": "Always"}]))),
    ("ClusterIP after NodePort", service(type="NodePort", externalTrafficPolicy="Local"), service(type="ClusterIP")),
    ("ClusterIP after a stated NodePort", service(type="NodePort", externalTrafficPolicy="Cluster"), service()),
    ("ClusterIP after LoadBalancer", service(type="LoadBalancer", externalTrafficPolicy="Local"), service()),
    ("ClusterIP after a class", service(type="LoadBalancer", loadBalancerClass="a.example/b", allocateLoadBalancerNodePorts=False), service()),
    ("NodePort after LoadBalancer", service(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/8"]), service(type="NodePort")),
    ("Cluster after Local", service(type="LoadBalancer", externalTrafficPolicy="Local"), service(type="LoadBalancer")),
    ("ExternalName after ClusterIP", service(), external_service()),
    ("ExternalName after NodePort", service(type="NodePort"), external_service()),
    ("ClusterIP after ExternalName", external_service(), service()),
    ("no affinity", service(sessionAffinity="ClientIP"), service(sessionAffinity="None")),
    ("one family", service(ipFamilyPolicy="PreferDualStack"), service(ipFamilyPolicy="SingleStack")),
    ("another port", service(ports=[{"name": "a", "port": 80}]), service(ports=[{"name": "a", "port": 81, "protocol": "UDP"}])),
    ("a metric after the default", autoscaler(), autoscaler(metrics=[MEMORY])),
    ("AverageValue after Utilization", autoscaler(metrics=[CPU]), autoscaler(metrics=[metric("cpu", type="AverageValue", averageValue="1")])),
    ("no metric", autoscaler(metrics=[MEMORY]), autoscaler()),
    ("a behavior", autoscaler(behavior={"scaleDown": {"stabilizationWindowSeconds": 5}}), autoscaler(behavior={"scaleUp": {"stabilizationWindowSeconds": 5}})),
    ("an older version", autoscaler(metrics=[MEMORY], behavior={"scaleDown": {"stabilizationWindowSeconds": 5}}), autoscaler("v1", targetCPUUtilizationPercentage=70)),
    ("a newer version", autoscaler("v1", targetCPUUtilizationPercentage=70), autoscaler(metrics=[MEMORY])),
    ("an older version of another metric", autoscaler(metrics=[MEMORY]), autoscaler("v1")),
    ("egress after ingress", policy(ingress=[{}]), policy(egress=[{}])),
    ("egress with ingress", policy(ingress=[{}]), policy(ingress=[{}], egress=[{"to": [{"podSelector": {}}]}])),
    ("no egress", policy(ingress=[{}], egress=[{}]), policy(ingress=[{}])),
    ("another image", container(image="web"), container(image="web:2")),
    ("the latest image", container(image="web:2"), container(image="web")),
    ("a digest", container(image="web:latest"), container(image="web@sha256:" + "0" * 64)),
    ("a registry with a port", container(image="registry:5000/web:1"), container(image="registry:5000/web")),
    ("an image of an init container", deployment(pod(initContainers=[{"name": "i", "image": "i:1"}])), deployment(pod(initContainers=[{"name": "i", "image": "i:latest"}]))),
    ("a backend", ingress(service={"name": "a", "port": {"number": 80}}), ingress(resource={"apiGroup": "a.example.com", "kind": "A", "name": "a"})),
    ("a port of a backend", ingress(service={"name": "a", "port": {"number": 80}}), ingress(service={"name": "a", "port": {"name": "http"}})),
    ("maxUnavailable", budget(minAvailable=1), budget(maxUnavailable=1)),
    ("a job that is indexed", cron_job(), cron_job(completions=2, completionMode="Indexed", backoffLimitPerIndex=1)),
    ("a job that is not indexed", cron_job(completions=2, completionMode="Indexed", backoffLimitPerIndex=1), cron_job()),
    ("limits", container(resources={"limits": {"cpu": "2"}}), container(resources={"limits": {"memory": "1Gi"}})),
)  # fmt: skip
"""Changes from one definition to the other."""


@pytest.mark.parametrize(("before", "after"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
async def test_the_object_is_changed_to_what_a_new_one_would_be(
    cluster: KubeWorkloadCluster, namespace: str, before: Definition, after: Definition
) -> None:
    executor = make_executor(cluster, namespace)
    first = await change(executor, before)
    second = await change(executor, after, step=first)
    created = await cluster.create_dry_run(second.manifest, kind=second.kind)
    live = await cluster.get(second.ref, kind=second.kind)
    assert live["metadata"]["uid"] == second.uid
    assert find_differences(created, live) == []


async def test_a_default_that_a_user_set_stays(cluster: KubeWorkloadCluster, namespace: str) -> None:
    executor = make_executor(cluster, namespace)
    first = await change(executor, deployment())
    await cluster.change_object(first.ref, {"spec": {"minReadySeconds": 7}}, kind=first.kind)
    second = await change(executor, deployment(strategy={"type": "Recreate"}), step=first)
    spec = (await cluster.get(second.ref, kind=second.kind))["spec"]
    assert (spec["strategy"], spec["minReadySeconds"]) == ({"type": "Recreate"}, 7)


FIXED: tuple[tuple[str, Definition, Definition, str], ...] = (
    ("a selector", deployment(selector={"matchLabels": {**LABELS, "tier": "a"}}, template={"metadata": {"labels": {**LABELS, "tier": "a"}}, "spec": pod()["spec"]}), deployment(), "spec.selector.matchLabels.tier (removed)"),
    ("a selector of a set", stateful_set(selector={"matchLabels": {**LABELS, "tier": "a"}}, template={"metadata": {"labels": {**LABELS, "tier": "a"}}, "spec": pod()["spec"]}), stateful_set(), "spec.selector.matchLabels.tier (removed)"),
    ("a name of a Service", stateful_set(serviceName="a"), stateful_set(), "spec.serviceName (removed)"),
    ("a key", ("v1", "ConfigMap", {"immutable": True, "data": {"a": "1", "b": "2"}}), ("v1", "ConfigMap", {"immutable": True, "data": {"a": "1"}}), "data.b (removed)"),
    ("all keys", ("v1", "ConfigMap", {"immutable": True, "data": {"a": "1"}}), ("v1", "ConfigMap", {"immutable": True}), "data (removed)"),
    ("a key of a Secret", ("v1", "Secret", {"immutable": True, "data": {"a": "MQ==", "b": "Mg=="}}), ("v1", "Secret", {"immutable": True, "data": {"a": "MQ=="}}), "data.b (removed)"),
    ("immutable", ("v1", "ConfigMap", {"immutable": True, "data": {"a": "1"}}), ("v1", "ConfigMap", {"data": {"a": "1"}}), "immutable (removed)"),
    ("immutable of a Secret", ("v1", "Secret", {"immutable": True, "data": {"a": "MQ=="}}), ("v1", "Secret", {"immutable": False, "data": {"a": "MQ=="}}), "immutable"),
)  # fmt: skip
"""Removals of immutable fields: from one definition to the other, and the field in the message."""


@pytest.mark.parametrize(("before", "after", "field"), [row[1:] for row in FIXED], ids=[row[0] for row in FIXED])
async def test_a_removal_that_is_impossible_needs_another_object(
    cluster: KubeWorkloadCluster, namespace: str, before: Definition, after: Definition, field: str
) -> None:
    executor = make_executor(cluster, namespace)
    first = await change(executor, before)
    refused = await execute(executor, after, step=first)
    assert isinstance(refused, StepFailure)
    assert (refused.reason, refused.immutable, refused.is_proven) == ("Immutable", field, True)


def make_executor(cluster: KubeWorkloadCluster, namespace: str) -> StepExecutor:
    return StepExecutor(
        cluster=cluster,
        manager=OURS,
        may_exist=lambda *_: False,
        our_signatures=HASHER,
        boundary=Boundary(namespace=namespace, is_confined=False),
    )


async def change(executor: StepExecutor, definition: Definition, *, step: Apply | None = None) -> Apply:
    """Apply the definition, and return its step. step: the previous one.

    A controller may write the status of the object meanwhile: a conflict is tried again, as the operator does.
    """
    done = await execute(executor, definition, step=step)
    while isinstance(done, StepFailure) and done.reason == "Conflict":
        done = await execute(executor, definition, step=step)
    assert isinstance(done, StepDone), done
    assert done.child is not None
    made = make_step(executor, definition)
    return dataclasses.replace(made, uid=done.child.uid, owned_before=done.child.ownership)


async def execute(executor: StepExecutor, definition: Definition, *, step: Apply | None = None) -> StepResult:
    """Apply the definition to the object of the step before, if there is one."""
    made = make_step(executor, definition)
    if step is not None:
        made = dataclasses.replace(made, uid=step.uid, owned_before=step.owned_before)
    return await executor.execute_step(made)


def make_step(executor: StepExecutor, definition: Definition) -> Apply:
    """The apply of a definition."""
    version, name, content = definition
    kind = executor.cluster.kinds.find(version, name)
    assert kind is not None
    namespace = executor.boundary.namespace
    ref = ObjectRef(group=kind.group, kind=kind.name, namespace=namespace, name="web")
    metadata = {"name": "web", "namespace": namespace, "labels": OWN_LABELS}
    manifest = {"apiVersion": version, "kind": name, "metadata": metadata, **content}
    return Apply(resource="a", kind=kind, ref=ref, manifest=manifest, hash="h", uid=None)


def find_differences(created: Object, live: Object) -> list[str]:
    """The fields that differ from a new object, except fields that the API server allocates."""
    specs = ({"metadata": {"annotations": raw["metadata"].get("annotations")}, "spec": raw["spec"]} for raw in (created, live))  # fmt: skip
    return [f"{each.text}: {each.new}" for each in field_changes.find_changes(*specs) if not each.text.startswith(ALLOCATED)]  # fmt: skip
