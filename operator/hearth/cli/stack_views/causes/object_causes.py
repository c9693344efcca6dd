"""Why an object of a Stack is not ready: its pods, its own conditions, its Events. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hearth.cli import object_fields
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import advice, deletion_causes, pod_causes
from hearth.cli.stack_views.causes.cause import Cause, Evidence, find_condition, line_of
from hearth.cli.stack_views.tree.snapshot import FoundChild

PODS_AT_MOST: Final = 3
"""Pods of one workload that are explained: others have the same cause in most cases."""
CREATION: Final = ("FailedCreate", "FailedDelete")
CLAIM: Final = "PersistentVolumeClaim"
WORKLOADS: Final = frozenset("Deployment ReplicaSet StatefulSet DaemonSet Job CronJob ReplicationController".split())


def explain(child: FoundChild, evidence: Evidence) -> tuple[Cause, ...]:
    """Return what explains that the object is not ready; () if only the object itself does."""
    if child.is_deleting:
        return (deletion_causes.explain(child, evidence),)
    if child.kind.name == "Pod" and not child.kind.group:
        cause = pod_causes.explain(child, evidence)
        return (cause,) if cause is not None else ()
    if child.kind.name in WORKLOADS and (found := tuple(explain_workload(child, evidence))):
        return found
    if child.kind.key == CLAIM:
        cause = pod_causes.explain_claim(child, evidence)
        return (cause,) if cause is not None else ()
    event = evidence.find_warning(child.uid)
    if event is None:
        return ()
    message = line_of(object_fields.text(event, "reason"), object_fields.text(event, "message"))
    return (Cause(subject=str(child), message=message, since=pod_causes.event_time(event), command=describe(child)),)


def explain_workload(child: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield why pods cannot be created, and why pods are not ready."""
    yield from explain_creation(child, evidence)
    pods = [pod for pod in evidence.find_owned(child.uid, "Pod") if not is_ready(pod)]
    newest = sorted(pods, key=lambda pod: (pod.created, pod.name), reverse=True)
    seen: set[str] = set()
    for pod in newest:
        cause = pod_causes.explain(pod, evidence)
        if cause is not None and cause.message.replace(pod.name, "") not in seen and len(seen) < PODS_AT_MOST:
            seen.add(cause.message.replace(pod.name, ""))
            yield cause
    failed = find_condition(child.raw, "Failed")
    if failed.get("status") == "True":
        message = line_of(object_fields.text(failed, "reason"), object_fields.text(failed, "message"))
        yield Cause(subject=str(child), message=message, command=describe(child))


def explain_creation(child: FoundChild, evidence: Evidence) -> Iterator[Cause]:
    """Yield why the API server rejects the pods of a workload: quota, limit range, webhook, pod security, account."""
    makers = [child, *evidence.find_owned(child.uid, "ReplicaSet"), *evidence.find_owned(child.uid, "Job")]
    for maker in makers:
        failure = find_condition(maker.raw, "ReplicaFailure")
        event = evidence.find_warning(maker.uid, *CREATION)
        message = object_fields.text(failure, "message") if failure.get("status") == "True" else ""
        since = object_fields.text(failure, "lastTransitionTime")
        if not message and event is not None and not any(evidence.find_owned(maker.uid, "Pod")):
            message, since = object_fields.text(event, "message"), pod_causes.event_time(event)
        if message:
            command = advice.advise_text(message, child.namespace) or describe(maker)
            said = f"its pods are rejected: {safe_text.one_line(message)}"
            yield Cause(subject=str(maker), message=said, since=since, command=command)
            return


def is_ready(pod: FoundChild) -> bool:
    """Return whether a pod is ready, or has ended well."""
    phase = object_fields.text(pod.raw, "status", "phase")
    return phase == "Succeeded" or find_condition(pod.raw, "Ready").get("status") == "True"


def describe(child: FoundChild) -> str:
    """Return the command that shows everything about an object."""
    return advice.join("kubectl describe", child.type, child.name, *child.scope)
