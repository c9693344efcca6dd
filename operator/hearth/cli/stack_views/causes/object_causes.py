"""Explains why one object is not ready or not deleted: its conditions, Events, Pods and containers.

Tables map reasons of the scheduler, the kubelet and controllers to explanations.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli.stack_views import ages, safe_text
from hearth.cli.stack_views.causes import advice
from hearth.cli.stack_views.causes.explanation import Cause, Evidence, line_of
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.model import names, object_fields
from hearth.model.child import Object
from hearth.model.text import finalizers, times
from hearth.plan.health import object_reports

CLAIM: Final = "PersistentVolumeClaim"
WORKLOADS: Final = frozenset("Deployment ReplicaSet StatefulSet DaemonSet Job CronJob ReplicationController".split())
PODS_AT_MOST: Final = 3
"""Pods of one workload that are explained: others have the same cause in most cases."""
CREATION: Final = ("FailedCreate", "FailedDelete")


def explain(child: FoundChild, evidence: Evidence) -> tuple[Cause, ...]:
    """Return the causes why the object is not ready, or () if only the object itself reports them."""
    if child.is_deleting:
        return (explain_deletion(child, evidence),)
    if child.kind.name == "Pod" and not child.kind.group:
        cause = explain_pod(child, evidence)
        return (cause,) if cause is not None else ()
    if child.kind.name in WORKLOADS and (found := tuple(explain_workload(child, evidence))):
        return found
    if child.kind.key == CLAIM:
        cause = explain_claim(child, evidence)
        return (cause,) if cause is not None else ()
    event = evidence.find_warning(child.uid)
    if event is None:
        return ()
    since = event_time(event)
    return (Cause(subject=str(child), message=describe_event(event), since=since, command=describe(child)),)


def explain_workload(child: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield why pods cannot be created, and why pods are not ready."""
    yield from explain_creation(child, evidence)
    owned = list(evidence.find_owned(child.uid, "Pod"))
    # A Pod that is being deleted may stay ready until its containers end.
    pods = [pod for pod in owned if not is_ready(pod)] or [pod for pod in owned if pod.is_deleting]
    newest = sorted(pods, key=lambda pod: (pod.created, pod.name), reverse=True)
    stuck = name_stuck_pod(child)
    seen: set[str] = set()
    for pod in newest:
        cause = explain_pod(pod, evidence)
        if cause is not None and pod.name == stuck:
            command = advice.join("kubectl delete pod", pod.name, "-n", pod.namespace)
            cause = dataclasses.replace(cause, command=command)
        if cause is not None and cause.message.replace(pod.name, "") not in seen and len(seen) < PODS_AT_MOST:
            seen.add(cause.message.replace(pod.name, ""))
            yield cause
    failed = child.condition("Failed")
    if failed.is_true:
        yield Cause(subject=str(child), message=line_of(failed.reason, failed.message), command=describe(child))


def name_stuck_pod(child: FoundChild) -> str:
    """Return the pod that the controller of a StatefulSet should replace but does not; "" for none."""
    if child.kind.name != "StatefulSet":
        return ""
    # This takes some time to import, and `--help` does not need it.
    from hearth.plan.health import workload_rules

    replicas = object_fields.number(child.raw, "spec", "replicas")
    return workload_rules.name_stuck_pod(child.raw, wanted=1 if replicas is None else replicas)


def explain_creation(child: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield why the API server rejects the pods of a workload: quota, limit range, webhook, pod security, account."""
    makers = [child, *evidence.find_owned(child.uid, "ReplicaSet"), *evidence.find_owned(child.uid, "Job")]
    for maker in makers:
        failure = maker.condition("ReplicaFailure")
        event = evidence.find_warning(maker.uid, *CREATION)
        message, since = failure.message if failure.is_true else "", failure.since
        if not message and event is not None and not any(evidence.find_owned(maker.uid, "Pod")):
            message, since = object_fields.text(event, "message"), event_time(event)
        if message:
            command = advice.advise_text(message, child.namespace) or describe(maker)
            said = f"its pods are rejected: {safe_text.one_line(message)}"
            yield Cause(subject=str(maker), message=said, since=since, command=command)
            return


def explain_external(child: FoundChild, evidence: Evidence) -> tuple[Cause, ...]:
    """Return the causes why an external object is not ready. For a Stack, these come from its own status."""
    if child.is_stack or child.is_group:
        ready = child.condition("Ready")
        message = line_of(ready.reason, ready.message) or "is not ready"
        return (Cause(subject=str(child), message=message, since=ready.since, command=ask_why(child)),)
    below = explain(child, evidence)
    owner = safe_text.one_line(object_fields.text(child.raw, "metadata", "labels", names.LABEL_STACK))
    if below or not owner:
        return below
    command = advice.join("kubectl stack why", owner, *child.scope)
    return (Cause(subject=str(child), message=f"is an object of the Stack {owner}", command=command),)


def is_ready(pod: FoundChild) -> bool:
    """Return whether a pod is ready, or has ended well."""
    phase = object_fields.text(pod.raw, "status", "phase")
    return (phase == "Succeeded" and not is_ended_by_node(pod)) or pod.condition("Ready").is_true


def describe(child: FoundChild) -> str:
    """Return the command that shows all details of an object, or explains an object with the status of a Stack."""
    if child.is_instance:
        return advice.join("kubectl stack why", f"{child.kind.name.lower()}/{child.name}", *child.scope)
    return advice.join("kubectl describe", child.type, child.name, *child.scope)


def describe_event(event: Object | None) -> str:
    """Return `Reason: message`, "" without an Event."""
    return line_of(object_fields.text(event, "reason"), object_fields.text(event, "message"))


def event_time(event: Object | None) -> str:
    """Return the time when an Event began; "" without an Event."""
    return object_fields.text(event, "firstTimestamp") or object_fields.text(event, "eventTime")


# Why a pod is not ready, down to its containers; and why a claim is not bound.

IMAGE: Final = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
STARTING: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
NEVER_RAN: Final = frozenset({"StartError", "ContainerCannotRun", "ContainerStatusUnknown"})
"""Reasons of terminated containers without a log: their program never started, or they no longer exist."""
LISTS: Final = ("initContainerStatuses", "containerStatuses")
ANY: Final = re.compile("")
KILLING_PROBE: Final = re.compile(r"(Liveness|Startup) probe (failed|errored)")
"""Matches kubelet messages about probes whose failure restarts a container."""
KILLED: Final = re.compile(r"failed (liveness|startup) probe")
SIGNALED: Final = frozenset({0, 137, 143})
"""Exit codes of a program that gets SIGTERM, then SIGKILL."""
ENDED_BY_NODE: Final = "was ended by its node, for example evicted, and its program ended well"
BLOCKERS: Final = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedScheduling", "Failed")
"""Reasons of Events that explain a pod whose containers do not start."""
PATIENT: Final = frozenset({"WaitForFirstConsumer", "WaitForPodScheduled"})
"""Reasons of Events about a claim that waits for its Pod."""
STORAGE_CLASS: Final = re.compile(r"no storage class is set|storageclass\.storage\.k8s\.io \S+ not found")


def explain_pod(pod: FoundChild, evidence: Evidence) -> Cause | None:
    """Return why the pod is not ready; None if it is ready or the cause is unknown."""
    return next(find_causes(pod, evidence), None)


def find_causes(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield the causes, the most certain first."""
    phase = object_fields.text(pod.raw, "status", "phase")
    yield from explain_node(pod, evidence)
    if pod.is_deleting:
        yield explain_end(pod)
        return
    if phase == "Failed" or is_ended_by_node(pod):
        reason = object_fields.text(pod.raw, "status", "reason")
        message = line_of(reason, object_fields.text(pod.raw, "status", "message"))
        if is_ended_by_node(pod):
            eviction = evidence.find_warning(pod.uid, "Evicted")
            message = describe_event(eviction).rstrip() or message or ENDED_BY_NODE
        # The containers of an evicted Pod report only that they were killed.
        if not reason and phase == "Failed":
            yield from explain_containers(pod, evidence)
        command = logs(pod) if has_log(pod) else describe_pod(pod)
        yield make(pod, message or "its containers have failed", command=command, since=pod.condition("Ready").since)
        return
    yield from explain_scheduling(pod, evidence)
    yield from explain_containers(pod, evidence)
    yield from explain_start(pod, evidence)
    yield from explain_readiness(pod, evidence)


def is_ended_by_node(pod: FoundChild) -> bool:
    """Return whether the kubelet ended a pod whose containers are always restarted: an eviction, or the end of its node.

    If the program ends well at SIGTERM, the kubelet may report such a pod as succeeded.
    """
    is_restarted = object_fields.text(pod.raw, "spec", "restartPolicy") == "Always"
    return is_restarted and object_fields.text(pod.raw, "status", "phase") == "Succeeded"


def explain_end(pod: FoundChild) -> Cause:
    """Return why a deleted pod still exists: a container that has not ended, or finalizers."""
    # Sidecars end after the containers.
    statuses = [each for key in reversed(LISTS) for each in object_fields.entries(pod.raw, "status", key)]
    running = [
        object_fields.text(each, "name") for each in statuses if "running" in object_fields.mapping(each, "state")
    ]
    grace = object_fields.number(pod.raw, "metadata", "deletionGracePeriodSeconds") or 0
    # Of a pod, this is the time when its containers are killed.
    since = object_fields.text(pod.raw, "metadata", "deletionTimestamp")
    deadline = ages.parse(since)
    if deadline is not None and 0 <= grace <= deadline:
        since = times.format_time(deadline - grace)
    if running:
        message = (
            f"is being deleted; {name_container(pod, running[0])} still runs, and is killed {grace} s after the request "
            "(terminationGracePeriodSeconds)"
        )
        return make(pod, message, command=logs(pod, running[0]), since=since)
    held = ", ".join(pod.finalizers)
    message = f"is being deleted, held by {held}" if held else "is being deleted"
    command = advice.join("kubectl get pod", pod.name, "-n", pod.namespace, "-o", "yaml")
    return make(pod, message, command=command, since=since)


def explain_node(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield that the node of the pod has stopped reporting, so the pod's status is outdated."""
    name = object_fields.text(pod.raw, "spec", "nodeName")
    node, event = evidence.nodes.get(name), evidence.find_latest(pod.uid, "NodeNotReady")
    ready = node.condition("Ready") if node is not None else None
    # A user without the right to read nodes sees only the Event, which remains after the node is back.
    is_lost = ready.status != "True" if ready is not None else event is not None and not is_ready(pod)
    if name and is_lost:
        said = line_of("", ready.message if ready is not None else "").rstrip(".")
        message = f"its node {safe_text.one_line(name)} is not ready" + (f": {said}" if said else "")
        since = ready.since if ready is not None else event_time(event)
        yield make(pod, message, command=advice.join("kubectl describe node", name), since=since)


def explain_scheduling(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield that no node accepts the pod, in the words of the scheduler, and below it the claims that the pod waits
    for.
    """
    scheduled = pod.condition("PodScheduled")
    if scheduled.status == "False":
        message = f"cannot be scheduled: {line_of(scheduled.reason, scheduled.message)}"
        claims = tuple(explain_claims(pod, evidence))
        command = "" if claims else describe_pod(pod)
        yield make(pod, message, command=command, since=scheduled.since, causes=claims)


def explain_claims(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield why claims of the pod are not bound."""
    for name in claims_of(pod):
        claim = evidence.claims.get((pod.namespace, name))
        cause = explain_claim(claim, evidence) if claim is not None else None
        if cause is not None:
            yield cause


def explain_claim(child: FoundChild, evidence: Evidence) -> Cause | None:
    """Return why a claim is not bound, in the words of its Events; None if it is bound or waits for its pod."""
    phase = object_fields.text(child.raw, "status", "phase")
    event = evidence.find_event(child.uid)
    if child.is_deleting:
        return explain_deletion(child, evidence)
    if phase == "Bound" or (event is None and phase != "Lost") or object_fields.text(event, "reason") in PATIENT:
        return None
    message = describe_event(event)
    command = "kubectl get storageclasses" if STORAGE_CLASS.search(message) else describe(child)
    return Cause(subject=str(child), message=message or "has lost its volume", since=event_time(event), command=command)


def explain_containers(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield the reasons why its containers wait, or how they ended."""
    for key in LISTS:
        for status in object_fields.entries(pod.raw, "status", key):
            name = object_fields.text(status, "name")
            log = evidence.logs.get((pod.uid, name), "")
            cause = (
                explain_kill(pod, name, status, evidence)
                or explain_waiting(pod, name, status)
                or explain_terminated(pod, name, status, is_init=key == LISTS[0], log=log)
            )
            if cause is not None:
                yield cause


def find_init_containers(pod: FoundChild) -> dict[str, bool]:
    """Return the init containers by name, and whether each is a sidecar, which runs as long as the pod."""
    entries = object_fields.entries(pod.raw, "spec", "initContainers")
    return {
        object_fields.text(entry, "name"): object_fields.text(entry, "restartPolicy") == "Always" for entry in entries
    }


def find_event_of(
    pod: FoundChild, container: str, evidence: Evidence, *reasons: str, pattern: re.Pattern[str] = ANY
) -> Object | None:
    """Return the latest Event about a container of the pod that has one of these reasons and a matching message."""
    for event in reversed(evidence.events.get(pod.uid, ())):
        path = object_fields.text(event, "involvedObject", "fieldPath")
        concerns_resource = not path or path.endswith(f"{{{container}}}")
        is_wanted = object_fields.text(event, "reason") in reasons
        if concerns_resource and is_wanted and pattern.search(object_fields.text(event, "message")):
            return event
    return None


def explain_kill(pod: FoundChild, name: str, status: Mapping[str, Any], evidence: Evidence) -> Cause | None:
    """Return why the kubelet restarts a container (a failing probe or hook); None if the container ends on its own.

    After such a restart, the exit code is only the program's reaction to SIGTERM.
    """
    ended = object_fields.mapping(status, "state", "terminated") or object_fields.mapping(
        status, "lastState", "terminated"
    )
    if not ended or status.get("ready") is True or object_fields.text(ended, "reason") == "OOMKilled":
        return None
    is_running = "running" in object_fields.mapping(status, "state")
    hook = find_event_of(pod, name, evidence, "FailedPostStartHook")
    # Once the container runs again, a different probe may be failing.
    probe = find_event_of(pod, name, evidence, "Unhealthy", pattern=ANY if is_running else KILLING_PROBE)
    said = object_fields.text(probe, "message")
    is_killed = object_fields.number(ended, "exitCode") in SIGNALED or find_event_of(
        pod, name, evidence, "Killing", pattern=KILLED
    )
    if hook is not None:
        why = f"its postStart hook fails: {object_fields.text(hook, 'message')}"
    elif KILLING_PROBE.match(said) and is_killed:
        why = strip_end(said)
    else:
        return None
    message = f"{name_container(pod, name)} is killed{describe_restarts(status)}: {why}"
    command = logs(pod, name, previous=is_running)
    return make(pod, message, command=command, since=object_fields.text(ended, "finishedAt"))


def describe_restarts(status: Mapping[str, Any]) -> str:
    """Return how often a container was restarted, to follow a verb; "" for never."""
    count = object_fields.number(status, "restartCount") or 0
    return f", and was restarted {count} {'time' if count == 1 else 'times'}" if count else ""


def strip_end(message: str) -> str:
    """Return a message of the kubelet without the colon after which a probe printed nothing."""
    return safe_text.one_line(message).rstrip(" :")


def explain_waiting(pod: FoundChild, name: str, status: Mapping[str, Any]) -> Cause | None:
    """Return why a container does not start, or None if it starts."""
    waiting = object_fields.mapping(status, "state", "waiting")
    reason, message = object_fields.text(waiting, "reason"), object_fields.text(waiting, "message")
    if reason in STARTING:
        return None
    if reason == "CrashLoopBackOff":
        return explain_crash(pod, name, status)
    if reason in IMAGE:
        image = object_fields.text(status, "image")
        said = f"container {name}: the image {image} cannot be pulled: {line_of(reason, message)}"
        return make(pod, said, command=describe_pod(pod))
    return make(pod, f"container {name} cannot start: {line_of(reason, message)}", command=describe_pod(pod))


def explain_crash(pod: FoundChild, name: str, status: Mapping[str, Any]) -> Cause:
    """Return how a crashing container ends, with the end of its log."""
    ended = object_fields.mapping(status, "lastState", "terminated")
    said = f"{name_container(pod, name)} ends {describe_end(ended)}{describe_restarts(status)}"
    command = logs(pod, name, previous=True) if has_run(ended) else describe_pod(pod)
    return make(pod, said, command=command, since=object_fields.text(ended, "finishedAt"))


def explain_terminated(
    pod: FoundChild, name: str, status: Mapping[str, Any], *, is_init: bool, log: str = ""
) -> Cause | None:
    """Return how a container ended, or None if it runs, or ended well. log: the end of its log."""
    ended = object_fields.mapping(status, "state", "terminated")
    is_sidecar = find_init_containers(pod).get(name, False)
    is_done = object_fields.number(ended, "exitCode") == 0
    # A container that is always restarted must not end, not even successfully.
    must_run = is_sidecar or (not is_init and object_fields.text(pod.raw, "spec", "restartPolicy") == "Always")
    if not ended or (is_done and not must_run):
        return None
    since = object_fields.text(ended, "finishedAt")
    words, line = describe_end(ended), object_reports.find_last_line(log)
    said = f"{words}; its log ends with: {line}" if line and line not in words else words
    kind = name_container(pod, name, is_init=is_init)
    command = logs(pod, name) if has_run(ended) else describe_pod(pod)
    return make(pod, f"{kind} ended {said}{describe_restarts(status)}", command=command, since=since)


def has_run(ended: Mapping[str, Any]) -> bool:
    """Return whether a terminated container had started, so that it may have a log."""
    return bool(ended) and object_fields.text(ended, "reason") not in NEVER_RAN


def has_log(pod: FoundChild) -> bool:
    """Return whether a container of the pod runs, or ran."""
    states = (
        object_fields.mapping(status, key)
        for lists in LISTS
        for status in object_fields.entries(pod.raw, "status", lists)
        for key in ("state", "lastState")
    )
    return any("running" in state or has_run(object_fields.mapping(state, "terminated")) for state in states)


def name_container(pod: FoundChild, name: str, *, is_init: bool = False) -> str:
    """Return the name of a container with its type."""
    inits = find_init_containers(pod)
    kind = "sidecar" if inits.get(name) else "init container" if is_init or name in inits else "container"
    return f"{kind} {name}"


def describe_end(ended: Mapping[str, Any]) -> str:
    """Return `with exit code 1 (Error): last message`."""
    code, reason = object_fields.number(ended, "exitCode"), object_fields.text(ended, "reason")
    message = safe_text.one_line(object_fields.text(ended, "message"))
    head = f"with exit code {code}" if code is not None else "for an unknown reason"
    return head + (f" ({reason})" if reason else "") + (f": {message}" if message else "")


def explain_start(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield the latest Warning about a pod whose containers have not started."""
    statuses = [each for key in LISTS for each in object_fields.entries(pod.raw, "status", key)]
    is_starting = any(
        object_fields.text(each, "state", "waiting", "reason") in STARTING
        and "waiting" in object_fields.mapping(each, "state")
        for each in statuses
    )
    event = evidence.find_warning(pod.uid, *BLOCKERS)
    if event is not None and (is_starting or not statuses):
        message = f"cannot start: {describe_event(event)}"
        yield make(pod, message, command=describe_pod(pod), since=event_time(event))
    elif is_starting:
        yield from explain_init(pod, evidence)
        yield from explain_pull(pod, statuses, evidence)
        yield make(pod, "its containers are being created", command=describe_pod(pod))


def explain_init(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield the running init container that all later containers wait for."""
    inits = find_init_containers(pod)
    for status in object_fields.entries(pod.raw, "status", LISTS[0]):
        name, running = object_fields.text(status, "name"), object_fields.mapping(status, "state", "running")
        is_started = inits.get(name) and status.get("started") is True
        if "running" not in object_fields.mapping(status, "state") or is_started:
            continue
        line = object_reports.find_last_line(evidence.logs.get((pod.uid, name), ""))
        said = f"{name_container(pod, name, is_init=True)} {'has not started yet' if inits.get(name) else 'still runs'}"
        message = f"{said}; its log ends with: {line}" if line else said
        yield make(pod, message, command=logs(pod, name), since=object_fields.text(running, "startedAt"))


def explain_pull(pod: FoundChild, statuses: Sequence[Mapping[str, Any]], evidence: Evidence) -> Iterator[Cause]:
    """Yield the image that a container waits for."""
    for status in statuses:
        name = object_fields.text(status, "name")
        event = find_event_of(pod, name, evidence, "Pulling", "Pulled")
        if "waiting" in object_fields.mapping(status, "state") and object_fields.text(event, "reason") == "Pulling":
            message = f"container {name}: the image {object_fields.text(status, 'image')} is being pulled"
            yield make(pod, message, command=describe_pod(pod), since=event_time(event))
            return


def explain_readiness(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield why a pod that runs is not ready: a failing probe, or a readiness gate."""
    ready = pod.condition("Ready")
    if is_ready(pod):
        return
    probe = evidence.find_warning(pod.uid, "Unhealthy")
    if probe is not None:
        yield from explain_probe(pod, probe)
    if ready.reason or ready.message:
        message = f"runs, but is not ready: {line_of(ready.reason, ready.message)}"
        yield make(pod, message, command=describe_pod(pod), since=ready.since)
    elif not ready.status:
        yield make(pod, "was created, but no node has reported on it yet", command=describe_pod(pod))


def explain_probe(pod: FoundChild, event: Object) -> Iterator[Cause]:
    """Yield the failing probe of the Event, unless it is a startup probe that has succeeded since."""
    said = object_fields.text(event, "message")
    statuses = [each for key in LISTS for each in object_fields.entries(pod.raw, "status", key)]
    path = object_fields.text(event, "involvedObject", "fieldPath")
    status = next((each for each in statuses if path.endswith(f"{{{object_fields.text(each, 'name')}}}")), {})
    is_startup = said.startswith("Startup probe ")
    if is_startup and status.get("started") is True:
        return
    name = object_fields.text(status, "name")
    subject = f"{name_container(pod, name)} " if name else ""
    verb = "has not started yet" if is_startup else "runs, but is not ready"
    message = "; ".join([strip_end(said), *describe_former_ends(pod)])
    yield make(pod, f"{subject}{verb}: {message}", command=logs(pod, name), since=pod.condition("Ready").since)


def describe_former_ends(pod: FoundChild) -> Iterator[str]:
    """Yield how running containers ended before: after each crash, a probe fails for a moment."""
    for status in object_fields.entries(pod.raw, "status", "containerStatuses"):
        ended = object_fields.mapping(status, "lastState", "terminated")
        if ended and status.get("ready") is not True and "running" in object_fields.mapping(status, "state"):
            name = name_container(pod, object_fields.text(status, "name"))
            yield f"before, {name} ended {describe_end(ended)}{describe_restarts(status)}"


def make(pod: FoundChild, message: str, *, command: str, since: str = "", causes: tuple[Cause, ...] = ()) -> Cause:
    """Return a cause about a pod."""
    return Cause(subject=str(pod), message=safe_text.one_line(message), command=command, since=since, causes=causes)


def describe_pod(pod: FoundChild) -> str:
    """Return the command that shows everything about the pod."""
    return advice.join("kubectl describe pod", pod.name, "-n", pod.namespace)


def logs(pod: FoundChild, container: str = "", *, previous: bool = False) -> str:
    """Return the command that shows the log of a container, or of the one before it."""
    words = [*(["-c", container] if container else []), *(["--previous"] if previous else [])]
    return advice.join("kubectl logs", pod.name, "-n", pod.namespace, *words)


# Why an object whose deletion was requested still exists: finalizers, users, and its own reports.

SHOWN_AT_MOST: Final = 3
"""Explained objects that hold up one deletion. The others have the same cause in most cases."""
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
KEPT: Final = re.compile(
    r"(kubernetes|foregroundDeletion|orphan|[a-z0-9.-]*\.k8s\.io|[a-z0-9.-]*\.kubernetes\.io|kubernetes\.io|hearth\.dev)(/.*)?"
)
"""Finalizers that Kubernetes or Hearth removes in time. Removing them by hand skips their cleanup."""
RESOURCES_LEFT: Final = re.compile(r"([a-z0-9-]{1,253})\.([a-z0-9.-]{0,253}) has [0-9]+ resource")
GROUPS_AWAY: Final = re.compile(r"\b([a-z0-9-]+(?:\.[a-z0-9-]+)+)/(v[a-z0-9]{1,60}): ")


def explain_deletion(child: FoundChild, evidence: Evidence) -> Cause:
    """Return the obstacle to the deletion of an object."""
    others = safe_text.one_line(", ".join(finalizers.find_others(child.finalizers)))
    foreign = [each for each in child.finalizers if not KEPT.fullmatch(each)]
    below = tuple(find_holders(child, evidence))
    parts = ["is being deleted"]
    if foreign:
        parts[0] += f", held by the finalizers {others}: their controllers must remove them"
        parts.append("if these controllers no longer exist, remove the finalizers yourself")
    elif others:
        parts[0] += f", held by the finalizers {others}"
    if finalizers.FOREGROUND in child.finalizers:
        parts.append("it stays until its pods are deleted")
    since = object_fields.text(child.raw, "metadata", "deletionTimestamp")
    return Cause(
        subject=str(child), message="; ".join(parts), since=since, command=advise_deletion(child, foreign), causes=below
    )


def advise_deletion(child: FoundChild, foreign: list[str]) -> str:
    """Return the command that ends the wait, or "" if no command helps with this object."""
    if names.is_stack(child.kind.group, child.kind.name):
        return ask_why(child)
    if not foreign:
        return ""
    kept = [each for each in child.finalizers if each not in foreign]
    patch = json.dumps({"metadata": {"finalizers": kept or None}}, separators=(",", ":"))
    return advice.join("kubectl patch", child.type, child.name, *child.scope, "--type=merge", "-p", patch)


def find_holders(child: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield the other objects that block the deletion."""
    if child.kind.key == object_reports.NAMESPACE:
        held = [each for each in evidence.remaining if each.namespace == child.name and each.finalizers]
        yield from (explain_deletion(each, evidence) for each in held[:SHOWN_AT_MOST])
        yield from explain_groups(child)
    if child.kind.key == CLAIM and CLAIM_PROTECTION in child.finalizers:
        users = (
            pod for pod in evidence.claim_users if pod.namespace == child.namespace and child.name in claims_of(pod)
        )
        yield from (explain_user(pod) for pod in list(users)[:SHOWN_AT_MOST])
    if child.kind.key == "PersistentVolume" and VOLUME_PROTECTION in child.finalizers:
        claim = object_fields.mapping(child.raw, "spec", "claimRef")
        if named := object_fields.text(claim, "name"):
            where = f"persistentvolumeclaim/{named} in {object_fields.text(claim, 'namespace')}"
            yield Cause(
                subject=safe_text.one_line(where), message="is bound to it: the volume is deleted after the claim"
            )


def ask_why(child: FoundChild) -> str:
    """Return the command that explains the state of a nested Stack or group."""
    return advice.join("kubectl stack why", f"rg/{child.name}" if child.is_group else child.name, *child.scope)


def explain_groups(namespace: FoundChild) -> Iterator[Cause]:
    """Yield the unavailable APIs. The Namespace controller cannot tell whether their objects remain."""
    messages = object_reports.find_deletion_messages(namespace.kind.key, namespace.raw)
    failure = messages.get("NamespaceDeletionDiscoveryFailure", "")
    for group, version in dict.fromkeys(GROUPS_AWAY.findall(failure)):
        name = f"{version}.{group}"
        yield Cause(
            subject=f"apiservice.apiregistration.k8s.io/{name}",
            message="does not answer: start the server behind it, or delete the APIService if the server no longer exists",
            command=advice.join("kubectl delete apiservice", name),
        )


def explain_user(pod: FoundChild) -> Cause:
    """Return that a pod uses a claim. A deleted pod would be recreated if it has a controller."""
    owner = next(
        (each for each in object_fields.entries(pod.raw, "metadata", "ownerReferences") if each.get("controller")), None
    )
    if owner is None:
        command = advice.join("kubectl delete pod", pod.name, "-n", pod.namespace)
        return Cause(subject=str(pod), message="uses it: the claim is deleted after the pod", command=command)
    named = f"{object_fields.text(owner, 'kind').lower()}/{object_fields.text(owner, 'name')}"
    return Cause(subject=str(pod), message=safe_text.one_line(f"uses it, and belongs to {named}"))


def claims_of(pod: FoundChild) -> list[str]:
    """Return the names of the claims that a pod uses."""
    found = []
    for volume in object_fields.entries(pod.raw, "spec", "volumes"):
        if name := object_fields.text(volume, "persistentVolumeClaim", "claimName"):
            found.append(name)
        elif object_fields.mapping(volume, "ephemeral"):
            found.append(f"{pod.name}-{object_fields.text(volume, 'name')}")
    return found


def find_remaining(namespace: FoundChild) -> list[tuple[str, str]]:
    """Return plural and group of the kinds whose objects remain in a Namespace."""
    messages = object_reports.find_deletion_messages(namespace.kind.key, namespace.raw)
    return list(dict.fromkeys(RESOURCES_LEFT.findall(messages.get(object_reports.REMAINING, ""))))
