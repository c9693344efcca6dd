"""Why a pod is not ready, down to its containers. Pure; table-driven by what the kubelet and the scheduler report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import advice, deletion_causes
from hearth.cli.stack_views.causes.cause import Cause, Evidence, find_condition, line_of
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.plan.health import run_end

IMAGE: Final = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
STARTING: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
LISTS: Final = ("initContainerStatuses", "containerStatuses")
BLOCKERS: Final = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedScheduling", "Failed")
"""Reasons of Events that explain a pod whose containers do not start."""


PATIENT: Final = frozenset({"WaitForFirstConsumer", "WaitForPodScheduled"})
"""Reasons of Events about a claim that waits for its pod, not the other way round."""
STORAGE_CLASS: Final = re.compile(r"no storage class is set|storageclass\.storage\.k8s\.io \S+ not found")


def explain(pod: FoundChild, evidence: Evidence) -> Cause | None:
    """Return why the pod is not ready, None if it is or nothing is known."""
    return next(find_causes(pod, evidence), None)


def find_causes(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield the causes, the most certain first."""
    phase = object_fields.text(pod.raw, "status", "phase")
    if pod.is_deleting:
        held = ", ".join(pod.finalizers)
        message = f"is being deleted, held by {held}" if held else "is being deleted"
        yield make(pod, message, command=get(pod), since=object_fields.text(pod.raw, "metadata", "deletionTimestamp"))
        return
    if phase == "Failed":
        reason = object_fields.text(pod.raw, "status", "reason")
        message = line_of(reason, object_fields.text(pod.raw, "status", "message"))
        yield from explain_containers(pod, evidence)
        yield make(pod, message or "its containers have failed", command=logs(pod))
        return
    yield from explain_scheduling(pod, evidence)
    yield from explain_containers(pod, evidence)
    yield from explain_start(pod, evidence)
    yield from explain_readiness(pod, evidence)


def explain_scheduling(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield that no node takes the pod, in the words of the scheduler; below it the claims that it waits for."""
    scheduled = find_condition(pod.raw, "PodScheduled")
    if scheduled.get("status") == "False":
        message = line_of(object_fields.text(scheduled, "reason"), object_fields.text(scheduled, "message"))
        since = object_fields.text(scheduled, "lastTransitionTime")
        claims = tuple(explain_claims(pod, evidence))
        command = "" if claims else describe(pod)
        yield make(pod, f"cannot be scheduled: {message}", command=command, since=since, causes=claims)


def explain_claims(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield why claims of the pod are not bound."""
    for name in deletion_causes.claims_of(pod):
        claim = evidence.claims.get((pod.namespace, name))
        cause = explain_claim(claim, evidence) if claim is not None else None
        if cause is not None:
            yield cause


def explain_claim(child: FoundChild, evidence: Evidence) -> Cause | None:
    """Return why a claim is not bound, in the words of its Events; None if it is, or waits for its pod."""
    phase = object_fields.text(child.raw, "status", "phase")
    event = evidence.find_event(child.uid)
    if child.is_deleting:
        return deletion_causes.explain(child, evidence)
    if phase == "Bound" or (event is None and phase != "Lost") or object_fields.text(event, "reason") in PATIENT:
        return None
    message = line_of(object_fields.text(event, "reason"), object_fields.text(event, "message"))
    command = advice.join("kubectl describe", child.type, child.name, *child.scope)
    if STORAGE_CLASS.search(message):
        command = "kubectl get storageclasses"
    return Cause(
        subject=str(child), message=message or "has lost its volume", since=event_time(event or {}), command=command
    )


def explain_containers(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield what its containers wait for, or how they ended."""
    for key in LISTS:
        for status in object_fields.entries(pod.raw, "status", key):
            name = object_fields.text(status, "name")
            log = evidence.logs.get((pod.uid, name), "")
            cause = explain_waiting(pod, name, status) or explain_terminated(
                pod, name, status, is_init=key == LISTS[0], log=log
            )
            if cause is not None:
                yield cause


def explain_waiting(pod: FoundChild, name: str, status: Mapping[str, Any]) -> Cause | None:
    """Return why a container does not start; None if it does."""
    waiting = object_fields.mapping(status, "state", "waiting")
    reason, message = object_fields.text(waiting, "reason"), object_fields.text(waiting, "message")
    if reason in STARTING:
        return None
    if reason == "CrashLoopBackOff":
        return explain_crash(pod, name, status)
    if reason in IMAGE:
        image = object_fields.text(status, "image")
        said = f"container {name}: the image {image} cannot be pulled: {line_of(reason, message)}"
        return make(pod, said, command=describe(pod))
    return make(pod, f"container {name} cannot start: {line_of(reason, message)}", command=describe(pod))


def explain_crash(pod: FoundChild, name: str, status: Mapping[str, Any]) -> Cause:
    """Return how a container ends again and again, with its last words."""
    ended = object_fields.mapping(status, "lastState", "terminated")
    count = object_fields.number(status, "restartCount") or 0
    said = f"container {name} ends {describe_end(ended)}, and was restarted {count} times"
    return make(pod, said, command=logs(pod, name, previous=True), since=object_fields.text(ended, "finishedAt"))


def explain_terminated(
    pod: FoundChild, name: str, status: Mapping[str, Any], *, is_init: bool, log: str = ""
) -> Cause | None:
    """Return how a container ended; None if it runs, or ended well. log: the end of its log."""
    ended = object_fields.mapping(status, "state", "terminated")
    if not ended or (object_fields.number(ended, "exitCode") == 0):
        return None
    kind = "init container" if is_init else "container"
    since = object_fields.text(ended, "finishedAt")
    words, line = describe_end(ended), run_end.find_last_line(log)
    said = f"{words}; its log ends with: {line}" if line and line not in words else words
    return make(pod, f"{kind} {name} ended {said}", command=logs(pod, name), since=since)


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
        message = line_of(object_fields.text(event, "reason"), object_fields.text(event, "message"))
        yield make(pod, f"cannot start: {message}", command=describe(pod), since=event_time(event))
    elif is_starting:
        yield make(pod, "its containers are being created", command=describe(pod))


def explain_readiness(pod: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield why a pod that runs is not ready: a failing probe, or a readiness gate."""
    ready = find_condition(pod.raw, "Ready")
    if ready.get("status") == "True" or object_fields.text(pod.raw, "status", "phase") == "Succeeded":
        return
    since = object_fields.text(ready, "lastTransitionTime")
    probe = evidence.find_warning(pod.uid, "Unhealthy")
    if probe is not None:
        message = safe_text.one_line(object_fields.text(probe, "message"))
        yield make(pod, f"runs, but is not ready: {message}", command=logs(pod), since=since)
    reason, message = object_fields.text(ready, "reason"), object_fields.text(ready, "message")
    if reason or message:
        yield make(pod, f"runs, but is not ready: {line_of(reason, message)}", command=describe(pod), since=since)
    elif not ready:
        yield make(pod, "was created, and no node has reported on it yet", command=describe(pod))


def event_time(event: Mapping[str, Any]) -> str:
    """Return when an Event began."""
    return object_fields.text(event, "firstTimestamp") or object_fields.text(event, "eventTime")


def make(pod: FoundChild, message: str, *, command: str, since: str = "", causes: tuple[Cause, ...] = ()) -> Cause:
    """Return a cause about a pod."""
    return Cause(subject=str(pod), message=safe_text.one_line(message), command=command, since=since, causes=causes)


def describe(pod: FoundChild) -> str:
    """Return the command that shows everything about the pod."""
    return advice.join("kubectl describe pod", pod.name, "-n", pod.namespace)


def get(pod: FoundChild) -> str:
    """Return the command that shows the pod as it is stored."""
    return advice.join("kubectl get pod", pod.name, "-n", pod.namespace, "-o", "yaml")


def logs(pod: FoundChild, container: str = "", *, previous: bool = False) -> str:
    """Return the command that shows the log of a container, or of the one before it."""
    words = [
        pod.name,
        "-n",
        pod.namespace,
        *(["-c", container] if container else []),
        *(["--previous"] if previous else []),
    ]
    return advice.join("kubectl logs", *words)
