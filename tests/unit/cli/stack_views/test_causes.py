"""The printed explanation of a Stack. Texts in objects cannot control a terminal or a shell."""

from __future__ import annotations

import dataclasses
import shlex
import time
from typing import Any

import pytest

from hearth.cli.stack_views.causes import advice, explanation, object_causes, stack_causes
from hearth.cli.stack_views.causes.explanation import Cause, Evidence
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState
from hearth.model import names
from hearth.model.kinds import Kind

POD = Kind(group="", version="v1", name="Pod", plural="pods", namespaced=True)
NODE = Kind(group="", version="v1", name="Node", plural="nodes", namespaced=False)
HOSTILE = "\x1b[2J[red]; rm -rf ~"
STATUS = {"observedGeneration": 1, "phase": "UpdateFailed", "conditions": []}


def make_stack(**status: Any) -> StackState:
    metadata = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1}
    return StackState({"metadata": metadata, "spec": {}, "status": STATUS | status})


def make_pod(**status: Any) -> FoundChild:
    return FoundChild(POD, {"metadata": {"name": "web-1", "namespace": "prod", "uid": "u-2"}, "status": status})


def test_causes_are_drawn_below_what_they_explain() -> None:
    inner = Cause(subject="pod/web-1", message="crashes", command="kubectl logs web-1", since="1970-01-01T00:00:00Z")
    outer = Cause(subject="web", message="progressing", causes=(inner,))
    lines = ["".join(text for text, _ in line) for line in explanation.draw([outer, inner], now=60.0)]

    assert lines == [
        "├─ web: progressing",
        "│  └─ pod/web-1: crashes [for 60s]",
        "│        → kubectl logs web-1",
        "└─ pod/web-1: crashes [for 60s]",
        "      → kubectl logs web-1",
    ]


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("exceeded quota: small, requested", "kubectl describe resourcequota small -n prod"),
        (
            'User "ann" cannot patch resource "deployments" in API group "apps" in the namespace "prod"',
            "kubectl auth can-i patch deployments.apps -n prod --as ann",
        ),
        ('failed calling webhook "a.b"', "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
        ("anything else", ""),
    ],
)
def test_well_known_messages_have_a_command(message: str, command: str) -> None:
    assert advice.advise_text(message, "prod") == command


def test_a_hostile_status_reaches_neither_the_terminal_nor_the_shell() -> None:
    problem = {"resource": HOSTILE, "kind": HOSTILE, "name": HOSTILE, "reason": HOSTILE, "message": HOSTILE}
    waits = [{"resource": HOSTILE, "hook": HOSTILE, "stack": HOSTILE}]
    conditions = [{"type": "Ready", "status": "False", "reason": HOSTILE, "message": HOSTILE}]
    stack = make_stack(problems=[problem], breakpoints=waits, conditions=conditions)
    template = {"resources": {HOSTILE: {"manifest": {"kind": HOSTILE}}}}
    causes = stack_causes.explain(StackObjects(stack=stack, template=template, children=[]), Evidence())

    lines = ["".join(text for text, _ in line) for line in explanation.draw(causes, now=0.0)]

    assert lines
    assert not any("\x1b" in line for line in lines)
    for cause in causes:
        assert "rm" not in shlex.split(cause.command)


@pytest.mark.parametrize(
    ("reason", "command"),
    [("WaitingForWindow", ""), ("WaitingForApproval", "kubectl stack plan shop -n prod")],
)
def test_a_change_that_waits_is_the_only_cause(reason: str, command: str) -> None:
    waits = "the definition of generation 1 waits"
    conditions = [
        {"type": "Ready", "status": "False", "reason": reason, "message": f"{waits}; all is ready"},
        {"type": "ChangeHeld", "status": "True", "reason": "ChangeHeld", "message": waits},
    ]
    stack = make_stack(phase="UpdateStopped", conditions=conditions, heldChange={"reason": reason})

    causes = stack_causes.explain(StackObjects(stack=stack, template={}, children=[]), Evidence())

    assert [(each.subject, each.message, each.command) for each in causes] == [("ChangeHeld", waits, command)]


def test_a_crash_is_explained_with_the_last_words() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": HOSTILE}
    status = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
    cause = object_causes.explain_pod(make_pod(phase="Running", containerStatuses=[status]), Evidence())

    assert cause is not None
    assert cause.message.startswith("container app ends with exit code 1 (Error): \\x1b[2J[red]")
    assert cause.command == "kubectl logs web-1 -n prod -c app --previous"


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
@pytest.mark.parametrize("state", ["state", "lastState"])
def test_no_log_is_offered_of_a_program_that_could_not_be_started(reason: str, state: str) -> None:
    ended = {"terminated": {"exitCode": 128, "reason": reason, "message": 'exec: "/none": not found'}}
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}} if state == "lastState" else {}
    cause = object_causes.explain_pod(
        make_pod(phase="Running", containerStatuses=[{"name": "app", **waiting, state: ended}]), Evidence()
    )

    assert cause is not None
    assert cause.command == "kubectl describe pod web-1 -n prod"


@pytest.mark.parametrize(
    ("state", "command"),
    [
        pytest.param(
            {"terminated": {"exitCode": 137, "reason": "Error"}}, "kubectl logs web-1 -n prod", id="its program ran"
        ),
        pytest.param(
            {"waiting": {"reason": "ContainerCreating"}}, "kubectl describe pod web-1 -n prod", id="it never started"
        ),
    ],
)
def test_an_evicted_pod_says_why_it_was_evicted(state: dict[str, Any], command: str) -> None:
    reason = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    cause = object_causes.explain_pod(
        make_pod(**reason, containerStatuses=[{"name": "app", "state": state}]), Evidence()
    )

    assert cause is not None
    assert (cause.message, cause.command) == ("Evicted: The node was low on resource: memory.", command)


@pytest.mark.parametrize(
    ("policy", "events", "expected"),
    [
        pytest.param(
            "Always", [("Evicted", "Low on memory. ")], ["Evicted: Low on memory."], id="its Event names the reason"
        ),
        pytest.param(
            "Always",
            [],
            ["was ended by its node, for example evicted, and its program ended well"],
            id="its Event is not there",
        ),
        pytest.param("OnFailure", [], [], id="its program had to end"),
    ],
)
def test_a_pod_that_its_node_ended_explains_its_workload(
    policy: str, events: list[tuple[str, str]], expected: list[str]
) -> None:
    workload = FoundChild(
        Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True),
        {"metadata": {"name": "web", "namespace": "prod", "uid": "u-1"}},
    )
    pod = make_pod(phase="Succeeded")
    pod.raw["metadata"]["ownerReferences"] = [{"uid": "u-1"}]
    pod.raw["spec"] = {"restartPolicy": policy}
    found = [
        {"involvedObject": {"uid": "u-2"}, "type": "Warning", "reason": reason, "message": message}
        for reason, message in events
    ]

    causes = object_causes.explain_workload(workload, explanation.make_evidence([pod], found))

    assert [cause.message for cause in causes] == expected


DELETED = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
ENDS = (
    "is being deleted; container app still runs, and is killed 30 s after the request (terminationGracePeriodSeconds)"
)


@pytest.mark.parametrize(
    ("metadata", "state", "expected"),
    [
        pytest.param(
            DELETED, {"running": {}}, (ENDS, "2026-01-01T00:00:00Z", "kubectl logs web-1 -n prod -c app"), id="it runs"
        ),
        pytest.param(
            {**DELETED, "finalizers": ["example.org/hold"]},
            {"terminated": {"exitCode": 137}},
            (
                "is being deleted, held by example.org/hold",
                "2026-01-01T00:00:00Z",
                "kubectl get pod web-1 -n prod -o yaml",
            ),
            id="it has ended",
        ),
        pytest.param(
            {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 10**30},
            {"terminated": {"exitCode": 0}},
            ("is being deleted", "2026-01-01T00:00:30Z", "kubectl get pod web-1 -n prod -o yaml"),
            id="a hostile period",
        ),
    ],
)
def test_a_deleted_pod_names_the_container_that_has_not_ended(
    metadata: dict[str, Any], state: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    pod = make_pod(phase="Running", containerStatuses=[{"name": "app", "state": state}])
    pod.raw["metadata"].update(metadata)

    cause = object_causes.explain_pod(pod, Evidence())

    assert cause is not None
    assert (cause.message, cause.since, cause.command) == expected


def test_a_deleted_pod_that_is_still_ready_explains_its_workload() -> None:
    deployment = FoundChild(
        Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True),
        {"metadata": {"name": "web", "namespace": "prod", "uid": "u-1"}},
    )
    pod = make_pod(
        phase="Running",
        conditions=[{"type": "Ready", "status": "True"}],
        containerStatuses=[{"name": "app", "state": {"running": {}}}],
    )
    pod.raw["metadata"].update({**DELETED, "ownerReferences": [{"uid": "u-1"}]})

    (cause,) = object_causes.explain_workload(deployment, explanation.make_evidence([pod], []))

    assert cause.message == ENDS


def test_a_pod_that_a_stateful_set_does_not_replace_is_to_delete() -> None:
    counts = {"replicas": 2, "readyReplicas": 1, "currentReplicas": 1, "updatedReplicas": 1}
    status = {**counts, "currentRevision": "db-1", "updateRevision": "db-1"}
    stateful_set = FoundChild(
        Kind(group="apps", version="v1", name="StatefulSet", plural="statefulsets", namespaced=True),
        {"metadata": {"name": "db", "namespace": "prod", "uid": "u-1"}, "spec": {"replicas": 2}, "status": status},
    )
    owner = [{"kind": "StatefulSet", "name": "db", "uid": "u-1", "controller": True}]
    pods = [
        FoundChild(
            POD,
            {
                "metadata": {"name": name, "namespace": "prod", "uid": name, "ownerReferences": owner},
                "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
            },
        )
        for name in ("db-0", "db-1")
    ]

    causes = object_causes.explain_workload(stateful_set, explanation.make_evidence(pods, []))

    assert "kubectl delete pod db-1 -n prod" in {cause.command for cause in causes}
    assert "kubectl delete pod db-0 -n prod" not in {cause.command for cause in causes}


RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}
LIVENESS = ("Warning", "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404")
STARTUP = ("Warning", "Unhealthy", "Startup probe failed: connection refused")
READINESS = ("Warning", "Unhealthy", "Readiness probe failed: ")
HOOK = ("Warning", "FailedPostStartHook", "PostStartHook failed")
KILLED = ("Normal", "Killing", "Container app failed liveness probe, will be restarted")
PULLING = ("Normal", "Pulling", 'Pulling image "web:1"')
PULLED = ("Normal", "Pulled", 'Successfully pulled image "web:1"')


def end(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


def explain_container(
    *events: tuple[str, str, str],
    init: dict[str, Any] | None = None,
    sidecar: bool = False,
    log: str = "",
    **state: Any,
) -> str:
    """The explanation of a Pod with an init container and one container in that state."""
    inits = [{"name": "wait-for-db", **({"restartPolicy": "Always"} if sidecar else {})}]
    raw = {
        "metadata": {"name": "web-1", "namespace": "prod", "uid": "u-2"},
        "spec": {"restartPolicy": "Always", "nodeName": "node0", "initContainers": inits},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "app", "image": "web:1", "ready": False, **state}],
            "initContainerStatuses": [{"name": "wait-for-db", **init}] if init else [],
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": ""}],
        },
    }
    found = [
        {
            "involvedObject": {
                "uid": "u-2",
                **({} if reason == "NodeNotReady" else {"fieldPath": "spec.containers{app}"}),
            },
            "type": type_,
            "reason": reason,
            "message": message,
            "lastTimestamp": f"2026-01-01T00:00:0{at}Z",
        }
        for at, (type_, reason, message) in enumerate(events)
    ]
    evidence = dataclasses.replace(explanation.make_evidence([], found), logs={("u-2", "wait-for-db"): log})
    cause = object_causes.explain_pod(FoundChild(POD, raw), evidence)
    return cause.message if cause is not None else ""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            explain_container(LIVENESS, KILLED, state=WAITING, lastState=end(137), restartCount=4),
            "container app is killed, and was restarted 4 times: Liveness probe failed: HTTP probe failed with statuscode: 404",
            id="liveness",
        ),
        pytest.param(
            explain_container(LIVENESS, READINESS, state=WAITING, lastState=end(0, "Completed"), restartCount=1),
            "container app is killed, and was restarted 1 time: Liveness probe failed: HTTP probe failed with statuscode: 404",
            id="liveness of a program that ends well",
        ),
        pytest.param(
            explain_container(STARTUP, state=end(0, "Completed")),
            "container app is killed: Startup probe failed: connection refused",
            id="startup",
        ),
        pytest.param(
            explain_container(LIVENESS, state=WAITING, lastState=end(1), restartCount=2),
            "container app ends with exit code 1 (Error), and was restarted 2 times",
            id="it ends before its probe counts",
        ),
        pytest.param(
            explain_container(LIVENESS, KILLED, READINESS, state=RUNNING, lastState=end(137), restartCount=2),
            "container app runs, but is not ready: Readiness probe failed; before, container app ended with exit code 137 (Error), and was "
            "restarted 2 times",
            id="another probe now, which prints nothing",
        ),
        pytest.param(
            explain_container(STARTUP, state=RUNNING, started=False),
            "container app has not started yet: Startup probe failed: connection refused",
            id="a startup probe that may fail for longer",
        ),
        pytest.param(
            explain_container(STARTUP, state=RUNNING, started=True),
            "runs, but is not ready: ContainersNotReady",
            id="a startup probe that has succeeded since",
        ),
        pytest.param(
            explain_container(HOOK, state=WAITING, lastState=end(0, "Completed"), restartCount=3),
            "container app is killed, and was restarted 3 times: its postStart hook fails: PostStartHook failed",
            id="hook",
        ),
        pytest.param(
            explain_container(state=end(0, "Completed"), restartCount=2),
            "container app ended with exit code 0 (Completed), and was restarted 2 times",
            id="a program that must not end",
        ),
        pytest.param(
            explain_container(
                state={"waiting": {"reason": "PodInitializing"}}, init={"state": RUNNING}, log="waiting for db\n"
            ),
            "init container wait-for-db still runs; its log ends with: waiting for db",
            id="init container runs",
        ),
        pytest.param(
            explain_container(state={"waiting": {"reason": "PodInitializing"}}, init={"state": RUNNING}, sidecar=True),
            "sidecar wait-for-db has not started yet",
            id="sidecar starts",
        ),
        pytest.param(
            explain_container(
                state={"waiting": {"reason": "PodInitializing"}},
                init={"state": WAITING, "lastState": end(3), "restartCount": 5},
                sidecar=True,
            ),
            "sidecar wait-for-db ends with exit code 3 (Error), and was restarted 5 times",
            id="sidecar crashes",
        ),
        pytest.param(
            explain_container(PULLING, state={"waiting": {"reason": "ContainerCreating"}}),
            "container app: the image web:1 is being pulled",
            id="pull",
        ),
        pytest.param(
            explain_container(PULLING, PULLED, state={"waiting": {"reason": "ContainerCreating"}}),
            "its containers are being created",
            id="pulled",
        ),
        pytest.param(
            explain_container(("Warning", "NodeNotReady", "Node is not ready"), state=RUNNING, ready=True),
            "its node node0 is not ready",
            id="node, which the user may not read",
        ),
    ],
)
def test_a_container_is_explained_by_what_the_kubelet_reports(said: str, expected: str) -> None:
    assert said == expected


def test_a_node_that_does_not_report_explains_its_pods() -> None:
    ready = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    node = FoundChild(NODE, {"metadata": {"name": "node0"}, "status": {"conditions": [ready]}})
    raw = {"metadata": {"name": "web-1", "namespace": "prod", "uid": "u-2"}, "spec": {"nodeName": "node0"}}
    cause = object_causes.explain_pod(FoundChild(POD, raw), Evidence(nodes={"node0": node}))

    assert cause is not None
    assert cause.message == "its node node0 is not ready: Kubelet stopped posting node status"
    assert cause.command == "kubectl describe node node0"


def test_an_obsolete_object_is_not_explained_by_the_problem_of_its_successor() -> None:
    problem = {"resource": "migrate", "kind": "Job", "name": "shop-migrate-2", "reason": "Failed", "message": "m"}
    old, new = (
        ResourceRow(resource="migrate", object=f"job/shop-migrate-{number}", state=state)
        for number, state in ((1, RowState.OBSOLETE), (2, RowState.FAILED))
    )
    stack = make_stack(problems=[problem])

    assert stack_causes.find_problem(stack, old) is None
    assert stack_causes.find_problem(stack, new) == problem


def test_an_old_object_that_holds_a_port_of_the_new_one_is_named() -> None:
    deployment = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
    ports = {"template": {"spec": {"containers": [{"ports": [{"hostPort": 80}]}]}}, "replicas": 1}
    children = [
        FoundChild(
            deployment,
            {
                "metadata": {
                    "name": name,
                    "uid": name,
                    "labels": {names.LABEL_RESOURCE: "web"},
                    "annotations": {names.ANNOTATION_INCARNATION: str(number)},
                },
                "spec": ports,
                "status": {"observedGeneration": 1},
            },
        )
        for number, name in enumerate(("shop-web", "shop-web-x"))
    ]
    template = {"resources": {"web": {"manifest": {"kind": "Deployment"}}}}
    objects = StackObjects(stack=make_stack(phase="UpdateInProgress"), template=template, children=children)

    [cause] = stack_causes.explain_resource(objects, ["web"], Evidence()) or ()

    assert cause.message.endswith(
        "hostPort 80 may be held by the old deployment/shop-web, which stays until the new object is ready: "
        "set updatePolicy.replace: DeleteFirst on the resource"
    )


def test_an_excluded_claim_that_a_pod_keeps_leads_to_the_pod() -> None:
    claim = FoundChild(
        Kind(group="", version="v1", name="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True),
        {
            "metadata": {
                "name": "shop-disk",
                "namespace": "prod",
                "uid": "u-1",
                "labels": {names.LABEL_RESOURCE: "disk"},
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["kubernetes.io/pvc-protection"],
            }
        },
    )
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "shop-disk"}}]
    user = FoundChild(POD, {"metadata": {"name": "psql", "namespace": "prod"}, "spec": {"volumes": volumes}})
    template = {"resources": {"disk": {"when": False, "manifest": {"kind": "PersistentVolumeClaim"}}}}
    objects = StackObjects(stack=make_stack(phase="UpdateInProgress"), template=template, children=[claim])

    [found] = stack_causes.explain_resource(objects, ["disk"], Evidence(claim_users=[user])) or ()

    [deletion] = found.causes
    assert [each.command for each in deletion.causes] == ["kubectl delete pod psql -n prod"]
    assert found in stack_causes.explain(objects, Evidence(claim_users=[user]))


def test_a_circle_of_stacks_that_wait_for_each_other_is_a_cause_and_other_warnings_are_not() -> None:
    circle = "reads objects of Stack b, which reads objects of this Stack: each waits for the others"
    conditions = [
        {"type": "Ready", "status": "False", "reason": "ObjectNotFound", "message": f"b: is missing; {circle}"}
    ]
    stack = make_stack(conditions=conditions, warnings=[circle, "the parameter size is not used"])
    problem = {"resource": "theirs", "reason": "ObjectNotFound", "message": "is missing"}
    objects = StackObjects(stack=stack, template={"resources": {"theirs": {"externalRef": {}}}}, children=[])
    assert [each.message for each in stack_causes.explain(objects, Evidence())] == [circle]
    stack = make_stack(conditions=conditions, warnings=[circle], problems=[{**problem, "message": circle}])
    objects = StackObjects(stack=stack, template={"resources": {"theirs": {"externalRef": {}}}}, children=[])
    assert [each.message for each in stack_causes.explain(objects, Evidence())] == [
        f"waiting: ObjectNotFound: {circle}"
    ]


def test_a_definition_that_cannot_be_read_applies_nothing() -> None:
    conditions = [{"type": "Ready", "status": "False", "reason": "SourceNotFound", "message": "configmap/app"}]
    stack = make_stack(conditions=conditions, state="definition not applied")
    template = {"resources": {"web": {"manifest": {"kind": "ConfigMap"}}}}
    objects = StackObjects(stack=stack, template=template, children=[])

    assert "is being applied" not in str(stack_causes.explain_resource(objects, ["web"], Evidence()))
    [row] = stack_view.describe_rows(objects)
    assert (row.state, row.note) == (RowState.WAITING, "its definition is not applied")


def test_an_instance_is_led_to_the_external_object_that_lacks_a_field() -> None:
    vault = Kind(group="platform.example", version="v1", name="Vaulted", plural="vaults", namespaced=True)
    stack = StackState(make_stack().raw, vault)
    problem = {"resource": "web", "reason": "FieldNotFound", "message": "waits for db.data.host"}
    resources = {"db": {"externalRef": {"kind": "ConfigMap", "metadata": {"name": "database"}}}}

    command = advice.advise_problem(stack, problem, stack, resources=resources)

    assert command == "kubectl edit configmap database -n prod"


def test_objects_that_are_kept_are_named_with_what_their_deletion_costs() -> None:
    problem = {"resource": "web", "kind": "ConfigMap", "reason": "Invalid", "message": "m"}
    children = [
        FoundChild(
            CONFIG, {"metadata": {"name": "shop-db", "namespace": "prod", "labels": {"hearth.dev/resource": "db"}}}
        )
    ]
    template = {"resources": {"web": {"manifest": {"kind": "ConfigMap"}}}}
    objects = StackObjects(stack=make_stack(problems=[problem]), template=template, children=children)
    kept = stack_causes.explain(objects, Evidence())[-1]
    waived = make_stack(problems=[problem], controllerState={"cleanupWaived": True})

    assert kept.message.startswith(
        "kept until all resources are ready: configmap/shop-db; to delete them now, with their data"
    )
    assert kept.command == "kubectl stack cleanup shop -n prod"
    requested = stack_causes.explain(dataclasses.replace(objects, stack=waived), Evidence())[-1]
    assert "a cleanup was requested" in requested.message
    assert not requested.command


def test_a_ready_object_waits_with_what_it_requires() -> None:
    problem = {"resource": "db", "kind": "ConfigMap", "reason": "Invalid", "message": "m"}
    metadata = {
        "name": "shop-web",
        "namespace": "prod",
        "labels": {"hearth.dev/resource": "web"},
        "annotations": {names.ANNOTATION_REQUIRES: "db/1"},
    }
    resources = {
        "db": {"manifest": {"kind": "ConfigMap"}},
        "web": {"dependsOn": ["db"], "manifest": {"kind": "ConfigMap"}},
    }
    objects = StackObjects(
        stack=make_stack(problems=[problem]),
        template={"resources": resources},
        children=[FoundChild(CONFIG, {"metadata": metadata})],
    )
    [_, web] = stack_view.describe_rows(objects)

    assert (web.state, web.note) == (RowState.WAITING, "waits for db; its object stays unchanged until then")


def test_an_update_that_hangs_has_a_way_back() -> None:
    stack = make_stack(phase="UpdateInProgress", target={"cause": "Spec", "revision": 2}, lastCompletedRevision=1)

    assert advice.advise_rollback(stack, stack) == "kubectl stack rollback shop -n prod"


@pytest.mark.parametrize("status", [{}, {"containerStatuses": 5}, {"conditions": [1]}, {"initContainerStatuses": [{}]}])
def test_a_pod_of_any_shape_is_explained(status: Any) -> None:
    object_causes.explain_pod(make_pod(**status), Evidence())


def test_nothing_is_wrong_with_a_ready_stack() -> None:
    conditions = [{"type": "Ready", "status": "True", "reason": "Complete", "message": "m"}]
    snapshot = StackObjects(stack=make_stack(phase="CreateComplete", conditions=conditions), template={}, children=[])

    assert stack_causes.explain(snapshot, Evidence()) == ()
    assert stack_causes.explain_resource(snapshot, ["web"], Evidence()) is None


NAMESPACE = Kind(group="", version="v1", name="Namespace", plural="namespaces", namespaced=False)
CONFIG = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
CLAIM = Kind(group="", version="v1", name="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)
DISCOVERY = (
    "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
    "dead.example.org/v1: stale GroupVersion discovery: dead.example.org/v1"
)


def make_child(
    kind: Kind, name: str, *, namespace: str = "", finalizers: tuple[str, ...] = (), **more: Any
) -> FoundChild:
    metadata = {"name": name, "namespace": namespace, "uid": name, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return FoundChild(kind, {"metadata": {**metadata, "finalizers": list(finalizers)}, **more})


def make_namespace(**conditions: str) -> FoundChild:
    """A Namespace that reports these conditions as true."""
    found = [{"type": type_, "status": "True", "message": message} for type_, message in conditions.items()]
    return make_child(NAMESPACE, "prod", status={"conditions": found})


def test_an_api_that_does_not_answer_is_named_with_its_command() -> None:
    cause = object_causes.explain_deletion(make_namespace(NamespaceDeletionDiscoveryFailure=DISCOVERY), Evidence())

    (below,) = cause.causes
    assert below.subject == "apiservice.apiregistration.k8s.io/v1.dead.example.org"
    assert below.command == "kubectl delete apiservice v1.dead.example.org"


def test_a_namespace_that_only_needs_time_has_no_cause() -> None:
    namespace = make_namespace(NamespaceContentRemaining="Some resources are remaining: pods. has 2 resource instances")

    assert object_causes.explain_deletion(namespace, Evidence()).causes == ()
    assert object_causes.find_remaining(namespace) == []


def test_what_a_namespace_still_has_is_read_from_its_message() -> None:
    left = "Some resources are remaining: configmaps. has 1 resource instances, gizmos.a.example.org has 2 resource instances"
    namespace = make_namespace(
        NamespaceContentRemaining=left, NamespaceFinalizersRemaining="x/y in 1 resource instances"
    )

    assert object_causes.find_remaining(namespace) == [("configmaps", ""), ("gizmos", "a.example.org")]


@pytest.mark.parametrize(
    ("finalizers", "patch"),
    [
        (("example.org/hold",), "null"),
        (("example.org/hold", "kubernetes.io/pvc-protection"), '["kubernetes.io/pvc-protection"]'),
        (("foregroundDeletion",), ""),
        (("kubernetes.io/pvc-protection",), ""),
        (("customresourcecleanup.apiextensions.k8s.io",), ""),
        (("service.kubernetes.io/load-balancer-cleanup",), ""),
        (("hearth.dev/children",), ""),
        (("x'; rm -rf /; '",), "null"),
    ],
)
def test_only_the_finalizers_of_others_are_ever_removed(finalizers: tuple[str, ...], patch: str) -> None:
    command = object_causes.explain_deletion(
        make_child(CONFIG, "a", namespace="b", finalizers=finalizers), Evidence()
    ).command

    expected = f"""kubectl patch configmaps a -n b --type=merge -p '{{"metadata":{{"finalizers":{patch}}}}}'"""
    assert command == (expected if patch else "")


def test_a_pod_of_a_controller_is_named_without_a_command() -> None:
    claim = make_child(CLAIM, "data", namespace="b", finalizers=("kubernetes.io/pvc-protection",))
    volumes = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    owner = {"kind": "ReplicaSet", "name": "web-1", "uid": "1", "controller": True}
    pods = [
        FoundChild(POD, {"metadata": {"name": name, "namespace": "b", "ownerReferences": owners}, "spec": volumes})
        for name, owners in (("theirs", []), ("web-1-x", [owner]))
    ]

    causes = object_causes.explain_deletion(claim, Evidence(claim_users=pods)).causes

    assert [(each.message, each.command) for each in causes] == [
        ("uses it: the claim is deleted after the pod", "kubectl delete pod theirs -n b"),
        ("uses it, and belongs to replicaset/web-1", ""),
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("belongs to the Stack b/other, which still needs it; it was not changed: give the resource another name", ""),
        (
            "is not managed by any Stack; it was not changed: adopt it with adoptionPolicy: Adopt, or",
            "kubectl patch stack",
        ),
    ],
)
def test_adoption_is_offered_only_where_it_helps(message: str, expected: str) -> None:
    stack = StackState({"metadata": {"name": "a", "namespace": "b"}, "spec": {"template": {"resources": {"web": {}}}}})
    problem = {"reason": "NotOwned", "message": message, "resource": "web", "kind": "ConfigMap", "name": "x"}

    assert advice.advise_problem(stack, problem, stack).partition(" a ")[0] == expected


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [("shops", "kubectl create namespace shops"), ("$(id)", "kubectl create namespace '$(id)'")],
    ids=["missing", "hostile"],
)
def test_a_namespace_that_is_missing_is_created(namespace: str, expected: str) -> None:
    stack = StackState({"metadata": {"name": "a", "namespace": "b"}, "spec": {}})
    problem = {"reason": "NamespaceNotFound", "message": "", "resource": "web", "namespace": namespace}

    assert advice.advise_problem(stack, problem, stack) == expected


@pytest.mark.parametrize(
    ("webhook", "expected"),
    [("stacks.hearth.dev", "kubectl edit stack a -n b"), ("policy.example.org", "kubectl get validatingwebhook")],
)
def test_a_mistake_in_a_nested_stack_leads_to_the_definition(webhook: str, expected: str) -> None:
    stack = StackState({"metadata": {"name": "a", "namespace": "b"}, "spec": {"template": {"resources": {"in": {}}}}})
    said = f'admission webhook "{webhook}" denied the request: spec.template.resources.cm.manifest: there is no field'
    problem = {"reason": "Denied", "message": said, "resource": "in", "kind": "Stack", "name": "a-in"}

    assert advice.advise_problem(stack, problem, stack).startswith(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("extra", "kubectl edit configmap extra -n there"), ("${params.name}", "kubectl edit stack a -n b")],
)
def test_a_missing_field_is_added_where_it_is_missing(name: str, expected: str) -> None:
    read = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "there"}}
    spec = {"template": {"resources": {"extra": {"externalRef": read}, "web": {}}}}
    stack = StackState({"metadata": {"name": "a", "namespace": "b"}, "spec": spec})
    said = "waits for extra.data.oven, which does not exist although its resource is ready"
    problem = {"reason": "FieldNotFound", "message": said, "resource": "web"}

    assert advice.advise_problem(stack, problem, stack) == expected


def test_an_edit_is_offered_where_the_definition_is_stated() -> None:
    root, inner = (StackState({"metadata": {"name": name, "namespace": "b"}}) for name in ("root", "inner"))
    problem = {"reason": "Invalid", "message": "no", "resource": "web"}
    source = "spec.parametersFrom[0] (secret/db key port): must be an integer"

    assert advice.advise_problem(inner, problem, root) == "kubectl edit stack root -n b"
    assert advice.advise_problem(inner, problem, None) == ""
    assert advice.advise_edit(root, source) == "kubectl edit secret db -n b"
    of_definition = (
        "StackDefinition webapps.platform.example spec.template.resources.web.manifest: there is no field 'a'"
    )
    assert advice.advise_edit(root, of_definition) == "kubectl edit stackdefinition webapps.platform.example"


WEB_APP = Kind(group="platform.example", version="v1", name="WebApp", plural="webapps", namespaced=True)
FLUX, HELM = "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io"


@pytest.mark.parametrize("kind", [pytest.param(None, id="stack"), pytest.param(WEB_APP, id="instance")])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param(
            {f"{FLUX}/name": "apps", f"{FLUX}/namespace": "flux-system"},
            "kubectl describe kustomization.kustomize.toolkit.fluxcd.io apps -n flux-system",
            id="flux",
        ),
        pytest.param(
            {f"{HELM}/name": "apps"}, "kubectl describe helmrelease.helm.toolkit.fluxcd.io apps -n b", id="flux-helm"
        ),
        pytest.param(
            {"argocd.argoproj.io/instance": "apps"},
            "kubectl get applications.argoproj.io -A -o yaml --field-selector metadata.name=apps",
            id="argo-cd",
        ),
        pytest.param(
            {"argocd.argoproj.io/instance": "team_apps"},
            "kubectl describe application.argoproj.io apps -n team",
            id="argo-cd-of-a-namespace",
        ),
    ],
)
def test_the_object_that_applies_a_definition_from_git_is_shown_instead_of_an_edit(
    kind: Kind | None, labels: dict[str, str], expected: str
) -> None:
    spec: dict[str, Any] = {"template": {"resources": {"web": {}}}}
    managed = StackState({"metadata": {"name": "c", "namespace": "b", "labels": labels}, "spec": spec}, kind)
    mistake = {"reason": "Invalid", "message": "spec.replicas: Invalid value: -1", "resource": "web"}
    resources = {"web": {"manifest": {"spec": {"replicas": "${params.replicas}"}}}}

    assert advice.advise_problem(managed, mistake, managed, resources=resources) == expected
    assert advice.advise_edit(managed, "no") == expected


def test_the_application_that_tracks_a_stack_by_an_annotation_is_shown() -> None:
    tracked = {"argocd.argoproj.io/tracking-id": "team_apps:hearth.dev/Stack:b/c"}
    managed = StackState({"metadata": {"name": "c", "namespace": "b", "annotations": tracked}, "spec": {}})

    assert advice.advise_edit(managed, "no") == "kubectl describe application.argoproj.io apps -n team"


def test_a_source_is_edited_even_if_git_manages_the_stack() -> None:
    managed = StackState({"metadata": {"name": "c", "namespace": "b", "labels": {f"{FLUX}/name": "apps"}}, "spec": {}})

    assert advice.advise_edit(managed, "spec.parameters.port (secret/db key port): 5") == "kubectl edit secret db -n b"


def test_an_adoption_from_git_is_offered_where_the_definition_is() -> None:
    metadata = {"name": "c", "namespace": "b", "labels": {f"{FLUX}/name": "apps"}}
    managed = StackState({"metadata": metadata, "spec": {"template": {"resources": {"web": {}}}}})
    taken = {"reason": "NotOwned", "message": f"exists already; set {advice.FREE}", "resource": "web"}

    expected = "kubectl describe kustomization.kustomize.toolkit.fluxcd.io apps -n b"
    assert advice.advise_problem(managed, taken, managed) == expected


EDIT_DEFINITION = "kubectl edit stackdefinition webapps.platform.example"
EDIT_INSTANCE = "kubectl edit webapp.platform.example shop -n b"


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        pytest.param("Invalid", "spec.replicas: Invalid value: -1", EDIT_INSTANCE, id="a parameter"),
        pytest.param("Invalid", "spec.paused: Invalid value: 1", EDIT_DEFINITION, id="a literal"),
        pytest.param("Invalid", "[spec.containers[0].image: Required value]", EDIT_INSTANCE, id="an item of a list"),
        pytest.param("Invalid", "spec.containers[1].image: Required value", EDIT_DEFINITION, id="another item"),
        pytest.param("Invalid", "spec.containers[٣].image: Required value", EDIT_DEFINITION, id="a strange digit"),
        pytest.param("Invalid", "spec.affinity.nodeAffinity: Required value", EDIT_INSTANCE, id="a computed object"),
        pytest.param("Invalid", "data[a.b]: Invalid value: 1", EDIT_INSTANCE, id="a key with a dot"),
        pytest.param("Invalid", "spec.template: Required value", EDIT_DEFINITION, id="a missing field"),
        pytest.param("Invalid", "no", EDIT_DEFINITION, id="no field"),
        pytest.param("Immutable", "spec.selector cannot be changed in place", EDIT_INSTANCE, id="immutable parameter"),
        pytest.param("Immutable", "spec.serviceName: Forbidden", EDIT_DEFINITION, id="immutable literal"),
        pytest.param("Restricted", "spec.environment.x[0] denies Update", EDIT_INSTANCE, id="an option"),
    ],
)
def test_an_edit_of_an_instance_is_offered_only_for_its_parameters(reason: str, message: str, expected: str) -> None:
    instance = StackState({"metadata": {"name": "shop", "namespace": "b"}, "spec": {"replicas": -1}}, WEB_APP)
    spec = {
        "replicas": "${params.replicas}",
        "paused": 1,
        "containers": [{"image": "${params.image}"}, {"image": ""}],
        "affinity": "${params.affinity}",
        "selector": {"matchLabels": {"app": "${params.app}"}},
        "serviceName": "x",
    }
    resources = {"web": {"manifest": {"data": {"a.b": "${params.app}"}, "spec": spec}}}
    problem = {"reason": reason, "message": f'Deployment.apps "shop" is invalid: {message}', "resource": "web"}

    assert advice.advise_problem(instance, problem, instance, resources=resources) == expected


def test_a_mistake_in_a_nested_stack_of_an_instance_leads_to_the_stack_definition() -> None:
    instance = StackState({"metadata": {"name": "shop", "namespace": "b"}}, WEB_APP)
    inner = StackState({"metadata": {"name": "inner", "namespace": "b"}})
    resources = {"web": {"manifest": {"spec": {"replicas": "${params.replicas}"}}}}
    problem = {"reason": "Invalid", "message": "spec.replicas: Invalid value: -1", "resource": "web"}

    assert advice.advise_problem(inner, problem, instance, resources=resources) == EDIT_DEFINITION


def test_a_long_message_is_searched_for_a_field_in_bounded_time() -> None:
    instance = StackState({"metadata": {"name": "shop", "namespace": "b"}}, WEB_APP)
    started = time.process_time()
    for message in ("a." * 1_000_000, "a[" * 1_000_000, "spec[0]" * 1_000_000, "spec." + "٣" * 1_000_000):
        problem = {"reason": "Invalid", "message": message, "resource": "web"}
        advice.advise_problem(instance, problem, instance, resources={"web": {"manifest": {"spec": [1]}}})

    assert time.process_time() - started < 1


def test_a_grant_of_a_forged_status_reaches_no_shell() -> None:
    grant = (
        "kubectl create role x-pods --verb=get --resource=pods --namespace=b && "
        "kubectl create rolebinding x-pods --role=x-pods --serviceaccount=b:x --namespace=b"
    )

    assert advice.advise_text(f"no; to allow it, run: {grant}", "b") == grant
    assert advice.advise_text(f"{grant}; rm -rf /".replace("x-pods --role", "$(id) --role"), "b") == ""
    assert advice.advise_text(f"{grant}; rm -rf /", "b") == grant


@pytest.mark.parametrize(
    ("when", "spec", "expected"),
    [
        ("params.debug", {}, True),
        ("params.debug", {"parameters": {"debug": True}}, False),
        ("${conditions.small}", {}, True),
        ("values.label == 'on'", {}, True),
        ("values.label == 'on'", {"parameters": {"debug": True}}, False),
        ("conditions.isOn", {}, True),
        ("size(values.grown40) > 3", {}, False),
        ("params.debug", {"parametersFrom": [{"secretRef": {"name": "x"}}]}, False),
        (False, {}, True),
        (True, {}, False),
        ("params.none", {}, False),
        ("not an expression", {}, False),
    ],
)
def test_a_resource_that_its_when_excludes_is_known(when: Any, spec: dict[str, Any], *, expected: bool) -> None:
    template = {
        "parameters": {"debug": {"type": "boolean", "default": False}},
        "conditions": {
            "big": "params.debug",
            "small": "conditions.big && params.debug",
            "isOn": "values.label == 'on'",
        },
        "values": {
            "label": "params.debug ? 'on' : 'off'",
            "grown0": "'x'",
            **{f"grown{number}": f"values.grown{number - 1} + values.grown{number - 1}" for number in range(1, 41)},
        },
        "resources": {"web": {"when": when}},
    }

    assert ("web" in stack_view.find_excluded(template, StackState({"spec": spec}))) == expected


def explain_read(found: FoundChild) -> list[str]:
    """The lines about an external object that is not ready."""
    kind = found.kind
    problem = {"resource": "read", "kind": kind.name, "name": "one", "namespace": "other", "reason": advice.NOT_READY}
    problem["message"] = f"{kind.name} one in namespace other is not ready"
    stated = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "one", "namespace": "other"}}
    objects = StackObjects(
        stack=make_stack(problems=[problem]), template={"resources": {"read": {"externalRef": stated}}}, children=[]
    )
    causes = stack_causes.explain(objects, Evidence(external={("u-1", "read"): found}))
    return ["".join(text for text, _ in line).strip() for line in explanation.draw(causes, now=0.0)]


def make_read(kind: str, *, group: str = "hearth.dev", **raw: Any) -> FoundChild:
    """An external object."""
    metadata = {"name": "one", "namespace": "other", "uid": "u-9", **raw.pop("metadata", {})}
    made = Kind(group=group, version="v1", name=kind, plural=f"{kind.lower()}s", namespaced=True)
    return FoundChild(made, {"metadata": metadata, **raw})


def test_what_is_only_read_is_followed_to_its_own_cause() -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    pod = explain_read(make_read("Pod", group="", status={"containerStatuses": [waiting]}))
    assert any("ImagePullBackOff" in line for line in pod)

    ready = {"type": "Ready", "status": "False", "reason": "CreateFailed", "message": "db: quota"}
    stack = explain_read(make_read("Stack", status={"conditions": [ready]}))
    assert "CreateFailed: db: quota" in "".join(stack)
    assert "→ kubectl stack why one -n other" in stack

    service = explain_read(make_read("Service", group="", metadata={"labels": {"hearth.dev/stack": "net"}}))
    assert "is an object of the Stack net" in "".join(service)
    assert "→ kubectl stack why net -n other" in service


def test_a_hostile_object_that_is_only_read_reaches_no_shell() -> None:
    labels = {"hearth.dev/stack": HOSTILE}
    ready = {"type": "Ready", "status": "False", "reason": HOSTILE, "message": HOSTILE}
    for found in (
        make_read("Service", group="", metadata={"labels": labels}),
        make_read("Stack", metadata={"name": HOSTILE}, status={"conditions": [ready]}),
    ):
        lines = explain_read(found)
        assert not any("\x1b" in line for line in lines)
        commands = [line.partition("→ ")[2] for line in lines if "→ " in line]
        assert commands
        assert not any("rm" in shlex.split(each) for each in commands)


def make_objects(
    reason: str, *, problems: list[dict[str, str]], unreadable: dict[str, str], **spec: Any
) -> StackObjects:
    """A Stack that is not ready, with an unread Secret and ConfigMap."""
    resources = {
        "secret": {"manifest": {"apiVersion": "v1", "kind": "Secret"}},
        "web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}},
    }
    ready = {"type": "Ready", "status": "False", "reason": reason, "message": "it does not answer"}
    status = {"observedGeneration": 1, "phase": "UpdateInProgress", "conditions": [ready], "problems": problems}
    metadata = {"name": "a", "namespace": "b", "uid": "1", "generation": 1}
    stack = StackState({"metadata": metadata, "spec": {"template": {"resources": resources}, **spec}, "status": status})
    return StackObjects(stack=stack, template={"resources": resources}, children=(), unreadable=unreadable)


def test_what_the_user_may_not_read_is_no_cause_beside_one() -> None:
    problem = {"resource": "web", "reason": "Invalid", "message": "is wrong", "kind": "ConfigMap"}
    hidden = {"Secret": "not shown: secrets"}

    explained = stack_causes.explain(make_objects("Failed", problems=[problem], unreadable=hidden), Evidence())
    assert [each.subject.partition(" ")[0] for each in explained] == ["web"]

    hidden |= {"ConfigMap": "not shown: configmaps"}
    alone = stack_causes.explain(make_objects("Progressing", problems=[], unreadable=hidden), Evidence())
    assert [each.message for each in alone] == ["progressing: not seen"] * 2


@pytest.mark.parametrize(("reason", "is_offered"), [("InvalidTemplate", True), ("SourceNotFound", False)])
def test_a_rollback_is_offered_where_it_helps(reason: str, is_offered: bool) -> None:
    made = make_objects(reason, problems=[], unreadable={})
    status = {**made.stack.raw["status"], "phase": "UpdateFailed", "lastCompletedRevision": 2}
    stack = StackState({**made.stack.raw, "status": status})
    objects = StackObjects(stack=stack, template=made.template, children=(), outermost_stack=stack)

    offered = [each.command for each in stack_causes.explain(objects, Evidence())]
    assert ("kubectl stack rollback a -n b" in offered) is is_offered


def test_a_cluster_that_does_not_answer_is_the_cause() -> None:
    there = {"kubeConfig": {"secretRef": {"name": "east"}}}
    objects = make_objects("ClusterUnreachable", problems=[], unreadable={"": "is in another cluster"}, **there)

    assert [each.message for each in stack_causes.explain(objects, Evidence())] == [
        "ClusterUnreachable: it does not answer"
    ]
