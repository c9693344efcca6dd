"""Situations in which a Stack is not as it should be, each on a real API server, and how they are to be explained.

What no node of the control plane can do (pull images, crash, probe) is written into the status of the pod as a kubelet
writes it; everything else is made by the real server and its controllers.
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
    """One Stack in trouble. `NS` in any text stands for the namespace."""

    name: str
    resources: Mapping[str, Any]
    spec: Mapping[str, Any] = field(default_factory=dict)
    before: Sequence[Object] = ()
    """Objects that are there before the Stack."""
    pod: Object | None = None
    """The status that the pods of the Stack get, as a kubelet writes it."""
    event: tuple[str, str] | None = None
    """Reason and message of a Warning about these pods."""
    then: Sequence[tuple[str, str, Object | None]] = ()
    """Once the Stack is settled: kind, name and a merge patch, None for a deletion."""
    where: str = ""
    """The resource that is asked about; "" for the Stack."""
    expected: Sequence[str]
    """What the explanation contains."""


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
    # The stages of the control plane start a pod that is Pending.
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


CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""},
}
ENDED = {"exitCode": 3, "reason": "Error", "message": "no such host: db\x1b[2J", "finishedAt": "2026-01-01T00:00:00Z"}
POD_SITUATIONS = (
    Situation(
        name="image",
        resources={"web": resource(deployment())},
        pod=held(state={"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "web:1"'}}),
        expected=[
            "web (deployment/image-web): progressing",
            "container app: the image web:1 cannot be pulled: ImagePullBackOff: Back-off pulling image",
            "→ kubectl describe pod image-web-",
        ],
    ),
    Situation(
        name="crash",
        resources={"web": resource(deployment())},
        pod=held(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ENDED}, restartCount=4),
        expected=[
            "container app ends with exit code 3 (Error): no such host: db\\x1b[2J, and was restarted 4 times",
            " -c app --previous",
        ],
    ),
    Situation(
        name="memory",
        resources={"web": resource(deployment())},
        pod=held(
            state={"waiting": {"reason": "CrashLoopBackOff"}},
            lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        ),
        expected=["container app ends with exit code 137 (OOMKilled)"],
    ),
    Situation(
        name="settings",
        resources={"web": resource(deployment())},
        pod=held(state={"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "db" not found'}}),
        expected=['container app cannot start: CreateContainerConfigError: secret "db" not found'],
    ),
    Situation(
        name="init",
        resources={"web": resource(deployment())},
        pod=held(state={"waiting": {"reason": "PodInitializing"}})
        | {
            "initContainerStatuses": [
                {
                    "name": "migrate",
                    "image": "m:1",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 1,
                    "state": {"terminated": {"exitCode": 2, "reason": "Error"}},
                }
            ]
        },
        expected=["init container migrate ended with exit code 2 (Error)", " -c migrate"],
    ),
    Situation(
        name="mount",
        resources={"web": resource(deployment())},
        pod=held(state={"waiting": {"reason": "ContainerCreating"}}),
        event=("FailedMount", 'MountVolume.SetUp failed for volume "tls": secret "tls" not found'),
        expected=['cannot start: FailedMount: MountVolume.SetUp failed for volume "tls": secret "tls" not found'],
    ),
    Situation(
        name="probe",
        resources={"web": resource(deployment())},
        pod=held(state={"running": {"startedAt": "2026-01-01T00:00:00Z"}}) | {"conditions": unready()},
        event=("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500"),
        expected=["runs, but is not ready: Readiness probe failed: HTTP probe failed with statuscode: 500"],
    ),
    Situation(
        name="gate",
        resources={"web": resource(deployment())},
        pod=held(state={"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        | {"conditions": unready("ReadinessGatesNotReady")},
        expected=["runs, but is not ready: ReadinessGatesNotReady"],
    ),
    Situation(
        name="schedule",
        resources={"web": resource(deployment(nodeSelector={"disk": "golden"}))},
        expected=["cannot be scheduled: Unschedulable: 0/", "didn't match Pod's node affinity/selector"],
    ),
    Situation(
        name="gated",
        resources={"web": resource(deployment(schedulingGates=[{"name": "example.org/wait"}]))},
        expected=["cannot be scheduled: SchedulingGated"],
    ),
    Situation(
        name="podquota",
        resources={"web": resource(deployment(held=False, containers=[{"name": "app", "image": "web:1"}]))},
        before=[quota("no-best-effort", hard={"pods": "0"}, scopes=["BestEffort"])],
        expected=[
            "its pods are rejected: pods ",
            "exceeded quota: no-best-effort",
            "→ kubectl describe resourcequota no-best-effort -n NS",
        ],
    ),
    Situation(
        name="account",
        resources={"web": resource(deployment(held=False, serviceAccountName="absent"))},
        expected=['its pods are rejected: pods "', 'serviceaccount "absent" not found'],
    ),
    Situation(
        name="job",
        resources={
            "once": resource(
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "spec": {
                        "backoffLimit": 0,
                        "template": pods({"test.hearth.dev/pod": "never-ready"}, restartPolicy="Never"),
                    },
                },
                updatePolicy={"replace": "Never"},
            )
        },
        pod={"phase": "Failed", "containerStatuses": held(state={"terminated": ENDED})["containerStatuses"]},
        expected=[
            "once (job/job-once): failed",
            "BackoffLimitExceeded",
            "container app ended with exit code 3 (Error)",
        ],
    ),
)
STACK_SITUATIONS = (
    Situation(
        name="claim",
        resources={"disk": resource(CLAIM)},
        expected=[
            "disk (persistentvolumeclaim/claim-disk): progressing",
            "FailedBinding: no persistent volumes available",
        ],
    ),
    Situation(
        name="chain",
        resources={
            "web": resource(deployment(nodeSelector={"disk": "golden"})),
            "middle": resource(config(), dependsOn=["web"]),
            "last": resource(config(data={"of": "${middle.metadata.name}"})),
        },
        where="last",
        expected=[
            "└─ last (configmap): waiting: waits for middle",
            "   └─ middle (configmap): waiting: waits for web",
            "      └─ web (deployment/chain-web): progressing",
            "         └─ pod/chain-web-",
        ],
    ),
    Situation(
        name="roots",
        resources={
            "web": resource(deployment(nodeSelector={"disk": "golden"})),
            "middle": resource(config(), dependsOn=["web"]),
            "last": resource(config(), dependsOn=["middle"]),
        },
        expected=["└─ web (deployment/roots-web): progressing", "(last, middle wait for it)"],
    ),
    Situation(
        name="quota",
        resources={
            "job": resource(
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "spec": {
                        "schedule": "0 0 1 1 *",
                        "jobTemplate": {"spec": {"template": pods({}, restartPolicy="Never")}},
                    },
                }
            )
        },
        before=[quota("no-cron", hard={"count/cronjobs.batch": "0"})],
        expected=[
            "job (cronjob): failed: Unavailable: ",
            "exceeded quota: no-cron",
            "kubectl describe resourcequota no-cron -n NS",
        ],
    ),
    Situation(
        name="invalid",
        resources={"svc": resource({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 123456}]}})},
        expected=["svc (service): failed: Invalid: ", "spec.ports[0].port", "→ kubectl edit stack invalid -n NS"],
    ),
    Situation(
        name="template",
        resources={"web": resource(config(data={"a": "${params.none}", "b": "${params.nothing}"}))},
        expected=[
            "the definition is rejected, and what runs stays as it is",
            "data.a",
            "data.b",
            "→ kubectl edit stack template -n NS",
        ],
    ),
    Situation(
        name="source",
        resources={"web": resource(config())},
        spec={"parametersFrom": [{"secretRef": {"name": "absent"}}]},
        expected=["the definition is rejected", "absent"],
    ),
    Situation(
        name="owned",
        resources={"web": resource(config(metadata={"name": "taken"}))},
        before=[config(metadata={"name": "taken"}, data={"a": "b"})],
        expected=[
            "web (configmap): failed: NotOwned: ",
            "→ kubectl patch stack owned -n NS --type=merge -p",
            '"adoptionPolicy":"Adopt"',
        ],
    ),
    Situation(
        name="outside",
        resources={"web": resource(config(metadata={"namespace": "kube-system"}))},
        expected=["the definition is rejected", "is in namespace kube-system"],
    ),
    Situation(
        name="kind",
        resources={"web": resource({"apiVersion": "example.org/v1", "kind": "Widget", "spec": {}})},
        expected=["web (widget): waiting: KindNotServed", "→ kubectl api-resources"],
    ),
    Situation(
        name="rights",
        resources={"web": resource(config())},
        before=[{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "weak"}}],
        spec={"serviceAccountName": "weak"},
        expected=["web (configmap): failed: Forbidden: ", "system:serviceaccount:NS:weak"],
    ),
    Situation(
        name="webhook",
        resources={"web": resource(config(metadata={"labels": {"test.hearth.dev/hook": "NS"}}))},
        before=[
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "NS"},
                "webhooks": [
                    {
                        "name": "hook.example.org",
                        "clientConfig": {"url": "https://127.0.0.1:1/"},
                        "rules": [
                            {
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "operations": ["CREATE"],
                                "resources": ["configmaps"],
                            }
                        ],
                        "objectSelector": {"matchLabels": {"test.hearth.dev/hook": "NS"}},
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "timeoutSeconds": 1,
                    }
                ],
            }
        ],
        expected=[
            "web (configmap): failed: Unavailable: ",
            'failed calling webhook "hook.example.org"',
            "→ kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ],
    ),
    Situation(
        name="break",
        resources={"web": resource(config()), "last": resource(config(), dependsOn=["web"])},
        spec={"environment": {"breakpoints": [{"resource": "web", "at": ["PreCreate"]}]}},
        expected=[
            "web: stopped at the breakpoint PreCreate, until a user continues it (last waits for it)",
            "→ kubectl stack continue break web/PreCreate -n NS",
        ],
    ),
    Situation(
        name="inner",
        resources={"cache": resource(nested(db=resource(config())))},
        spec={"environment": {"breakpoints": [{"resource": "cache/db", "at": ["PreCreate"]}]}},
        expected=[
            "cache (stack.hearth.dev/inner-cache): ",
            "db: stopped at the breakpoint PreCreate",
            "→ kubectl stack continue inner-cache db/PreCreate -n NS",
        ],
    ),
    Situation(
        name="nested",
        resources={"cache": resource(nested(db=resource(deployment(nodeSelector={"disk": "golden"}))))},
        where="cache/db",
        expected=["└─ db (deployment/nested-cache-db): progressing", "cannot be scheduled: Unschedulable"],
    ),
    Situation(
        name="paused",
        resources={"web": resource(config())},
        spec={"paused": True},
        expected=["stack/paused: spec.paused prevents: apply web", "→ kubectl stack unpause paused -n NS"],
    ),
    Situation(
        name="suspended",
        resources={"web": resource(config())},
        spec={"suspended": True},
        expected=["the Stack is suspended", "→ kubectl stack resume suspended -n NS"],
    ),
    Situation(
        name="field",
        resources={"web": resource(config()), "last": resource(config(data={"a": "${web.data.absent}"}))},
        expected=["last (configmap): waiting: FieldNotFound: ", "web.data.absent"],
    ),
    Situation(
        name="rule",
        resources={"web": resource(config(data={"ready": "no"}), readyWhen=["web.data.ready == 'yes'"])},
        expected=["web (configmap/rule-web): ", "readyWhen"],
    ),
    Situation(
        name="time",
        resources={"web": resource(deployment(nodeSelector={"disk": "golden"}))},
        spec={"timeout": "1s"},
        expected=["not reached within 1s (spec.timeout)", "cannot be scheduled: Unschedulable"],
    ),
    Situation(
        name="denied",
        resources={"web": resource(config(data={"size": "${params.size}"}))},
        spec={"environment": {"restrictedActions": [{"resource": "web", "deny": ["Update"]}]}},
        then=[("Stack", "denied", {"spec": {"parameters": {"size": "m"}}})],
        expected=["web (configmap/denied-web): failed: Restricted: ", "→ kubectl edit stack denied -n NS"],
    ),
    Situation(
        name="rolled",
        resources={"web": resource(config(data={"size": "${params.size}"}))},
        spec={
            "rollback": {"onFailure": True},
            "environment": {"restrictedActions": [{"resource": "web", "deny": ["Update"]}]},
        },
        then=[("Stack", "rolled", {"spec": {"parameters": {"size": "m"}}})],
        expected=["the definition in the spec failed and was rolled back: ", "→ kubectl stack history rolled -n NS"],
    ),
    Situation(
        name="held",
        resources={"web": resource(config(), updatePolicy={"replace": "CreateFirst"})},
        then=[
            ("ConfigMap", "held-web", WAITING),
            ("ConfigMap", "held-web", None),
        ],
        expected=["configmap/held-web", "is being deleted, held by the finalizers example.org/hold"],
    ),
    Situation(
        name="deleted",
        resources={"web": resource(config())},
        then=[("ConfigMap", "deleted-web", WAITING), ("Stack", "deleted", None)],
        expected=["configmap/deleted-web", "example.org/hold"],
    ),
    Situation(
        name="marked",
        resources={"web": resource(config(), updatePolicy={"replace": "Never"})},
        then=[("ConfigMap", "marked-web", {"metadata": {"annotations": {"hearth.dev/unhealthy": "answers 500"}}})],
        expected=["answers 500", "→ kubectl stack unmark marked web -n NS"],
    ),
    Situation(
        name="drift",
        resources={"web": resource(config(data={"a": "b"}), driftPolicy="Report")},
        then=[("ConfigMap", "drift-web", {"data": {"a": "c"}})],
        expected=["Drifted: web", "kubectl-stack-tests", "→ kubectl stack check drift -n NS --wait"],
    ),
    Situation(
        name="twice",
        resources={"a": resource(config(metadata={"name": "same"})), "b": resource(config(metadata={"name": "same"}))},
        expected=["names configmap/same, which the resource 'a' also names; rename one of them"],
    ),
    Situation(
        name="fine",
        resources={"web": resource(config())},
        expected=["stack/fine: nothing is wrong (CreateComplete 1/1)"],
    ),
)
ALL = (*POD_SITUATIONS, *STACK_SITUATIONS)
