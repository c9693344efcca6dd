"""What the page shows of one resource: why, events, live object and manifest. Pure; all texts are cleaned."""

from __future__ import annotations

from collections.abc import Iterable

from hearth.cli import object_fields
from hearth.cli.page import shown_stack
from hearth.cli.stack_views import ages, safe_text, shown_objects
from hearth.cli.stack_views.causes import explanation, stack_causes
from hearth.cli.stack_views.causes.explanation import Cause, Evidence
from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.lists.event_timeline import TimelineEntry
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState
from hearth.model import limits, value_class
from hearth.model.well_known_kinds import POD
from hearth.template.text import kubectl_yaml


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownCause:
    """A cause with the times in words."""

    cause: Cause
    times: str
    causes: tuple[ShownCause, ...]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """An Event with its age in words."""

    age: str
    type: str
    reason: str
    object: str
    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownPod:
    """A pod of a workload."""

    name: str
    namespace: str
    phase: str
    ready: str
    """`1/2`: containers that are ready, of all."""
    restarts: int
    age: str
    node: str
    containers: tuple[str, ...]
    """Those with a log, the init containers first."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownResource:
    """One resource, or one obsolete object of it."""

    row: ResourceRow
    causes: tuple[ShownCause, ...]
    events: tuple[ShownEvent, ...]
    live: str
    """YAML; "" if there is no object."""
    manifest: str
    """YAML."""
    pods: tuple[ShownPod, ...]
    """The newest pods of a workload, or the pod itself."""
    nested_path: str
    """The page of the nested Stack or group; "" for any other kind."""
    nested: StackObjects | None
    """What is in that, as far as it was read."""


def describe(
    objects: StackObjects, name: str, evidence: Evidence, *, object_: str = "", now: float
) -> ShownResource | None:
    """Describe a resource; None if there is no such one. object_: which of several, as `configmap/web-1`; now: seconds."""
    row = find_row(objects, name, object_=object_)
    if row is None:
        return None
    child = find_child(objects, row)
    causes = find_causes(objects, row, evidence)
    return ShownResource(
        row=row,
        causes=tuple(describe_cause(each, now=now) for each in causes),
        events=describe_events(child, evidence, now=now) if child is not None else (),
        live=write(shown_objects.show_object(objects, child)) if child is not None else "",
        manifest=write(shown_objects.show_manifest(objects, name)),
        pods=describe_pods(child, evidence, now=now) if child is not None else (),
        nested_path=find_nested_path(child),
        nested=objects.nested.get(child.uid) if child is not None else None,
    )


def describe_pods(child: FoundChild, evidence: Evidence, *, now: float) -> tuple[ShownPod, ...]:
    """Describe the pods that an object owns, directly or not; a pod itself."""
    is_pod = child.kind == POD
    pods = [child] if is_pod else list({pod.uid: pod for pod in evidence.find_owned(child.uid, "Pod")}.values())
    newest = sorted(pods, key=lambda pod: (pod.created, pod.name), reverse=True)[: limits.PAGE_PODS]
    return tuple(describe_pod(pod, now=now) for pod in newest)


def describe_pod(pod: FoundChild, *, now: float) -> ShownPod:
    """Describe one pod."""
    statuses = object_fields.entries(pod.raw, "status", "containerStatuses")
    stated = [
        *object_fields.entries(pod.raw, "spec", "initContainers"),
        *object_fields.entries(pod.raw, "spec", "containers"),
    ]
    names = (object_fields.text(each, "name") for each in stated)
    ready = sum(object_fields.find(each, "ready") is True for each in statuses)
    return ShownPod(
        name=safe_text.one_line(pod.name),
        namespace=safe_text.one_line(pod.namespace),
        phase="Terminating" if pod.is_deleting else safe_text.one_line(object_fields.text(pod.raw, "status", "phase")),
        ready=f"{ready}/{len(object_fields.entries(pod.raw, 'spec', 'containers'))}",
        restarts=sum(object_fields.number(each, "restartCount") or 0 for each in statuses),
        age=ages.describe(pod.created, now=now),
        node=safe_text.one_line(object_fields.text(pod.raw, "spec", "nodeName")),
        containers=tuple(safe_text.one_line(name) for name in names if name)[: limits.PAGE_PODS],
    )


def find_causes(objects: StackObjects, row: ResourceRow, evidence: Evidence) -> tuple[Cause, ...]:
    """Return why a resource, or an obsolete object of it, is in its state."""
    if row.state is RowState.OBSOLETE:
        return (stack_causes.explain_row(objects, row, evidence),)
    return stack_causes.explain_resource(objects, [row.resource], evidence) or ()


def find_row(objects: StackObjects, name: str, *, object_: str) -> ResourceRow | None:
    """Return the row of a resource. object_: as for `describe`."""
    rows = stack_causes.flatten(stack_view.describe_rows(objects))
    return next((each for each in rows if each.resource == name and object_ in ("", each.object)), None)


def find_object(objects: StackObjects, name: str, *, object_: str) -> FoundChild | None:
    """Return the object of a resource, None without one. object_: as for `describe`."""
    row = find_row(objects, name, object_=object_)
    return find_child(objects, row) if row is not None else None


def find_child(objects: StackObjects, row: ResourceRow) -> FoundChild | None:
    """Return the object of a row."""
    return next((each for each in objects.children if str(each) == row.object), None)


def describe_cause(cause: Cause, *, now: float) -> ShownCause:
    """Describe a cause and all below it."""
    return ShownCause(
        cause=cause,
        times=explanation.describe_times(cause, now=now).strip(),
        causes=tuple(describe_cause(each, now=now) for each in cause.causes),
    )


def describe_events(child: FoundChild, evidence: Evidence, *, now: float) -> tuple[ShownEvent, ...]:
    """Describe the Events about an object and those that it owns, the latest first."""
    uids = {child.uid: ""}
    pending = [child.uid]
    while pending:
        for owned in evidence.owned.get(pending.pop(), ()):
            if owned.uid not in uids:
                uids[owned.uid] = ""
                pending.append(owned.uid)
    events = [event for uid in uids for event in evidence.events.get(uid, ())]
    return describe_timeline(event_timeline.describe_events(events, uids), now=now)


def describe_timeline(entries: Iterable[TimelineEntry], *, now: float) -> tuple[ShownEvent, ...]:
    """Describe entries, the latest first."""
    latest = event_timeline.sort(entries, since=None, only_warnings=False)[: -limits.PAGE_EVENTS - 1 : -1]
    return tuple(describe_event(entry, now=now) for entry in latest)


def describe_event(entry: TimelineEntry, *, now: float) -> ShownEvent:
    """Describe one Event."""
    age = ages.format_age(now - entry.time)
    return ShownEvent(
        age=f"{age} (x{entry.count})" if entry.count > 1 else age,
        type=entry.type,
        reason=entry.reason,
        object=entry.object,
        message=entry.message,
    )


def find_nested_path(child: FoundChild | None) -> str:
    """Return the page of a nested Stack or group."""
    if child is None or not (child.is_stack or child.is_group):
        return ""
    return shown_stack.make_path(child.kind, child.namespace, child.name)


def write(value: object) -> str:
    """Return an object as YAML."""
    return safe_text.clean(kubectl_yaml.write(value)) if value else ""
