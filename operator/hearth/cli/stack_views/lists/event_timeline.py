"""One timeline of a Stack: Events of the Stack, its children, their Pods and nested Stacks, and its revisions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hearth.cli.stack_views import ages, safe_text, stated_values
from hearth.cli.stack_views.text_table import Cell
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.text import finalizers, redaction

HEADER: Final = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
WARNING: Final = "Warning"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One occurrence."""

    time: float
    """Seconds since the epoch."""
    type: str
    """`Normal` or `Warning`."""
    reason: str
    object: str
    count: int = 1
    message: str


def list_uids(objects: StackObjects) -> dict[str, str]:
    """Return by UID the Stack, its children and the children of nested Stacks, each with its path of resources."""
    found = {objects.stack.uid: ""}
    for child in objects.children:
        found[child.uid] = child.resource
        nested = objects.nested.get(child.uid)
        if nested is not None:
            inner = list_uids(nested)
            found |= {uid: f"{child.resource}/{path}" if path else child.resource for uid, path in inner.items()}
    return found


def describe_events(
    events: Iterable[Object], uids: Mapping[str, str], objects: StackObjects
) -> Iterator[TimelineEntry]:
    """Yield the Events about these objects of a Stack, without its sensitive values."""
    hidden = stated_values.find_stated_values(objects)
    for event in events:
        about = object_fields.mapping(event, "involvedObject")
        time = find_time(event)
        if object_fields.text(about, "uid") in uids and time is not None:
            yield TimelineEntry(
                time=time,
                type=safe_text.one_line(object_fields.text(event, "type")),
                reason=safe_text.one_line(object_fields.text(event, "reason")),
                object=describe_object(about),
                message=safe_text.one_line(redaction.redact(object_fields.text(event, "message"), hidden)),
                count=find_count(event),
            )


def describe_object(about: Mapping[str, object]) -> str:
    """Return `pod/shop-web-1`."""
    group = object_fields.text(about, "apiVersion").rpartition("/")[0]
    kind, name = object_fields.text(about, "kind"), object_fields.text(about, "name")
    return safe_text.one_line(ObjectRef(group=group, kind=kind, namespace="", name=name))


def find_time(event: Object) -> float | None:
    """Return the time when an Event last occurred; newer Events have a series, older ones a timestamp."""
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("metadata", "creationTimestamp")):
        time = ages.parse(object_fields.find(event, *path))
        if time is not None:
            return time
    return None


def find_count(event: Object) -> int:
    """Return how often an Event occurred."""
    return object_fields.number(event, "series", "count") or object_fields.number(event, "count") or 1


def describe_revisions(revisions: Mapping[int, Object], stack: str) -> Iterator[TimelineEntry]:
    """Yield an entry for each stored revision, with author and commit."""
    for number, revision in revisions.items():
        time = ages.parse(object_fields.text(revision, "metadata", "creationTimestamp"))
        annotations = object_fields.mapping(revision, "metadata", "annotations")
        author = object_fields.text(annotations, names.ANNOTATION_AUTHOR)
        commit = object_fields.text(annotations, names.ANNOTATION_COMMIT)
        words = (f"revision {number} stored", f"by {author}" if author else "", f"from {commit}" if commit else "")
        if time is not None:
            message = safe_text.one_line(" ".join(filter(None, words)))
            yield TimelineEntry(time=time, type="Normal", reason="Revision", object=stack, message=message)


def describe_deletions(objects: StackObjects) -> Iterator[TimelineEntry]:
    """Yield an entry for the deletion request of each child."""
    for child in objects.children:
        time = ages.parse(object_fields.find(child.raw, "metadata", "deletionTimestamp"))
        if time is not None:
            hold = safe_text.one_line(finalizers.describe_hold(child.finalizers))
            message = f"deletion requested; {hold}" if hold else "deletion requested"
            yield TimelineEntry(time=time, type="Normal", reason="Deleting", object=str(child), message=message)


def sort(entries: Iterable[TimelineEntry], *, since: float | None, only_warnings: bool) -> list[TimelineEntry]:
    """Return the entries since a time, the latest last. since: seconds since the epoch."""
    kept = [
        entry
        for entry in entries
        if (since is None or entry.time >= since) and (not only_warnings or entry.type == WARNING)
    ]
    return sorted(kept, key=lambda entry: (entry.time, entry.object, entry.reason))


def make_row(entry: TimelineEntry, *, now: float) -> list[Cell]:
    """Return the cells of one entry."""
    return [
        (describe_age(entry, now=now), ""),
        (entry.type, "yellow" if entry.type == WARNING else ""),
        (entry.reason, ""),
        (entry.object, ""),
        (entry.message, ""),
    ]


def describe_age(entry: TimelineEntry, *, now: float) -> str:
    """Return the age of an entry, and how often it occurred: `5m (x3)`."""
    age = ages.format_age(now - entry.time)
    return f"{age} (x{entry.count})" if entry.count > 1 else age


def to_output(entry: TimelineEntry) -> Object:
    """Return an entry for programs."""
    return dataclasses.asdict(entry)
