"""Situations where Pods or their controllers hold up a Stack."""

from __future__ import annotations

from support.real.situations.situation import Situation, deployment, held, pods, quota, resource, unready

ENDED = {"exitCode": 3, "reason": "Error", "message": "no such host: db\x1b[2J", "finishedAt": "2026-01-01T00:00:00Z"}
ENDED_WELL = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}}
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
        name="liveness",
        resources={"web": resource(deployment())},
        pod=held(
            state={"waiting": {"reason": "CrashLoopBackOff"}},
            lastState={"terminated": {"exitCode": 137, "reason": "Error"}},
            restartCount=4,
        ),
        progress=("Killing", "Container app failed liveness probe, will be restarted"),
        event=("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404"),
        expected=[
            "container app is killed, and was restarted 4 times: Liveness probe failed: HTTP probe failed with statuscode",
        ],
    ),
    Situation(
        name="startup",
        resources={"web": resource(deployment())},
        pod=held(state=ENDED_WELL, restartCount=1) | {"conditions": unready()},
        event=("Unhealthy", "Startup probe failed: connection refused"),
        expected=["container app is killed, and was restarted 1 time: Startup probe failed: connection refused"],
    ),
    Situation(
        name="hook",
        resources={"web": resource(deployment())},
        pod=held(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ENDED_WELL, restartCount=2),
        event=("FailedPostStartHook", "PostStartHook failed"),
        expected=["container app is killed, and was restarted 2 times: its postStart hook fails: PostStartHook failed"],
    ),
    Situation(
        name="ends",
        resources={"web": resource(deployment())},
        pod=held(state=ENDED_WELL, restartCount=2) | {"conditions": unready()},
        expected=["container app ended with exit code 0 (Completed), and was restarted 2 times"],
    ),
    Situation(
        name="waits",
        resources={"web": resource(deployment(initContainers=[{"name": "wait-for-db", "image": "m:1"}]))},
        pod=held(state={"waiting": {"reason": "PodInitializing"}})
        | {
            "conditions": unready(),
            "initContainerStatuses": [
                {
                    "name": "wait-for-db",
                    "image": "m:1",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        },
        expected=["init container wait-for-db still runs", " -c wait-for-db"],
    ),
    Situation(
        name="pull",
        resources={"web": resource(deployment())},
        pod=held(state={"waiting": {"reason": "ContainerCreating"}}) | {"conditions": unready()},
        progress=("Pulling", 'Pulling image "web:1"'),
        expected=["container app: the image web:1 is being pulled"],
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
