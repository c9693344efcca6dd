"""Changes and their rollback on a real API server: the predictions of `kubectl stack diff` about a rollback come true.

Each row is a Stack with one change. All of them are changed and rolled back at the same time.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hearth.cli.stack_access import dry_runs, stack_previews
from hearth.cli.stack_access.dry_runs import DryRunCluster
from hearth.cli.stack_access.session import Session
from hearth.model import errors, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.tenancy import Mode, Tenancy
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, STACK, VOLUME_CLAIM
from hearth.plan.ownership import field_changes
from hearth.plan.resource import reversal
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.preview.changes import Preview
from support.real import operator_fleet
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.stories import set_replacement_scenarios, stack_manifests
from support.stories.snapshot_scene import Scene
from support.stories.volume_driver import VolumeBinder

REVERSIBLE, RECREATES, ONE_WAY = UndoGrade
POLL = 0.3
PATIENCE = 150.0
"""Seconds for one row, next to all others."""
MOST_FALSE = 0.05
"""Maximum share of changes that are reported as one-way although a rollback undoes them."""
CREATOR: Final = "creator"
"""The field manager of objects that others create."""
ASSIGNED: Final = "storage-provisioner"
"""Part of the keys of annotations that a controller adds to claims some time later."""
SETTLING = 20.0
"""Seconds until controllers have followed a rollback."""
GLANCE = 3.0
"""The same for a rollback that is not expected to restore everything."""
WRITES = 10
"""Attempts to write an object after its kind changed: the API server uses the former schema for some seconds."""
TENANCY = Tenancy(mode=Mode.TRUSTED)
ENDED: Final = ("CreateComplete", "UpdateComplete", "RollbackComplete", "UpdateFailed", "RollbackFailed")
KINDS: Final = {
    name: well_known_kinds.regular_kind(group, name)
    for group, names in {
        "": ("ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "Pod"),
        "apps": ("Deployment", "StatefulSet", "DaemonSet"),
        "policy": ("PodDisruptionBudget",),
        "batch": ("Job", "CronJob"),
        "rbac.authorization.k8s.io": ("Role", "RoleBinding"),
    }.items()
    for name in names
} | {
    "NetworkPolicy": Kind(
        group="networking.k8s.io", version="v1", name="NetworkPolicy", plural="networkpolicies", namespaced=True
    ),
    "HorizontalPodAutoscaler": well_known_kinds.regular_kind("autoscaling", "HorizontalPodAutoscaler", version="v2"),
    "Namespace": NAMESPACE,
    "CustomResourceDefinition": CUSTOM_RESOURCE_DEFINITION,
}
"""By name: the kinds of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One change of the resource `it`."""

    id: str
    before: Object | None
    """The resource; None if it does not exist."""
    after: Object | None
    grade: UndoGrade
    field: str = ""
    """The field that makes the change one-way."""
    lost: str = ""
    """Part of the data that a new object loses."""
    has_run: bool = False
    """Whether Pods have run, which the objects do not show afterward."""
    first: tuple[Object, ...] = ()
    """Objects that exist before the Stack."""
    meanwhile: Object | None = None
    """A merge patch of the object by another client, before the change."""
    status: Object | None = None
    """A merge patch of its status at that time."""
    touched: bool = False
    """Whether another client writes an object of the kind after the change."""
    claims: int = 0
    """Number of claims that the StatefulSet controller creates."""
    leaves_claims: bool = False
    """Whether a rollback leaves claims that the controller makes after the change."""


def resource(manifest: Object, **options: Any) -> Object:
    return {"manifest": manifest, "readyWhen": ["true"], **options}


def config(data: Object, kind: str = "ConfigMap", *, more: Object | None = None, **options: Any) -> Object:
    return resource({"apiVersion": "v1", "kind": kind, "data": data, **(more or {})}, **options)


def pod(image: str = "shop:1", **container: Any) -> Object:
    return {"containers": [{"name": "main", "image": image, **container}]}


def deployment(app: str = "shop", spec: Object | None = None, **container: Any) -> Object:
    labels = {"app": app}
    whole = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod(**container)},
        **(spec or {}),
    }
    return resource({"apiVersion": "apps/v1", "kind": "Deployment", "spec": whole})


def stateful_set(size: str = "1Gi", spec: Object | None = None, app: str = "shop", **options: Any) -> Object:
    labels = {"app": app}
    claim_spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": set_replacement_scenarios.GROWING,
        "resources": {"requests": {"storage": size}},
    }
    whole = {
        "replicas": 1,
        "serviceName": "shop",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod()},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec}],
        **(spec or {}),
    }
    return resource({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": whole}, **options)


def service(port: int = 80, **spec: Any) -> Object:
    whole = {"selector": {"app": "shop"}, "ports": [{"name": "web", "port": port}], **spec}
    return resource({"apiVersion": "v1", "kind": "Service", "spec": whole})


def job(image: str = "shop:1", **spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", **pod(image)}}
    return resource({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template, **spec}})


def cron_job(schedule: str = "0 0 1 1 *", **spec: Any) -> Object:
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", **pod()}}}}
    whole = {"schedule": schedule, "jobTemplate": template, **spec}
    return resource({"apiVersion": "batch/v1", "kind": "CronJob", "spec": whole})


def claim(size: str = "1Gi", labels: Object | None = None, **options: Any) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": set_replacement_scenarios.GROWING,
        "resources": {"requests": {"storage": size}},
    }
    manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"labels": labels or {}}, "spec": spec}
    return resource(manifest, **options)


def namespace(**labels: str) -> Object:
    return resource({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "NAME", "labels": labels}})


def role(*verbs: str) -> Object:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]
    return resource({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules})


def definition(*versions: str, stored: str = "v1", fields: tuple[str, ...] = ("size",), **more: Any) -> Object:
    properties = {name: {"type": "integer"} for name in fields}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    listed = [
        {"name": each, "served": True, "storage": each == stored, "schema": {"openAPIV3Schema": schema}, **more}
        for each in versions
    ]
    named = {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"}
    spec = {"group": "NAME.example.com", "scope": "Namespaced", "names": named, "versions": listed}
    metadata = {"name": "things.NAME.example.com"}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return resource({**kind, "metadata": metadata, "spec": spec})


def existing(data: Object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NAME-it"}, "data": data}


def daemon_set(**spec: Any) -> Object:
    labels = {"app": "shop"}
    whole = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod()}, **spec}
    return resource({"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": whole})


def network_policy(**spec: Any) -> Object:
    whole = {"podSelector": {"matchLabels": {"app": "shop"}}, "ingress": [{"ports": [{"port": 80}]}], **spec}
    return resource({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": whole})


def autoscaler(**spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    whole = {"scaleTargetRef": target, "maxReplicas": 3, **spec}
    return resource({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": whole})


def disruption_budget(**spec: Any) -> Object:
    whole = {"selector": {"matchLabels": {"app": "none"}}, **spec}
    return resource({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": whole})


def in_pods(**spec: Any) -> Object:
    """A Deployment whose Pods have this spec."""
    labels = {"app": "shop"}
    template = {"metadata": {"labels": labels}, "spec": {**pod(ports=[{"containerPort": 8080}]), **spec}}
    return deployment(spec={"template": template})


ADOPT: Final[Mapping[str, Any]] = {"adoptionPolicy": "Adopt"}
RETAIN: Final[Mapping[str, Any]] = {"deletionPolicy": "Retain"}
KEEP_CLAIMS: Final[Mapping[str, Any]] = {"updatePolicy": {"replace": "KeepClaims"}}
DELETE_FIRST: Final[Mapping[str, Any]] = {"updatePolicy": {"replace": "DeleteFirst"}}
CREATE_FIRST: Final[Mapping[str, Any]] = {"updatePolicy": {"replace": "CreateFirst"}}
DELETED: Final = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}
SCALED: Final = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}}
STORAGE: Final = "spec.resources.requests.storage"
ONE, TWO = config({"a": "1"}), config({"a": "2", "b": "1"})
ROWS: Final = (
    Row(id="config-changes", before=ONE, after=TWO, grade=REVERSIBLE),
    Row(id="config-loses-a-key", before=TWO, after=ONE, grade=REVERSIBLE),
    Row(id="config-is-created", before=None, after=ONE, grade=REVERSIBLE),
    Row(id="config-is-deleted", before=ONE, after=None, grade=RECREATES),
    Row(id="config-becomes-immutable", before=ONE, after=config({"a": "1"}, more={"immutable": True}), grade=RECREATES),
    Row(
        id="config-sets-a-key-of-others", before=ONE, after=TWO, grade=ONE_WAY, field="data.b", meanwhile={"data": {"b": "theirs"}}
    ),
    Row(
        id="config-next-to-a-key-of-others", before=ONE, after=config({"a": "3"}), grade=REVERSIBLE, meanwhile={"data": {"b": "theirs"}}
    ),
    Row(
        id="config-with-a-key-of-others-is-deleted", before=ONE, after=None, grade=ONE_WAY, field="data.b", meanwhile={"data": {"b": "theirs"}}
    ),
    Row(id="config-is-created-and-retained", before=None, after=config({"a": "1"}, **RETAIN), grade=ONE_WAY, field="deletionPolicy"),
    Row(id="retained-config-is-released", before=config({"a": "1"}, **RETAIN), after=None, grade=ONE_WAY, field="deletionPolicy"),
    Row(id="retained-config-is-released-and-adopted", before=config({"a": "1"}, **RETAIN, **ADOPT), after=None, grade=REVERSIBLE),
    Row(id="adopted-config-is-released", before=config({"a": "1"}, **ADOPT), after=None, grade=REVERSIBLE, first=(existing({"a": "1"}),)),
    Row(id="config-is-adopted", before=None, after=config({"a": "1"}, **ADOPT), grade=REVERSIBLE, first=(existing({"a": "1"}),)),
    Row(
        id="config-is-adopted-and-changed", before=None, after=config({"a": "2"}, **ADOPT), grade=ONE_WAY, field="data.a",
        first=(existing({"a": "1"}),),
    ),
    Row(id="secret-changes", before=config({"a": "MQ=="}, "Secret"), after=config({"a": "Mg=="}, "Secret"), grade=REVERSIBLE),
    Row(
        id="secret-gets-another-type", before=config({"a": "MQ=="}, "Secret"),
        after=config({"a": "MQ=="}, "Secret", more={"type": "example.com/other"}), grade=RECREATES,
    ),
    Row(
        id="generated-secret-is-deleted", before=config({}, "Secret"), after=None, grade=ONE_WAY, field="data.password",
        meanwhile={"data": {"password": "MQ=="}},
    ),
    Row(id="deployment-gets-an-image", before=deployment(), after=deployment(image="shop:2"), grade=REVERSIBLE),
    Row(id="deployment-gets-a-count", before=deployment(), after=deployment(spec={"replicas": 2}), grade=ONE_WAY, field="spec.replicas"),
    Row(
        id="deployment-gets-another-count", before=deployment(spec={"replicas": 2}), after=deployment(spec={"replicas": 3}), grade=REVERSIBLE,
    ),
    Row(
        id="deployment-orders-its-environment",
        before=deployment(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
        after=deployment(env=[{"name": "B", "value": "2"}, {"name": "C", "value": "3"}, {"name": "A", "value": "1"}]),
        grade=REVERSIBLE,
    ),
    Row(id="deployment-gets-a-strategy", before=deployment(), after=deployment(spec={"strategy": {"type": "Recreate"}}), grade=REVERSIBLE),
    Row(
        id="deployment-sets-a-count-of-others", before=deployment(), after=deployment(spec={"replicas": 2}), grade=ONE_WAY,
        field="spec.replicas", meanwhile={"spec": {"replicas": 4}},
    ),
    Row(id="deployment-gets-a-selector", before=deployment(), after=deployment(app="other"), grade=RECREATES, lost="history"),
    Row(id="deployment-is-deleted", before=deployment(), after=None, grade=RECREATES, lost="history"),
    Row(
        id="set-gets-an-image", before=stateful_set(), after=stateful_set(spec={"template": {"metadata": {"labels": {"app": "shop"}}, "spec": pod("shop:2")}}),
        grade=REVERSIBLE, claims=1,
    ),
    Row(id="set-is-scaled-down", before=stateful_set(spec={"replicas": 2}), after=stateful_set(), grade=REVERSIBLE, claims=2),
    Row(id="set-is-created", before=None, after=stateful_set(), grade=REVERSIBLE, leaves_claims=True),
    Row(id="set-that-deletes-its-claims-is-created", before=None, after=stateful_set(spec=DELETED), grade=REVERSIBLE),
    Row(
        id="set-is-scaled-up", before=stateful_set(), after=stateful_set(spec={"replicas": 2}), grade=REVERSIBLE, claims=1, leaves_claims=True,
    ),
    Row(
        id="set-is-scaled-down-with-its-claims", before=stateful_set(spec={"replicas": 2, **SCALED}), after=stateful_set(spec=SCALED),
        grade=ONE_WAY, field="spec.replicas", claims=2,
    ),
    Row(
        id="set-gets-a-service", before=stateful_set(**KEEP_CLAIMS), after=stateful_set(spec={"serviceName": "other"}, **KEEP_CLAIMS),
        grade=RECREATES, lost="history", claims=1,
    ),
    Row(
        id="set-gets-larger-claims", before=stateful_set(**KEEP_CLAIMS), after=stateful_set("2Gi", **KEEP_CLAIMS), grade=ONE_WAY,
        field=f"spec.volumeClaimTemplates[data].{STORAGE}", claims=1,
    ),
    Row(
        id="set-gets-other-claims", before=stateful_set(**CREATE_FIRST), after=stateful_set("2Gi", **CREATE_FIRST), grade=RECREATES,
        lost="the data since then", claims=1,
    ),
    Row(id="set-is-deleted", before=stateful_set(), after=None, grade=RECREATES, lost="history", claims=1),
    Row(
        id="set-is-deleted-with-its-claims", before=stateful_set(spec=DELETED), after=None, grade=ONE_WAY,
        field="spec.persistentVolumeClaimRetentionPolicy.whenDeleted", claims=1,
    ),
    Row(id="service-gets-a-port", before=service(), after=service(8080), grade=REVERSIBLE),
    Row(id="service-opens-a-node-port", before=service(), after=service(type="NodePort"), grade=REVERSIBLE),
    Row(id="service-closes-a-node-port", before=service(type="NodePort"), after=service(type="ClusterIP"), grade=RECREATES, lost="node port"),
    Row(id="service-becomes-headless", before=service(), after=service(clusterIP="None"), grade=RECREATES, lost="cluster IP"),
    Row(
        id="service-loses-its-balancer", before=service(type="LoadBalancer"), after=service(type="ClusterIP"), grade=RECREATES,
        lost="external address", status={"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}},
    ),
    Row(id="service-is-deleted", before=service(), after=None, grade=RECREATES, lost="cluster IP"),
    Row(id="service-gets-an-affinity", before=service(), after=service(sessionAffinity="ClientIP"), grade=REVERSIBLE),
    Row(id="service-loses-an-affinity", before=service(sessionAffinity="ClientIP"), after=service(), grade=REVERSIBLE),
    Row(id="service-prefers-two-families", before=service(), after=service(ipFamilyPolicy="PreferDualStack"), grade=REVERSIBLE),
    Row(id="service-becomes-a-name", before=service(), after=service(type="ExternalName", externalName="example.com"), grade=RECREATES, lost="cluster IP"),
    Row(
        id="balancer-becomes-local", before=service(type="LoadBalancer"),
        after=service(type="LoadBalancer", externalTrafficPolicy="Local"), grade=REVERSIBLE,
    ),
    Row(
        id="local-balancer-becomes-global", before=service(type="LoadBalancer", externalTrafficPolicy="Local"),
        after=service(type="LoadBalancer"), grade=RECREATES, lost="node port",
    ),
    Row(id="deployment-uses-the-host-network", before=in_pods(), after=in_pods(hostNetwork=True), grade=REVERSIBLE),
    Row(
        id="deployment-gets-another-volume", before=in_pods(volumes=[{"name": "v", "emptyDir": {}}]),
        after=in_pods(volumes=[{"name": "v", "configMap": {"name": "other"}}]), grade=REVERSIBLE,
    ),
    Row(id="deployment-gets-an-account", before=in_pods(), after=in_pods(serviceAccountName="other"), grade=REVERSIBLE),
    Row(id="deployment-gets-the-latest-image", before=deployment(), after=deployment(image="shop"), grade=REVERSIBLE),
    Row(
        id="deployment-gets-another-probe", before=deployment(livenessProbe={"httpGet": {"path": "/", "port": 80}}),
        after=deployment(livenessProbe={"exec": {"command": ["true"]}}), grade=REVERSIBLE,
    ),
    Row(id="daemon-set-waits-for-deletion", before=daemon_set(), after=daemon_set(updateStrategy={"type": "OnDelete"}), grade=REVERSIBLE),
    Row(id="network-policy-gets-egress", before=network_policy(), after=network_policy(egress=[{}]), grade=REVERSIBLE),
    Row(id="autoscaler-gets-a-minimum", before=autoscaler(), after=autoscaler(minReplicas=2, maxReplicas=5), grade=REVERSIBLE),
    Row(
        id="budget-counts-otherwise", before=disruption_budget(minAvailable=1), after=disruption_budget(maxUnavailable=1), grade=REVERSIBLE,
    ),
    Row(id="budget-is-deleted", before=disruption_budget(minAvailable=1), after=None, grade=RECREATES),
    Row(id="job-is-created", before=None, after=job(), grade=ONE_WAY, field="spec.template", has_run=True),
    Row(id="suspended-job-is-created", before=None, after=job(suspend=True), grade=REVERSIBLE),
    Row(id="job-gets-an-image", before=job(), after=job("shop:2"), grade=ONE_WAY, field="spec.template", has_run=True),
    Row(id="suspended-job-gets-a-count", before=job(suspend=True), after=job(suspend=True, completions=2), grade=RECREATES, lost="logs"),
    Row(id="job-resumes", before=job(suspend=True), after=job(suspend=False), grade=ONE_WAY, field="spec.suspend", has_run=True),
    Row(id="job-is-deleted", before=job(), after=None, grade=RECREATES, lost="logs"),
    Row(id="job-gets-a-time-to-live", before=job(suspend=True), after=job(suspend=True, ttlSecondsAfterFinished=600), grade=REVERSIBLE),
    Row(id="cron-job-gets-a-schedule", before=cron_job(), after=cron_job("0 0 2 1 *"), grade=REVERSIBLE),
    Row(id="cron-job-is-suspended", before=cron_job(), after=cron_job(suspend=True), grade=REVERSIBLE),
    Row(id="cron-job-is-deleted", before=cron_job(), after=None, grade=RECREATES, lost="its Jobs"),
    Row(id="claim-gets-a-label", before=claim(), after=claim(labels={"tier": "db"}), grade=REVERSIBLE),
    Row(id="claim-is-created", before=None, after=claim(), grade=REVERSIBLE),
    Row(id="claim-grows", before=claim(), after=claim("2Gi"), grade=ONE_WAY, field=STORAGE, claims=1),
    Row(id="claim-shrinks", before=claim("2Gi", **DELETE_FIRST), after=claim(**DELETE_FIRST), grade=ONE_WAY, claims=1),
    Row(id="claim-is-deleted", before=claim(), after=None, grade=ONE_WAY),
    Row(id="namespace-gets-a-label", before=namespace(), after=namespace(tier="db"), grade=REVERSIBLE),
    Row(id="namespace-is-created", before=None, after=namespace(), grade=REVERSIBLE),
    Row(id="namespace-is-deleted", before=namespace(), after=None, grade=ONE_WAY),
    Row(id="role-gets-a-verb", before=role("get"), after=role("get", "list"), grade=REVERSIBLE),
    Row(id="role-is-deleted", before=role("get"), after=None, grade=RECREATES),
    Row(id="kind-gets-a-version", before=definition("v1"), after=definition("v1", "v2"), grade=REVERSIBLE),
    Row(
        id="kind-loses-a-version", before=definition("v1", "v2"), after=definition("v1"), grade=ONE_WAY, field="spec.versions[v2]", touched=True,
    ),
    Row(
        id="kind-stores-another-version", before=definition("v1"), after=definition("v1", "v2", stored="v2"), grade=ONE_WAY,
        field="spec.versions[v2].storage",
    ),
    Row(id="kind-stores-the-other-version", before=definition("v1", "v2"), after=definition("v1", "v2", stored="v2"), grade=REVERSIBLE),
    Row(
        id="kind-loses-a-field", before=definition("v1", fields=("size", "color")), after=definition("v1"), grade=ONE_WAY,
        field="spec.versions[v1].schema: spec.color", touched=True,
    ),
    Row(id="kind-gets-a-column", before=definition("v1"), after=definition("v1", additionalPrinterColumns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]), grade=REVERSIBLE),
    Row(id="kind-is-deleted", before=definition("v1"), after=None, grade=ONE_WAY),
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Play:
    """One row on the server."""

    row: Row
    name: str
    """Name of its Stack, and part of the names of its objects."""
    user: RealUser
    session: Session
    stacks: dict[str, Object]
    """The latest known state of all Stacks, by name."""
    said: Undo | None = None
    is_restored: bool = False
    differences: list[str] = field(default_factory=list)
    preview: Preview | None = None

    async def run(self) -> None:
        """Create, change, roll back, compare."""
        row = self.row
        for manifest in row.first:
            named = self._name(manifest)
            await self.user.create({**named, "metadata": {**named["metadata"], "namespace": self.user.namespace}})
        await self.user.create(
            stack_manifests.make_stack(self._make_spec(row.before), name=self.name, namespace=self.user.namespace)
        )
        await self._wait_phase("CreateComplete")
        await self._interfere()
        before = await self._see()
        await self._preview()
        address = stack_manifests.address_in(self.user.namespace, self.name)
        await self.user.replace_spec(address, self._make_spec(row.after))
        assert await self._wait_phase() == "UpdateComplete", self.stacks[self.name]["status"]
        if row.leaves_claims:
            await self._wait_claims(row.claims + 1)
        if row.touched:
            for at in range(WRITES):
                await self._write_thing({"metadata": {"labels": {"touched": str(at)}}})
                await asyncio.sleep(POLL)
        await self.user.patch(address, {"spec": {"rollback": {"toRevision": 1}}})
        phase = await self._wait_phase()
        self.differences = [] if phase == "RollbackComplete" else [phase]
        deadline = time.monotonic() + (SETTLING if row.grade is REVERSIBLE else GLANCE)
        while (found := await self._compare(before)) and time.monotonic() < deadline:  # noqa: ASYNC110 -- no event says so
            await asyncio.sleep(POLL)
        self.differences += found
        self.is_restored = not self.differences

    async def _compare(self, before: dict[tuple[str, str], Object]) -> list[str]:
        """The differences from the original state, except claims that the grade mentions."""
        after = await self._see()
        if self.row.leaves_claims:
            assert self.said == reversal.CLAIMS_STAY
            left = [key for key in after.keys() - before.keys() if key[0] == VOLUME_CLAIM.name]
            assert len(left) == 1, left
            after = {key: raw for key, raw in after.items() if key not in left}
        return compare(before, after)

    def _make_spec(self, it: Object | None) -> Object:
        """The spec of the Stack; its other resource never changes."""
        resources = {"other": config({"a": "1"})} | ({"it": self._name(it)} if it is not None else {})
        return {"template": {"resources": resources}}

    def _name(self, value: Any) -> Any:
        """The value with placeholders replaced by the names of this row."""
        if isinstance(value, dict):
            return {key: self._name(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._name(inner) for inner in value]
        unique = (
            f"{self.name}-{self.user.namespace}" if isinstance(value, str) and value in CLUSTER_NAMES else self.name
        )
        return value.replace("NAME", unique) if isinstance(value, str) else value

    async def _interfere(self) -> None:
        """Write as another client before the change."""
        row = self.row
        if row.claims:
            await self._bind_claims()
        kind = KINDS[row.before["manifest"]["kind"]] if row.before is not None else None
        if kind is not None and row.meanwhile is not None:
            await self.user.merge(kind, f"{self.name}-it", row.meanwhile)
        if kind is not None and row.status is not None:
            path = f"/api/v1/namespaces/{self.user.namespace}/services/{self.name}-it/status"
            await self.user.connection.request(
                "PATCH", path, body={"status": row.status}, content_type="application/merge-patch+json"
            )
        if row.touched:
            await self._write_thing(None)

    async def _bind_claims(self) -> None:
        """Bind the claims, as a storage driver does."""
        binder = VolumeBinder(World(self.user))  # type: ignore[arg-type]  # it uses only the user
        deadline = time.monotonic() + PATIENCE
        while True:
            claims = [each for each in await self._list(VOLUME_CLAIM) if self.name in each["metadata"]["name"]]
            for each in claims:
                await binder.bind(each)
            if len([each for each in claims if each["status"].get("phase") == "Bound"]) == self.row.claims:
                return
            assert time.monotonic() < deadline, f"{self.row.id}: {claims}"
            await asyncio.sleep(POLL)

    async def _wait_claims(self, count: int) -> None:
        """Wait until the StatefulSet controller has created the expected claims."""
        while len([each for each in await self._list(VOLUME_CLAIM) if self.name in each["metadata"]["name"]]) < count:  # noqa: ASYNC110 -- no event says so
            await asyncio.sleep(POLL)

    async def _write_thing(self, patch: Object | None) -> None:
        """Create an object of the kind, or change it."""
        assert self.row.before is not None
        group = f"{self.name}-{self.user.namespace}.example.com"
        version = self.row.before["manifest"]["spec"]["versions"][-1]["name"]
        kind = Kind(group=group, version="v1", name="Thing", plural="things", namespaced=True)
        created = dataclasses.replace(kind, version=version)
        if patch is not None:
            await self.user.merge(kind, "one", patch)
            return
        body = {
            "apiVersion": created.api_version,
            "kind": "Thing",
            "metadata": {"name": "one"},
            "spec": {"size": 1, "color": 2},
        }
        while True:
            try:
                await self.user.send("POST", created, body=body, query={"fieldManager": CREATOR})
            except errors.ApiStatusError as refused:
                if not refused.is_not_found:
                    raise
                await asyncio.sleep(POLL)
            else:
                return

    async def _wait_phase(self, *wanted: str) -> str:
        """Wait until the Stack has finished its current operation; return its phase."""
        await self._settle()
        deadline = time.monotonic() + PATIENCE
        while True:
            stack = self.stacks.get(self.name, {})
            status = stack.get("status") or {}
            phase = str(status.get("phase"))
            is_current = status.get("observedGeneration") == stack.get("metadata", {}).get("generation")
            if is_current and phase in (wanted or ENDED):
                return phase
            assert time.monotonic() < deadline, f"{self.row.id}: {status}"
            await asyncio.sleep(POLL)

    async def _settle(self) -> None:
        """Wait until `stacks` has the last edit."""
        stack = await self.session.get(STACK, self.user.namespace, self.name)
        while self._find_generation() < stack["metadata"]["generation"]:  # noqa: ASYNC110 -- the watch has no event
            await asyncio.sleep(POLL)

    def _find_generation(self) -> int:
        return int((self.stacks.get(self.name) or {"metadata": {"generation": 0}})["metadata"]["generation"])

    async def _preview(self) -> None:
        """The preview of the change, as `kubectl stack diff` makes it."""
        cluster = DryRunCluster(self.session, namespace=self.user.namespace)
        spec = self._make_spec(self.row.after)
        stated = {"metadata": {"name": self.name, "namespace": self.user.namespace}, "spec": spec}
        present = await self.session.find(STACK, self.user.namespace, self.name)
        wanted = await dry_runs.try_file(cluster, stated, present)
        self.preview = await stack_previews.make_preview(
            self.session, present=present, wanted=wanted, tenancy=TENANCY, beside={}
        )
        (change,) = self.preview.changes
        self.said = change.undo

    async def _see(self) -> dict[tuple[str, str], Object]:
        """The objects of the row, by kind and name."""
        stated = [each["manifest"]["kind"] for each in (self.row.before, self.row.after) if each is not None]
        kinds = [KINDS[name] for name in dict.fromkeys(stated)]
        if "StatefulSet" in stated:
            kinds.append(VOLUME_CLAIM)
        found = {
            (kind.name, each["metadata"]["name"]): each
            for kind in kinds
            for each in await self._list(kind)
            if self.name in each["metadata"]["name"] and not each["metadata"]["name"].endswith("-other")
        }
        if self.row.touched:
            path = f"/apis/{self.name}-{self.user.namespace}.example.com/v1/namespaces/{self.user.namespace}/things/one"
            thing = await self.user.connection.request("GET", path)
            owners = [
                each["apiVersion"]
                for each in thing["metadata"].get("managedFields") or ()
                if each["manager"] == CREATOR
            ]
            found["Thing", "one"] = {**thing, "owners": owners, "metadata": {**thing["metadata"], "labels": {}}}
        return found

    async def _list(self, kind: Kind) -> list[Object]:
        return list((await self.user.send("GET", kind))["items"])


@dataclass(frozen=True, slots=True)
class World:
    """The part of a world that binds volumes."""

    user: RealUser


CLUSTER_NAMES: Final = ("NAME", "NAME.example.com", "things.NAME.example.com")
"""Names of cluster-scoped objects; no other test may use them."""


def compare(before: dict[tuple[str, str], Object], after: dict[tuple[str, str], Object]) -> list[str]:
    """The differences that a user sees."""
    found = [f"{key} is missing" for key in before.keys() - after.keys()]
    found += [f"{key} is new" for key in after.keys() - before.keys()]
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            found.append(f"{key} is another object")
        if "deletionTimestamp" in new["metadata"]:
            found.append(f"{key} is deleted")
        changes = [each for each in field_changes.find_changes(old, new) if ASSIGNED not in each.text]
        found += [f"{key}: {each.text}: {each.old} → {each.new}" for each in changes]
        addresses = [(raw.get("status") or {}).get("loadBalancer") or {} for raw in (old, new)]
        if addresses[0] != addresses[1]:
            found.append(f"{key}: another address")
    return found


async def follow_stacks(user: RealUser, stacks: dict[str, Object]) -> None:
    """Keep the Stacks of the namespace up to date."""

    def note(event: str, raw: Object) -> None:
        if event != "DELETED":
            stacks[raw["metadata"]["name"]] = raw

    await user.follow(STACK, note)


async def remove_shared(user: RealUser) -> None:
    """Delete the cluster-scoped objects, so that other tests do not find them."""
    for kind in (CUSTOM_RESOURCE_DEFINITION, NAMESPACE):
        for each in (await user.send("GET", kind))["items"]:
            name = each["metadata"]["name"]
            if user.namespace in name and name != user.namespace:
                await user.send("DELETE", kind, name)


def list_wrong(plays: list[Play]) -> Iterator[str]:
    """The rows with an unexpected or wrong grade."""
    for play in plays:
        row, said = play.row, play.said
        if said is None or said.grade is not row.grade or row.field not in ("", said.field):
            yield f"{row.id}: said {said}, and the table says {row.grade} {row.field}; differences: {play.differences}"
        elif row.lost not in ", ".join(said.lost):
            yield f"{row.id}: lost are {said.lost}, not {row.lost}"
        elif said.grade is REVERSIBLE and not play.is_restored:
            yield f"{row.id}: said to be reversible: {play.differences}"
        elif said.grade is RECREATES and play.is_restored:
            yield f"{row.id}: said to be recreated, and is restored"


async def test_every_change_is_undone_as_said(world: RealWorld) -> None:
    world.tenancy = Mode.TRUSTED
    user, stacks, session = world.user, dict[str, Object](), Session(world.user.connection)
    await set_replacement_scenarios.prepare_classes(Scene(world, VolumeBinder(world)))
    await world.start_controller()
    await session.kinds.refresh()
    plays = [Play(row=row, name=f"r{at:02d}", user=user, session=session, stacks=stacks) for at, row in enumerate(ROWS)]
    following = asyncio.create_task(follow_stacks(user, stacks))
    started = time.monotonic()
    try:
        results = await asyncio.gather(
            *(asyncio.wait_for(play.run(), PATIENCE) for play in plays), return_exceptions=True
        )
    finally:
        following.cancel()
        await world.kill_controller()
        await operator_fleet.abandon_stacks(user)
        await remove_shared(user)
    failed = [f"{play.row.id}: {result!r}" for play, result in zip(plays, results, strict=True) if result is not None]
    grades = collections.Counter(play.said.grade for play in plays if play.said is not None)
    false = [
        play.row.id
        for play in plays
        if play.said is not None and play.said.grade is ONE_WAY and play.is_restored and not play.row.has_run
    ]
    counted = ", ".join(f"{grades[grade]} {grade}" for grade in UndoGrade)
    print(f"{len(plays)} changes in {time.monotonic() - started:.0f} s: {counted}; false one-way: {false}")
    assert failed == []
    assert list(list_wrong(plays)) == []
    assert len(false) <= MOST_FALSE * grades[ONE_WAY]
