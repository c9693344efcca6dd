"""Previews on the fake world: what they say of single edits."""

from __future__ import annotations

import asyncio
from typing import Any

from hearth.model.child import Object
from hearth.preview.changes import Action, Preview
from support.fake_world import fake_world, preview_of
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import probe_controller

STACK = fake_kinds.STACK.kind


def probe(**spec: Any) -> Object:
    """A resource with a Probe."""
    return {"manifest": probe_controller.manifest(spec)}


def config(text: str, **more: Any) -> Object:
    """A resource with a ConfigMap."""
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": text}}, **more}


def spec_of(**resources: Object) -> Object:
    """A spec with these resources."""
    return {"template": {"resources": resources}}


def preview_edit(before: Object | None, after: Object) -> Preview:
    """The preview of an edit of a Stack at rest."""
    found: list[Preview] = []

    async def test(world: FakeWorld) -> None:
        await world.start_controller()
        if before is not None:
            manifest = {
                "apiVersion": STACK.api_version,
                "kind": "Stack",
                "metadata": {"name": "shop", "namespace": "default"},
                "spec": before,
            }
            await world.user.create(manifest)
            await asyncio.sleep(100)
        found.append(await preview_of.preview_spec(world.server, after))

    fake_world.run(test)
    return found[0]


def actions(preview: Preview) -> list[tuple[str, Action]]:
    """What happens, in order."""
    return [(each.resource, each.action) for each in preview.changes]


def test_a_new_stack_creates_everything_in_order() -> None:
    """What requires another resource comes after it."""
    preview = preview_edit(None, spec_of(b=config("${a.data.v}"), a=config("x")))
    assert actions(preview) == [("a", Action.CREATE), ("b", Action.CREATE)]


def test_an_unchanged_stack_has_no_changes() -> None:
    """The hashes of the operator are recognized without its key."""
    spec = spec_of(a=config("x"), p=probe(value=1), b=config("${p.status.value}"))
    assert preview_edit(spec, spec).changes == ()


def test_a_changed_field_is_named_with_both_values() -> None:
    """Nothing else is."""
    preview = preview_edit(spec_of(a=config("x"), b=config("y")), spec_of(a=config("z"), b=config("y")))
    (change,) = preview.changes
    assert [(each.text, each.old, each.new) for each in change.fields] == [("data.v", "x", "z")]


def test_a_value_that_only_the_run_knows_is_named() -> None:
    """It depends on the status of a resource that changes."""
    preview = preview_edit(
        spec_of(p=probe(value=1), b=config("${p.status.value}")),
        spec_of(p=probe(value=2), b=config("${p.status.value}")),
    )
    assert actions(preview) == [("p", Action.UPDATE), ("b", Action.UPDATE)]
    assert [each.is_uncertain for each in preview.changes] == [False, True]
    assert [each.new for each in preview.changes[1].fields] == ["(known after p is ready)"]


def test_a_removed_resource_is_deleted_and_a_changed_immutable_field_replaces() -> None:
    """The reason of the replacement is the field."""
    before = spec_of(p={**probe(value=1, replaceValue=1), "updatePolicy": {"replace": "CreateFirst"}}, gone=config("x"))
    after = spec_of(p={**probe(value=1, replaceValue=2), "updatePolicy": {"replace": "CreateFirst"}})
    preview = preview_edit(before, after)
    assert sorted(actions(preview)) == [("gone", Action.DELETE), ("p", Action.REPLACE)]
    assert "spec.replaceValue" in next(each.reason for each in preview.changes if each.resource == "p")


def test_a_breakpoint_stops_there() -> None:
    """What comes after it waits."""
    before = spec_of(a=config("x"), b=config("${a.data.v}"))
    after = {
        **spec_of(a=config("y"), b=config("${a.data.v}")),
        "environment": {"breakpoints": [{"resource": "a", "at": ["PreUpdate"]}]},
    }
    preview = preview_edit(before, after)
    assert actions(preview) == [("a", Action.STOP), ("b", Action.WAIT)]
    assert preview.changes[0].hook == "PreUpdate"


def test_all_mistakes_come_at_once() -> None:
    """And nothing else is said."""
    preview = preview_edit(None, spec_of(a=config("${nothing.x}"), b=config("${neither.y}")))
    assert len(preview.mistakes) == 2
    assert preview.changes == ()


def test_work_that_has_not_run_yet_is_previewed() -> None:
    """Also if what comes after it reads other objects."""
    never = {**config("x"), "readyWhen": ["slow.data.v == 'never'"]}
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
    after_work = {**config("${settings.metadata.name}"), "dependsOn": ["work"]}
    spec = spec_of(slow=never, settings=config("y"), work={"manifest": job, "dependsOn": ["slow"]}, last=after_work)
    assert actions(preview_edit(spec, spec)) == [("work", Action.CREATE), ("last", Action.CREATE)]
