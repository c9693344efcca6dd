"""`Cause`, one sentence of an explanation and its causes, and `Evidence`, the objects in which causes are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from hearth.cli.stack_views import ages, safe_text
from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.model import object_fields, value_class
from hearth.model.child import Object

Segments = list[tuple[str, str]]
"""Texts with the names of their colors."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One sentence of an explanation, and the sentences that explain it further. All texts are safe to show."""

    subject: str
    """Its subject: `web (deployment/shop-web)`."""
    message: str
    since: str = ""
    """RFC 3339, or "" if unknown."""
    next_try: str = ""
    """RFC 3339, or "" if none is planned."""
    command: str = ""
    """A command that helps or shows more, or "" if there is none."""
    causes: tuple[Cause, ...] = ()


@value_class.dataclass(frozen=True, slots=True)
class Evidence:
    """Objects other than the children: created by controllers for them, and Events."""

    owned: Mapping[str, Sequence[FoundChild]] = field(default_factory=dict)
    """By UID of an object, the objects that it owns directly."""
    events: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    """By UID of an object, the Events about it, the latest last."""
    logs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By UID of a pod and name of a container that failed, the end of its log."""
    claims: Mapping[tuple[str, str], FoundChild] = field(default_factory=dict)
    """By namespace and name, the PersistentVolumeClaims."""
    claim_users: Sequence[FoundChild] = ()
    """The pods in namespaces with claims whose deletion was requested."""
    remaining: Sequence[FoundChild] = ()
    """The objects in Namespaces whose deletion was requested."""
    missing_accounts: frozenset[str] = frozenset()
    """UIDs of Stacks whose ServiceAccount does not exist."""
    nodes: Mapping[str, FoundChild] = field(default_factory=dict)
    """By name, the nodes of pods that are not ready."""
    external: Mapping[tuple[str, str], FoundChild] = field(default_factory=dict)
    """By UID of a Stack and name of a resource, the external object that is not ready."""

    def find_owned(self, uid: str, kind: str) -> Iterator[FoundChild]:
        """Yield the objects of a kind that an object owns, directly or indirectly."""
        for child in self.owned.get(uid, ()):
            if child.kind.name == kind:
                yield child
            yield from self.find_owned(child.uid, kind)

    def find_warning(self, uid: str, *reasons: str) -> Object | None:
        """Return the latest Warning about an object, with one of these reasons if any are given."""
        for event in reversed(self.events.get(uid, ())):
            is_wanted = not reasons or object_fields.text(event, "reason") in reasons
            if is_wanted and object_fields.text(event, "type") == event_timeline.WARNING:
                return event
        return None

    def find_latest(self, uid: str, *reasons: str) -> Object | None:
        """Return the latest Event about an object with one of these reasons."""
        found = (each for each in reversed(self.events.get(uid, ())) if object_fields.text(each, "reason") in reasons)
        return next(found, None)

    def find_event(self, uid: str) -> Object | None:
        """Return the latest Event about an object, of any type."""
        found = self.events.get(uid, ())
        return found[-1] if found else None


def make_evidence(owned: Iterable[FoundChild], events: Iterable[Object]) -> Evidence:
    """Index objects and Events."""
    by_owner: dict[str, list[FoundChild]] = defaultdict(list)
    for child in owned:
        for reference in object_fields.entries(child.raw, "metadata", "ownerReferences"):
            by_owner[object_fields.text(reference, "uid")].append(child)
    by_object: dict[str, list[Object]] = defaultdict(list)
    for event in sorted(events, key=lambda each: event_timeline.find_time(each) or 0.0):
        by_object[object_fields.text(event, "involvedObject", "uid")].append(event)
    return Evidence(by_owner, by_object)


def line_of(reason: str, message: str) -> str:
    """Return `Reason: message` on one line, safe to show."""
    return safe_text.one_line(": ".join(part for part in (reason, message) if part))


def draw(causes: Sequence[Cause], *, now: float, before: str = "") -> Iterator[Segments]:
    """Yield the lines of an explanation, each cause below its effect. now: seconds since the epoch."""
    for cause in causes:
        is_last = cause is causes[-1]
        branch, below = f"{before}{'└─ ' if is_last else '├─ '}", f"{before}{'   ' if is_last else '│  '}"
        indent = (f"{below}{'│  ' if cause.causes else '   '}", "dim")
        first, *others = cause.message.split("\n")
        yield [(branch, "dim"), (cause.subject, "bold"), (f": {first}", ""), (describe_times(cause, now=now), "dim")]
        for line in others:
            yield [indent, (line, "")]
        if cause.command:
            yield [indent, ("→ ", "cyan"), (safe_text.one_line(cause.command), "cyan")]
        yield from draw(cause.causes, now=now, before=below)


def describe_times(cause: Cause, *, now: float) -> str:
    """Return the start of a cause and the time of the next attempt."""
    words = []
    if ages.parse(cause.since) is not None:
        words.append(f"for {ages.describe(cause.since, now=now)}")
    retry = ages.parse(cause.next_try)
    if retry is not None:
        words.append(f"next try in {ages.format_age(retry - now)}")
    return f" [{', '.join(words)}]" if words else ""


def to_output(cause: Cause) -> Object:
    """Return a cause for programs."""
    output: Object = {"subject": cause.subject, "message": cause.message}
    for key, value in (("since", cause.since), ("nextTry", cause.next_try), ("command", cause.command)):
        output |= {key: value} if value else {}
    return output | ({"causes": [to_output(each) for each in cause.causes]} if cause.causes else {})
