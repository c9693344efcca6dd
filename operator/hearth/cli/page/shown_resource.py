"""The view of one resource: causes, Events, live object, manifest, and desired fields next to live ones.

All texts are cleaned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from hearth.cli.page import shown_stack
from hearth.cli.stack_views import ages, safe_text, shown_objects
from hearth.cli.stack_views.causes import stack_causes
from hearth.cli.stack_views.causes.explanation import Cause, Evidence
from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.lists.event_timeline import TimelineEntry
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState
from hearth.model import child as child_module
from hearth.model import limits, names, object_fields, value_class
from hearth.model.well_known_kinds import POD
from hearth.plan.ownership import field_changes
from hearth.plan.ownership.field_changes import Absent, FieldPath
from hearth.preview.changes import Preview
from hearth.template.text import kubectl_yaml

AgedEntry: TypeAlias = tuple[str, TimelineEntry]
"""An Event with its age in words."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownPod:
    """A pod of a workload."""

    name: str
    namespace: str
    phase: str
    ready: str
    """Ready containers and all containers: `1/2`."""
    restarts: int
    age: str
    node: str
    containers: tuple[str, ...]
    """Containers with a log, init containers first."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownResource:
    """One resource, or one obsolete object of it."""

    row: ResourceRow
    causes: tuple[Cause, ...]
    events: tuple[AgedEntry, ...]
    live: str
    """YAML, or "" if there is no object."""
    manifest: str
    """YAML."""
    pods: tuple[ShownPod, ...]
    """The newest pods of a workload, or the pod itself."""
    nested_path: str
    """The page of the nested Stack or group; "" for any other kind."""
    nested: StackObjects | None
    """The parts of the nested Stack that were read."""
    is_marked: bool
    """Whether the object is marked unhealthy."""


def describe(
    objects: StackObjects, name: str, evidence: Evidence, *, object_: str = "", now: float
) -> ShownResource | None:
    """Describe a resource.

    Returns None if it does not exist. object_: which one of several objects, as `configmap/web-1`; now: seconds.
    """
    row = find_row(objects, name, object_=object_)
    if row is None:
        return None
    child = find_child(objects, row)
    return ShownResource(
        row=row,
        causes=find_causes(objects, row, evidence),
        events=describe_events(objects, child, evidence, now=now) if child is not None else (),
        live=write(shown_objects.show_object(objects, child)) if child is not None else "",
        manifest=write(shown_objects.show_manifest(objects, name)),
        pods=describe_pods(child, evidence, now=now) if child is not None else (),
        nested_path=find_nested_path(child),
        nested=objects.nested.get(child.uid) if child is not None else None,
        is_marked=child is not None
        and names.ANNOTATION_UNHEALTHY in object_fields.mapping(child.raw, "metadata", "annotations"),
    )


def describe_pods(child: FoundChild, evidence: Evidence, *, now: float) -> tuple[ShownPod, ...]:
    """Describe the pods that an object owns, directly or indirectly, or the object itself if it is a pod."""
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
        return stack_causes.redact_causes(objects, (stack_causes.explain_row(objects, row, evidence),))
    return stack_causes.find_causes(objects, [row.resource], evidence) or ()


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


def describe_events(
    objects: StackObjects, child: FoundChild, evidence: Evidence, *, now: float
) -> tuple[AgedEntry, ...]:
    """Describe the Events about an object and those that it owns, the latest first."""
    uids = {child.uid: ""}
    pending = [child.uid]
    while pending:
        for owned in evidence.owned.get(pending.pop(), ()):
            if owned.uid not in uids:
                uids[owned.uid] = ""
                pending.append(owned.uid)
    events = [event for uid in uids for event in evidence.events.get(uid, ())]
    return describe_timeline(event_timeline.describe_events(events, uids, objects), now=now)


def describe_timeline(entries: Iterable[TimelineEntry], *, now: float) -> tuple[AgedEntry, ...]:
    """Return the entries with their ages, the latest first."""
    latest = event_timeline.sort(entries, since=None, only_warnings=False)[: -limits.PAGE_EVENTS - 1 : -1]
    return tuple((event_timeline.describe_age(entry, now=now), entry) for entry in latest)


def find_nested_path(child: FoundChild | None) -> str:
    """Return the page of a nested Stack or group."""
    if child is None or not (child.is_stack or child.is_group):
        return ""
    return shown_stack.make_path(child.kind, child.namespace, child.name)


def write(value: object) -> str:
    """Return an object as YAML."""
    return safe_text.clean(kubectl_yaml.write(value)) if value else ""


# The fields of an object that the Stack sets, next to the live values: the fields that the API server attributes to the
# Stack. Fields that other managers took over are known only from a preview, which computes the next write.

LONGEST: Final = 1_000
"""Characters of a value that are shown."""
SELF: Final = "."
"""The entry of a map or list item itself among the owned fields below it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownField:
    """One field."""

    path: str
    wanted: str
    """"" if the Stack wants the field removed."""
    live: str
    """"" if the object lacks the field."""
    differs: bool


def compare(objects: StackObjects, child: FoundChild, preview: Preview) -> tuple[ShownField, ...]:
    """Return the fields that the Stack sets, with differing fields first. preview: of the current Stack."""
    found = {
        field_changes.write_path(path): write_value(value)
        for path, value in list_owned(shown_objects.show_object(objects, child), find_owned_fields(child), ())
        if not is_bookkeeping(path)
    }
    changed = {
        field.text: ShownField(
            path=clean_line(field.text), wanted=write_value(field.new), live=write_value(field.old), differs=True
        )
        for change in preview.changes
        if change.ref is not None and change.resource == child.resource
        for field in change.fields
    }
    same = (
        ShownField(path=clean_line(path), wanted=value, live=value, differs=False)
        for path, value in found.items()
        if not any(is_within(each, path) or is_within(path, each) for each in changed)
    )
    return (*changed.values(), *same)[: limits.PAGE_EVENTS]


def is_within(path: str, other: str) -> bool:
    """Return whether a path is another one, or below it."""
    return path == other or path.startswith((f"{other}.", f"{other}["))


def find_owned_fields(child: FoundChild) -> Mapping[str, Any]:
    """Return the fields that `managedFields` attributes to the Stack."""
    entries = [dict(each) for each in object_fields.entries(child.raw, "metadata", "managedFields")]
    entry = child_module.find_entry(entries)
    return object_fields.mapping(entry, "fieldsV1") if entry is not None else object_fields.EMPTY


def list_owned(value: Any, owned: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the smallest owned fields with their values in the object; missing fields are left out."""
    for element, below in owned.items():
        place = find_place(value, element)
        if place is None:
            continue
        name, inner = place
        if isinstance(below, Mapping) and below.keys() - {SELF}:
            yield from list_owned(inner, below, (*path, name))
        else:
            yield (*path, name), inner


def find_place(value: Any, element: str) -> tuple[str, Any] | None:
    """Return the name and value for an entry of `fieldsV1` within a value, or None if it is missing."""
    key = element[2:]
    if element.startswith("f:"):
        return (key, value[key]) if isinstance(value, Mapping) and key in value else None
    if not isinstance(value, list) or element[:2] not in ("k:", "v:"):
        return None
    wanted = parse_json(key)
    for name, item in zip(field_changes.name_items(value), value, strict=True):
        is_item = element.startswith("k:") and isinstance(item, Mapping) and isinstance(wanted, Mapping)
        if (is_item and wanted.items() <= item.items()) or (element.startswith("v:") and item == wanted):
            return name, item
    return None


def parse_json(text: str) -> Any:
    """Return the value of a JSON text, or None for any other text. The text is untrusted."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_bookkeeping(path: FieldPath) -> bool:
    """Return whether this is a label or annotation of the operator itself."""
    return path[:2] in (("metadata", "labels"), ("metadata", "annotations")) and names.is_ours(path[-1])


def write_value(value: Any) -> str:
    """Return a value as one cleaned line; "" for none."""
    if isinstance(value, Absent):
        return ""
    text = value if isinstance(value, str) and value != "" else json.dumps(value, ensure_ascii=False, default=str)
    return clean_line(text)


def clean_line(text: str) -> str:
    """Return a text as it may be shown."""
    shown = safe_text.one_line(text)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
