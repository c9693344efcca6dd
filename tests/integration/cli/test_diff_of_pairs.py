"""Pairs of definitions on a real API server: a diff shows a change of an object if and only if the object changes.

The definitions differ in order, empty values, types, white space, and defaults of the API server.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

from hearth.cli.stack_access import dry_runs, stack_previews
from hearth.cli.stack_access.dry_runs import DryRunCluster
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands.files import diff_command
from hearth.model import names
from hearth.model.child import Object
from hearth.model.tenancy import Tenancy
from hearth.model.well_known_kinds import STACK
from hearth.plan.ownership import field_changes
from hearth.preview.changes import Action, Preview
from support.checks import members
from support.real import real_user
from support.real.real_world import RealWorld
from support.stateful import spec_pairs
from support.stateful.spec_pairs import ABSENT, CUSTOM_KIND, RESOURCES, Choices
from support.stories import stack_manifests

SEED, RANDOM_PAIRS = 5, 5
WRITTEN_BY_OTHERS: Final = ("deployment.kubernetes.io/", "deprecated.daemonset.template.generation")
"""Annotations of Kubernetes controllers."""
ASSIGNED: Final = frozenset({"managedFields", "resourceVersion", "generation"})
POD: Final = "spec.template.spec"
FOUND: Final[tuple[dict[str, dict[str, Any]], ...]] = (
    {
        "web": {f"{POD}.imagePullSecrets": [{}], f"{POD}.volumes": [{"name": "v", "emptyDir": None}]},
        "database": {
            f"{POD}.serviceAccountName": "a",
            f"{POD}.imagePullSecrets": [{}],
            f"{POD}.volumes": [{"name": "v", "emptyDir": None}],
        },
        "cleaner": {
            "spec.jobTemplate.spec.template.spec.serviceAccountName": "a",
            "spec.successfulJobsHistoryLimit": 0,
        },
        "gadget": {"spec.nested": {"deep": {"on": False}}, "spec.keyed": [{"key": "a"}, {"key": "b"}]},
    },
    {
        "web": {f"{POD}.imagePullSecrets": [{}], "spec.strategy": {"type": "Recreate"}},
        "database": {
            f"{POD}.serviceAccountName": None,
            f"{POD}.imagePullSecrets": [{}],
            f"{POD}.volumes": [{"name": "v", "configMap": {"name": "x", "defaultMode": 420}}],
        },
        "cleaner": {
            "spec.jobTemplate.spec.template.spec.serviceAccountName": ABSENT,
            "spec.successfulJobsHistoryLimit": ABSENT,
        },
        "address": {"spec.type": "NodePort"},
        "gadget": {"spec.nested": {}, "spec.keyed": [{"key": "b"}, {"key": "a"}]},
    },
)
"""Two definitions that need preparations before an apply: claims of defaults, emptied maps, allocated values."""


def list_definitions() -> list[Choices]:
    """The definitions that follow one another."""
    chance = random.Random(SEED)
    definitions: list[Choices] = [{}]
    definitions += [{name: spec_pairs.choose(name, each) for name, each in found.items()} for found in FOUND]
    for _ in range(RANDOM_PAIRS):
        definitions.append(spec_pairs.edit(definitions[-1], chance))
    return definitions


class Shop:
    """One Stack, its objects and its previews."""

    def __init__(self, world: RealWorld, group: str) -> None:
        self.user, self.world, self.group = world.user, world, group
        self.session = Session(world.user.connection)
        self.address = stack_manifests.address_in(world.user.namespace)

    async def preview(self, spec: Object) -> Preview:
        namespace = self.user.namespace
        stated = {"metadata": {"name": "shop", "namespace": namespace}, "spec": spec}
        present = await self.session.find(STACK, namespace, "shop")
        wanted = await dry_runs.try_file(DryRunCluster(self.session, namespace=namespace), stated, present)
        return await stack_previews.make_preview(
            self.session, present=present, wanted=wanted, tenancy=Tenancy(), beside={}
        )

    async def apply(self, spec: Object) -> None:
        """Apply the spec and wait until the Stack is complete."""
        if await self.user.find(self.address) is None:
            await self.user.create(stack_manifests.make_stack(spec, namespace=self.user.namespace))
        else:
            await self.user.replace_spec(self.address, spec)
        assert await self.world.wait_until(self.find_unfinished) == []

    async def find_unfinished(self) -> list[str]:
        stack = await self.user.find(self.address) or {}
        status = stack.get("status") or {}
        is_current = status.get("observedGeneration") == stack["metadata"]["generation"]
        is_complete = is_current and status.get("phase") in ("CreateComplete", "UpdateComplete")
        return [] if is_complete else [str(status.get("conditions"))]

    async def list_objects(self) -> dict[str, Object]:
        """The objects by resource."""
        stack = await self.user.find(self.address)
        assert stack is not None
        await self.session.kinds.refresh()
        found = {}
        for manifest, _ in RESOURCES.values():
            version = manifest["apiVersion"].replace(spec_pairs.GROUP, self.group)
            kind = self.session.kinds.find(version, manifest["kind"])
            assert kind is not None
            selector = f"{names.LABEL_STACK_UID}={stack['metadata']['uid']}"
            for raw in await self.session.list(kind, self.user.namespace, selector=selector):
                found[members.resource_of(raw)] = raw
        return found


def write_content(raw: Object) -> str:
    """The object as JSON, without its status and the records of the API server, Kubernetes and Hearth."""
    metadata = {key: value for key, value in raw["metadata"].items() if key not in ASSIGNED}
    for part in ("labels", "annotations"):
        stated = metadata.pop(part, None) or {}
        metadata[part] = {
            key: value
            for key, value in stated.items()
            if not names.is_ours(key) and not key.startswith(WRITTEN_BY_OTHERS)
        }
    return json.dumps({**raw, "status": None, "metadata": metadata}, sort_keys=True)


def find_wrong_fields(preview: Preview, before: dict[str, Object], after: dict[str, Object]) -> list[str]:
    """Resources whose fields in the preview are not those that changed."""
    wrong = []
    for change in preview.changes:
        shown = {each.text: each.new for each in change.fields}
        changes = field_changes.find_changes(before[change.resource], after[change.resource])
        written = {each.text: shown[each.text] if is_open(shown.get(each.text)) else each.new for each in changes}
        if change.resource == "access":
            shown, written = dict.fromkeys(shown), dict.fromkeys(written)
        if shown != written:
            pairs = [(path, shown.get(path), written.get(path)) for path in shown | written]
            wrong += [
                f"{change.resource}: {path}: {one} is shown, and {other} is written"
                for path, one, other in pairs
                if one != other
            ]
    return wrong


def is_open(value: Any) -> bool:
    """Whether the preview leaves the value, or a part of it, to the API server."""
    return field_changes.NOT_ALLOCATED in str(value)


async def test_a_diff_shows_exactly_the_objects_and_fields_that_change(world: RealWorld) -> None:
    group = f"{world.user.namespace}.example.org"
    await real_user.install(world.user, [real_user.make_crd(group, CUSTOM_KIND, {"v1": spec_pairs.SCHEMA})])
    await world.start_controller()
    shop = Shop(world, group)
    first, *others = [spec_pairs.make_spec(each, group=group) for each in list_definitions()]
    await shop.apply(first)
    before, changed, unchanged = await shop.list_objects(), 0, 0
    for spec in others:
        preview = await shop.preview(spec)
        await shop.apply(spec)
        after = await shop.list_objects()

        assert preview.rejection == ""
        written = {name for name in RESOURCES if write_content(before[name]) != write_content(after[name])}
        shown = {each.resource: each.action for each in preview.changes}
        assert shown == dict.fromkeys(written, Action.UPDATE), spec
        assert find_wrong_fields(preview, before, after) == []
        assert diff_command.find_code([preview]) == (diff_command.CHANGES if written else diff_command.NO_CHANGE)
        again = await shop.preview(spec)
        assert [(each.resource, each.fields) for each in again.changes] == []
        changed, unchanged, before = changed + len(written), unchanged + len(RESOURCES) - len(written), after
    assert min(changed, unchanged) >= len(others), "another seed has both"
