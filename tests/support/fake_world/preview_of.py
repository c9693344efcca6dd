"""The preview of an edit in a fake world, compared with the actual changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from hearth.kube.objects import controller_revision
from hearth.model import names
from hearth.model.child import Object
from hearth.plan.ownership import field_changes
from hearth.preview import previews
from hearth.preview.changes import Action, Change, Preview
from hearth.preview.preview_world import PreviewRequest
from support.checks import members
from support.ports.fake_live_cluster import FakeLiveCluster
from support.server import fake_kinds
from support.server.fake_objects import copy
from support.server.fake_server import FakeServer
from support.units.in_process import InProcess

NOW = 1_767_225_600.0


async def preview_spec(
    server: FakeServer,
    spec: Object,
    *,
    namespace: str = "default",
    name: str = "shop",
    hash_content: Callable[[Object], str] | None = None,
) -> Preview:
    """hash_content: makes the keyed hash of a manifest, for a plan."""
    request = make_request(server, spec, namespace=namespace, name=name)
    request = dataclasses.replace(request, hash_content=hash_content)
    return await previews.make_preview(FakeLiveCluster(server), request, now=NOW, evaluate=lambda _queue: InProcess())


def make_request(server: FakeServer, spec: Object, *, namespace: str = "default", name: str = "shop") -> PreviewRequest:
    """The request for a preview of the Stack with another spec."""
    kind = fake_kinds.STACK.kind
    present = server.find(kind, namespace, name)
    wanted: Object = copy(present) if present is not None else make_new(server, namespace, name)
    wanted["metadata"]["generation"] = wanted["metadata"].get("generation", 0) + 1
    wanted["spec"] = copy(spec)
    uid = wanted["metadata"]["uid"]
    return PreviewRequest(
        present=copy(present),
        wanted=wanted,
        revisions=[
            (controller_revision.parse_revision(raw["metadata"]), controller_revision.parse_definition(copy(raw)))
            for raw in server.list_all(fake_kinds.CONTROLLER_REVISION.kind)
            if raw["metadata"]["labels"].get(names.LABEL_STACK_UID) == uid
        ],
        stacks=[raw["metadata"]["uid"] for raw in server.list_all(kind)],
    )


def make_new(server: FakeServer, namespace: str, name: str) -> Object:
    """A Stack as a dry run would return it."""
    made = {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": "Stack"}
    metadata = {"name": name, "namespace": namespace, "uid": "new", "resourceVersion": "0", "generation": 0}
    return {**made, "metadata": metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The objects of one Stack by UID."""

    objects: Mapping[str, Object]

    @classmethod
    def of(cls, server: FakeServer, uid: str) -> Seen:
        """The current objects."""
        found = {
            raw["metadata"]["uid"]: copy(raw)
            for kind, raw in server.everything()
            if (raw["metadata"].get("labels") or {}).get(names.LABEL_STACK_UID) == uid
            and kind != fake_kinds.CONTROLLER_REVISION.kind
        }
        return cls(objects=found)

    def by_resource(self) -> dict[str, dict[str, Object]]:
        found: dict[str, dict[str, Object]] = {}
        for uid, raw in self.objects.items():
            found.setdefault(members.resource_of(raw), {})[uid] = raw
        return found


def find_deeds(before: Seen, after: Seen) -> dict[str, Action]:
    """The changes of each resource between two moments, in the words of a preview."""
    old, new = before.by_resource(), after.by_resource()
    deeds: dict[str, Action] = {}
    for resource in {*old, *new}:
        was, now = old.get(resource, {}), new.get(resource, {})
        added, gone = now.keys() - was.keys(), was.keys() - now.keys()
        if added:
            deeds[resource] = Action.REPLACE if was else Action.CREATE
        elif gone:
            deeds[resource] = Action.DELETE
        elif any(field_changes.find_changes(was[uid], now[uid]) for uid in was):
            deeds[resource] = Action.UPDATE
    return deeds


DEEDS = (Action.UPDATE, Action.ADOPT, Action.DELETE, Action.CREATE, Action.REPLACE)
"""In ascending order: for a resource with several objects, the last of their actions counts."""


def list_deeds(preview: Preview) -> dict[str, Action]:
    """The predicted actions per resource."""
    deeds: dict[str, Action] = {}
    for each in preview.changes:
        if each.action in DEEDS:
            known = deeds.get(each.resource, each.action)
            deeds[each.resource] = max(known, each.action, key=DEEDS.index)
    return deeds


def show(preview: Preview) -> str:
    """A preview as text, for failures."""
    return (
        "\n".join(str(dataclasses.asdict(each)) for each in preview.changes) + f"\n{preview.notes} {preview.rejection}"
    )


def find_disagreements(preview: Preview, before: Seen, after: Seen, status: Mapping[str, Any]) -> list[str]:
    """Predictions that did not happen, and actions that were not predicted. status: the Stack's final status."""
    happened, said = find_deeds(before, after), list_deeds(preview)
    uncertain = {each.resource for each in preview.changes if each.is_uncertain}
    wrong = []
    for resource in sorted({*happened, *said}):
        stated, seen = said.get(resource), happened.get(resource)
        is_possible = resource in uncertain and (stated is None or seen in (None, stated, Action.REPLACE))
        if stated is not seen and not is_possible:
            wrong.append(f"{resource}: the preview says {stated}, and {seen} happened")
    for change in preview.changes:
        if change.action is Action.UPDATE:
            wrong += compare_fields(change, before, after)
    return [*wrong, *compare_stops(preview, status, uncertain)]


def compare_fields(change: Change, before: Seen, after: Seen) -> list[str]:
    """Wrong fields of a predicted change; fields with unknown values may have any value."""
    pairs = [
        (raw, after.objects[uid])
        for uid, raw in before.objects.items()
        if change.ref is not None and uid in after.objects
        if (raw["kind"], raw["metadata"]["name"]) == (change.ref.kind, change.ref.name)
    ]
    if not pairs:
        return []
    seen = {each.text: each.new for each in field_changes.find_changes(*pairs[0])}
    named = {each.text: each.new for each in change.fields}
    missing = {
        path: value
        for path, value in named.items()
        if "known after" not in str(value) and value != "(sensitive)" and seen.get(path) != value
    }
    extra = seen.keys() - named.keys()
    return [f"{change.resource}: {missing} did not come, and {extra} was not named"] if missing or extra else []


def compare_stops(preview: Preview, status: Mapping[str, Any], uncertain: Set[str]) -> list[str]:
    """Whether the Stack stops where the preview says."""
    said = {(each.resource, each.hook) for each in preview.changes if each.action is Action.STOP}
    seen = {(each["resource"], each["hook"]) for each in status.get("breakpoints") or ()}
    is_wrong = any(resource not in uncertain for resource, _ in said ^ seen)
    return [f"the preview says stops at {said}, and it stops at {seen}"] if is_wrong else []
