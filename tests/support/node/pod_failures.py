"""Pods that fail or wait on a real node, and the messages for users: the generated documentation page and its test.

`*` in an expected text matches the parts that differ between runs: names of Pods, addresses, restart counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

IMAGE = "registry.example/workload:1"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFailure:
    """One Stack with one resource, `web`, and the reports about its Pods."""

    title: str
    manifest: Object
    former: Object | None = None
    """The manifest before, if this is an update: the Stack is ready with it."""
    command: tuple[str, ...] = ()
    """A kubectl command that is run when the Stack is ready. `STACK` stands for its name."""
    awaited: tuple[str, ...] = ()
    """What `kubectl wait` waits for before the reports count."""
    phase: str = "CreateInProgress"
    reason: str = "Progressing"
    """The reason of the Stack's Ready condition."""
    why: tuple[str, ...] = ()
    """Lines of `kubectl stack why`, without the suggested commands; none: nothing is wrong."""
    advice: str = ""
    """A command that `kubectl stack why` suggests."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of the resource."""


def make_container(*arguments: str, **fields: Any) -> Object:
    """The container of a Pod. Flags make its server fail."""
    return {"name": "main", "image": IMAGE, "args": list(arguments), **fields}


def make_probe(path: str) -> Object:
    """A probe that fails soon."""
    return {"httpGet": {"path": path, "port": 8080}, "periodSeconds": 1, "failureThreshold": 2}


def make_deployment(*containers: Object, **spec: Any) -> Object:
    """One Pod that is always restarted, and ends quickly."""
    labels = {"app": "${stack.name}"}
    pod = {"terminationGracePeriodSeconds": 1, "containers": list(containers), **spec}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def make_workload(kind: str, container: Object) -> Object:
    """A workload of another kind with one Pod."""
    made = make_deployment(container)
    spec = {key: value for key, value in made["spec"].items() if kind != "DaemonSet" or key != "replicas"}
    return made | {"kind": kind, "spec": spec | ({"serviceName": "none"} if kind == "StatefulSet" else {})}


def make_mount(**volume: Any) -> tuple[Object, Object]:
    """A volume, as fields of a container and of its Pod."""
    return {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}, {"volumes": [{"name": "data", **volume}]}


def update_strategy(manifest: Object, **strategy: Any) -> Object:
    """The same workload with another strategy of updates."""
    key = "strategy" if manifest["kind"] == "Deployment" else "updateStrategy"
    return {**manifest, "spec": {**manifest["spec"], key: strategy}}


def make_cron_job(container: Object) -> Object:
    """A CronJob that the tests start by hand."""
    job = make_job(container, backoffLimit=0)
    spec = {"schedule": "@yearly", "jobTemplate": {"spec": job["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "spec": spec}


def make_job(container: Object, **spec: Any) -> Object:
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {**spec, "template": {"spec": pod}}}


CRASH = make_container("--crash=1s", "--code=3", "--words=no such host: db")
READY = {"readinessProbe": make_probe("/ready")}
NO_SETTINGS, NO_CLAIM, SMALL = (
    make_mount(configMap={"name": "none"}),
    make_mount(persistentVolumeClaim={"claimName": "none"}),
    make_mount(emptyDir={"sizeLimit": "1Mi"}),
)
LARGE = (
    {"volumeMounts": [*SMALL[0]["volumeMounts"], {"name": "mark", "mountPath": "/mark"}]},
    {
        "volumes": [
            *SMALL[1]["volumes"],
            # In the node's own namespace: it ends with the node.
            {"name": "mark", "hostPath": {"path": "/run/${stack.namespace}", "type": "DirectoryOrCreate"}},
        ]
    },
)
"""A limited volume, and a folder that all Pods share."""
UNMARKED = {"exec": {"command": ["sh", "-c", "test ! -e /mark/evicted"]}, "periodSeconds": 1, "failureThreshold": 2}
"""A probe that fails in each Pod once the first one is marked."""
STUBBORN = make_container(command=["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
"""A container that ignores SIGTERM."""


def make_stubborn(version: str, *, grace_seconds: int) -> Object:
    """A Deployment whose old Pod must end before its new one starts."""
    container = STUBBORN | {"env": [{"name": "VERSION", "value": version}]}
    return update_strategy(make_deployment(container, terminationGracePeriodSeconds=grace_seconds), type="Recreate")


def make_partition(container: Object, *, partition: int = 1) -> Object:
    """A StatefulSet of two Pods that updates those from the partition on."""
    made = make_workload("StatefulSet", container)
    made["spec"]["replicas"] = 2
    return update_strategy(made, type="RollingUpdate", rollingUpdate={"partition": partition})


POD_FAILURES: Mapping[str, PodFailure] = {
    "crash": PodFailure(
        title="The program ends with an error",
        manifest=make_deployment(CRASH | {"terminationMessagePolicy": "FallbackToLogsOnError"} | READY),
        why=("container main end* with exit code 3 (Error): *no such host: db, and was restarted *",),
    ),
    "end": PodFailure(
        title="The program of a Deployment ends well",
        manifest=make_deployment(make_container("--crash=1s", "--code=0", **READY)),
        why=("container main end* with exit code 0 (Completed), and was restarted *",),
    ),
    "image": PodFailure(
        title="The image cannot be pulled",
        manifest=make_deployment(make_container() | {"image": "registry.example/none:1"}),
        why=("container main: the image registry.example/none:1 cannot be pulled: *registry.example/none:1",),
    ),
    "memory": PodFailure(
        title="The container exceeds its memory limit",
        manifest=make_deployment(make_container("--leak=1s", resources={"limits": {"memory": "48Mi"}}, **READY)),
        why=("container main end* with exit code 137 (OOMKilled), and was restarted *",),
    ),
    "init": PodFailure(
        title="An init container fails",
        manifest=make_deployment(make_container(), initContainers=[CRASH | {"name": "migrate"}]),
        why=("init container migrate end* with exit code 3 (Error)*",),
    ),
    "waits": PodFailure(
        title="An init container waits",
        manifest=make_deployment(
            make_container(),
            initContainers=[
                make_container(name="wait-for-db", command=["sh", "-c", "echo waiting for db; exec sleep 1000"])
            ],
        ),
        why=("init container wait-for-db still runs; its log ends with: waiting for db",),
    ),
    "readiness": PodFailure(
        title="The readiness probe fails",
        manifest=make_deployment(make_container("--unready", **READY)),
        why=("container main runs, but is not ready: Readiness probe failed: HTTP probe failed with statuscode: 503",),
    ),
    "liveness": PodFailure(
        title="The liveness probe fails",
        manifest=make_deployment(make_container("--hang=2s", "--unready", livenessProbe=make_probe("/live"), **READY)),
        why=("container main is killed, and was restarted *: Liveness probe failed: HTTP probe failed with statuscode: 503",),
    ),
    "startup": PodFailure(
        title="The startup probe fails",
        manifest=make_deployment(make_container("--slow=1h", startupProbe=make_probe("/live"))),
        why=("container main is killed, and was restarted *: Startup probe failed: *connection refused",),
    ),
    "hook": PodFailure(
        title="The postStart hook fails",
        manifest=make_deployment(
            make_container(lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo no license; exit 1"]}}})
        ),
        why=("container main is killed, and was restarted *: its postStart hook fails: PostStartHook failed",),
    ),
    "slow": PodFailure(
        title="The program starts slowly",
        manifest=make_deployment(make_container("--slow=1h", **READY)),
        why=("container main runs, but is not ready: Readiness probe failed: *connection refused",),
    ),
    "command": PodFailure(
        title="The program is not in the image",
        manifest=make_deployment(make_container(command=["/none"])),
        why=("container main *: *exec: \"/none\": stat /none: no such file or directory*",),
    ),
    "sidecar": PodFailure(
        title="A sidecar fails",
        manifest=make_deployment(
            make_container(**READY), initContainers=[CRASH | {"name": "proxy", "restartPolicy": "Always"}]
        ),
        why=("sidecar proxy end* with exit code 3 (Error)*, and was restarted *",),
    ),
    "sidecar-startup": PodFailure(
        title="The startup probe of a sidecar fails",
        manifest=make_deployment(
            make_container(),
            initContainers=[
                make_container(
                    "--slow=1h", name="proxy", restartPolicy="Always", startupProbe=make_probe("/live")
                )
            ],
        ),
        why=("sidecar proxy is killed, and was restarted *: Startup probe failed: *connection refused",),
    ),
    "daemon-set": PodFailure(
        title="The program of a DaemonSet ends with an error",
        manifest=make_workload("DaemonSet", CRASH | READY),
        why=("container main end* with exit code 3 (Error)*, and was restarted *",),
    ),
    "stateful-set": PodFailure(
        title="The program of a StatefulSet ends with an error",
        manifest=make_workload("StatefulSet", CRASH | READY),
        why=("container main end* with exit code 3 (Error)*, and was restarted *",),
    ),
    "room": PodFailure(
        title="No node has room",
        manifest=make_deployment(make_container(resources={"requests": {"memory": "900Gi"}})),
        why=("cannot be scheduled: Unschedulable: 0/1 nodes are available: 1 Insufficient memory*",),
    ),
    "claim": PodFailure(
        title="A claim is missing",
        manifest=make_deployment(make_container(**NO_CLAIM[0]), **NO_CLAIM[1]),
        why=('cannot be scheduled: Unschedulable: *persistentvolumeclaim "none" not found*',),
    ),
    "volume": PodFailure(
        title="The ConfigMap of a volume is missing",
        manifest=make_deployment(make_container(**NO_SETTINGS[0]), **NO_SETTINGS[1]),
        why=('cannot start: FailedMount: *configmap "none" not found',),
    ),
    "disk": PodFailure(
        title="A Pod exceeds the limit of its emptyDir",
        manifest=make_deployment(
            make_container(command=["sh", "-c", "cat /bin/busybox >/data/file; exec sleep 1000"], **READY, **SMALL[0]),
            **SMALL[1],
        ),
        why=('Evicted: Usage of EmptyDir volume "data" exceeds the limit "1Mi".',),
    ),
    "account": PodFailure(
        title="The ServiceAccount is missing",
        manifest=make_deployment(make_container(), serviceAccountName="none"),
        why=("its pods are rejected: *error looking up service account *: serviceaccount \"none\" not found",),
    ),
    "root": PodFailure(
        title="The image runs as root, and the Pod must not",
        manifest=make_deployment(make_container(securityContext={"runAsNonRoot": True})),
        why=("container main cannot start: CreateContainerConfigError: container has runAsNonRoot and image will run as root*",),
    ),
    "settings": PodFailure(
        title="A Secret is missing",
        manifest=make_deployment(make_container(envFrom=[{"secretRef": {"name": "none"}}])),
        why=('container main cannot start: CreateContainerConfigError: secret "none" not found',),
    ),
    "job": PodFailure(
        title="A Job exceeds its backoff limit",
        manifest=make_job(CRASH, backoffLimit=0),
        reason="BackoffLimitExceeded",
        why=("failed: BackoffLimitExceeded: Job has reached the specified backoff limit", "container main ended with exit code 3 (Error); its log ends with: no such host: db"),
    ),
    "job-image": PodFailure(
        title="The image of a Job cannot be pulled",
        manifest=make_job(make_container() | {"image": "registry.example/none:1"}),
        why=("container main: the image registry.example/none:1 cannot be pulled: *registry.example/none:1",),
    ),
    "job-policy": PodFailure(
        title="A Job fails by its Pod failure policy",
        manifest=make_job(
            CRASH,
            podFailurePolicy={
                "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
            },
        ),
        reason="PodFailurePolicy",
        why=("container main ended with exit code 3 (Error); its log ends with: no such host: db",),
    ),
    "deadline": PodFailure(
        title="A Job exceeds its deadline",
        manifest=make_job(make_container(), activeDeadlineSeconds=3),
        reason="DeadlineExceeded",
        why=("failed: DeadlineExceeded: Job was active longer than specified deadline",),
    ),
    "slow-startup": PodFailure(
        title="The program starts slowly, and its startup probe allows that",
        manifest=make_deployment(
            make_container("--slow=1h", startupProbe=make_probe("/live") | {"failureThreshold": 3600})
        ),
        why=("container main has not started yet: Startup probe failed: *connection refused",),
    ),
    "job-expires": PodFailure(
        title="A finished Job expires (`ttlSecondsAfterFinished`)",
        manifest=make_job(make_container("--crash=1s", "--code=0"), ttlSecondsAfterFinished=10),
        awaited=("job/STACK-web", "delete"),
        phase="CreateComplete",
        reason="Complete",
    ),
    "cron-job": PodFailure(
        title="A run of a CronJob fails",
        manifest=make_cron_job(CRASH),
        command=("create", "job", "STACK-run", "--from=cronjob/STACK-web"),
        awaited=("job/STACK-run", "condition=Failed"),
        phase="CreateComplete",
        reason="Complete",
    ),
    "partition": PodFailure(
        title="A StatefulSet updates the Pods from its `partition` on",
        former=make_partition(make_container(**READY)),
        manifest=make_partition(make_container("--linger=1s", **READY)),
        phase="UpdateComplete",
        reason="Complete",
    ),
    "partition-crash": PodFailure(
        title="The new Pod of a `partition` ends with an error",
        former=make_partition(make_container(**READY)),
        manifest=make_partition(CRASH | READY),
        phase="UpdateInProgress",
        why=("pod/partition-crash-web-1*: container main end* with exit code 3 (Error)*, and was restarted *",),
        advice="kubectl logs partition-crash-web-1 -n *",
    ),
    "stubborn": PodFailure(
        title="An old Pod ignores SIGTERM",
        former=make_stubborn("1", grace_seconds=600),
        manifest=make_stubborn("2", grace_seconds=1),
        phase="UpdateInProgress",
        why=("is being deleted; container main still runs, and is killed 600 s after the request (terminationGracePeriodSeconds)",),
        advice="kubectl logs * -n * -c main",
    ),
    "evicted": PodFailure(
        title="A Pod of a complete Stack is evicted, and the next one is not ready",
        manifest=make_deployment(
            # If the program ended well at SIGTERM, the kubelet would sometimes report the Pod as succeeded.
            make_container(command=["sh", "-c", "exec sleep 1000"], readinessProbe=UNMARKED, **LARGE[0]),
            **LARGE[1],
        ),
        command=("exec", "deployment/STACK-web", "--", "sh", "-c", "touch /mark/evicted; cat /bin/busybox >/data/file"),
        why=(
            "container main runs, but is not ready: Readiness probe failed",
            'Evicted: Usage of EmptyDir volume "data" exceeds the limit "1Mi".',
        ),
    ),
}  # fmt: skip
NODE_GONE = PodFailure(
    title="The node of a Pod does not report",
    manifest=make_deployment(make_container(**READY)),
    why=("its node node0 is not ready: Kubelet stopped posting node status",),
    advice="kubectl describe node node0",
)
