"""Previews on the fake world: how they describe edits, kept objects, rejections and waits, and texts they must not
show.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.ownership.field_changes import ABSENT
from hearth.preview import copied_management_cluster, previews
from hearth.preview.changes import Action, Preview
from hearth.preview.preview_run import NestedStack
from hearth.preview.previews import UNSTORED
from support.fake_world import fake_world, preview_of
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_live_cluster import FakeLiveCluster
from support.server import fake_kinds
from support.stories import deployment_controller, probe_controller, stack_manifests
from support.stories.stack_manifests import STACK


def resource(kind: str, *, api_version: str = "v1", keys: Object | None = None, **manifest: Any) -> Object:
    return {"manifest": {"apiVersion": api_version, "kind": kind, **manifest}, **(keys or {})}


def config(**data: str) -> Object:
    return resource("ConfigMap", data=data)


def probe(**spec: Any) -> Object:
    return {"manifest": probe_controller.manifest(spec)}


def spec_of(resources: Object, *, parameters: Object | None = None, **spec: Any) -> Object:
    """A spec with these resources. parameters: their rules."""
    return {"template": {"parameters": parameters or {}, "resources": resources}, **spec}


def preview_after(
    before: Object | None,
    after: Object,
    *,
    then: Object | None = None,
    meanwhile: Callable[[FakeWorld], None] = lambda _world: None,
) -> Preview:
    """The preview of an edit of a Stack at rest. then: an edit before; meanwhile: an action before the preview."""
    found: list[Preview] = []

    async def test(world: FakeWorld) -> None:
        await world.start_controller()
        if before is not None:
            await world.user.create(stack_manifests.make_stack(before))
            await asyncio.sleep(200)
        if then is not None:
            await world.user.replace_spec(STACK, then)
            await asyncio.sleep(200)
        meanwhile(world)
        version = world.server.version
        found.append(await preview_of.preview_spec(world.server, after))
        assert world.server.version == version

    fake_world.run(test)
    return found[0]


def actions(preview: Preview) -> dict[str, Action]:
    """The action on each resource."""
    return {each.resource: each.action for each in preview.changes}


def list_actions(preview: Preview) -> list[tuple[str, Action]]:
    """The actions, in order."""
    return [(each.resource, each.action) for each in preview.changes]


def find(preview: Preview, name: str) -> Any:
    """The only change of a resource."""
    (found,) = (each for each in preview.changes if each.resource == name)
    return found


def test_a_new_stack_creates_everything_in_order() -> None:
    preview = preview_after(None, spec_of({"b": config(v="${a.data.v}"), "a": config(v="x")}))
    assert list_actions(preview) == [("a", Action.CREATE), ("b", Action.CREATE)]


def seal(value: str) -> tuple[str, tuple[str, ...]]:
    """The seal of an object that reads another one: its hash, and the paths of its unknown values."""

    async def test(world: FakeWorld) -> None:
        spec = spec_of({"p": probe(value=1), "b": config(v="${p.status.value}", w=value)})
        preview = await preview_of.preview_spec(world.server, spec, hash_content=fake_world.HASHER.hash)
        found.append(find(preview, "b").seal)

    found: list[Any] = []
    fake_world.run(test)
    return found[0].content, found[0].unknown


def test_a_plan_recognizes_a_manifest_by_a_hash_without_its_unknown_values() -> None:
    assert seal("x") == seal("x")
    assert seal("x")[0] != seal("y")[0]
    assert seal("x")[1] == ("data.v",)


def test_an_unchanged_stack_has_no_changes() -> None:
    spec = spec_of({"a": config(v="x"), "p": probe(value=1), "b": config(v="${p.status.value}")})
    assert preview_after(spec, spec).changes == ()


def test_a_changed_field_is_named_with_both_values() -> None:
    preview = preview_after(
        spec_of({"a": config(v="x"), "b": config(v="y")}), spec_of({"a": config(v="z"), "b": config(v="y")})
    )
    (change,) = preview.changes
    assert [(each.text, each.old, each.new) for each in change.fields] == [("data.v", "x", "z")]


def test_a_value_that_only_the_run_knows_is_named() -> None:
    preview = preview_after(
        spec_of({"p": probe(value=1), "b": config(v="${p.status.value}")}),
        spec_of({"p": probe(value=2), "b": config(v="${p.status.value}")}),
    )
    assert list_actions(preview) == [("p", Action.UPDATE), ("b", Action.UPDATE)]
    assert [each.is_uncertain for each in preview.changes] == [False, True]
    assert [each.new for each in preview.changes[1].fields] == ["(known after p is ready)"]


def test_a_removed_resource_is_deleted_and_a_changed_immutable_field_replaces() -> None:
    before = spec_of(
        {"p": {**probe(value=1, replaceValue=1), "updatePolicy": {"replace": "CreateFirst"}}, "gone": config(v="x")}
    )
    after = spec_of({"p": {**probe(value=1, replaceValue=2), "updatePolicy": {"replace": "CreateFirst"}}})
    preview = preview_after(before, after)
    assert sorted(list_actions(preview)) == [("gone", Action.DELETE), ("p", Action.REPLACE)]
    assert "spec.replaceValue" in next(each.reason for each in preview.changes if each.resource == "p")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(
            {}, "spec.selector.matchLabels.gen (one → two) changed; stops first: it mounts claim data", id="default"
        ),
        pytest.param(
            {"replace": "CreateFirst"},
            "spec.selector.matchLabels.gen (one → two) cannot be changed in place; old and new Pods run at the same time, although it mounts claim data",
            id="create-first",
        ),
    ],
)
def test_a_replacement_says_what_happens_to_pods_that_mount_a_claim(policy: Object, expected: str) -> None:
    def make(gen: str) -> Object:
        stated = {"replicas": 1, "gen": gen, "mounts": "data"}
        return {"manifest": deployment_controller.manifest("db", stated), "updatePolicy": policy}

    preview = preview_after(spec_of({"db": make("one")}), spec_of({"db": make("two")}))
    assert list_actions(preview) == [("db", Action.REPLACE)]
    assert preview.changes[0].reason == expected


def test_a_breakpoint_stops_there() -> None:
    before = spec_of({"a": config(v="x"), "b": config(v="${a.data.v}")})
    after = {
        **spec_of({"a": config(v="y"), "b": config(v="${a.data.v}")}),
        "environment": {"breakpoints": [{"resource": "a", "at": ["PreUpdate"]}]},
    }
    preview = preview_after(before, after)
    assert list_actions(preview) == [("a", Action.STOP), ("b", Action.WAIT)]
    assert preview.changes[0].hook == "PreUpdate"


def test_all_mistakes_come_at_once() -> None:
    preview = preview_after(None, spec_of({"a": config(v="${nothing.x}"), "b": config(v="${neither.y}")}))
    assert len(preview.mistakes) == 2
    assert preview.changes == ()


def test_work_that_has_not_run_yet_is_previewed() -> None:
    never = {**config(v="x"), "readyWhen": ["slow.data.v == 'never'"]}
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
    after_work = {**config(v="${settings.metadata.name}"), "dependsOn": ["work"]}
    spec = spec_of(
        {"slow": never, "settings": config(v="y"), "work": {"manifest": job, "dependsOn": ["slow"]}, "last": after_work}
    )
    assert list_actions(preview_after(spec, spec)) == [("work", Action.CREATE), ("last", Action.CREATE)]


# ---------------------------------------------------------------- kept, rejected and waiting objects, and hidden values


def test_a_retained_object_stays() -> None:
    kept = {**config(v="x"), "deletionPolicy": "Retain"}
    preview = preview_after(spec_of({"a": kept, "b": config(v="y")}), spec_of({"b": config(v="y")}))
    assert actions(preview) == {"a": Action.KEEP}
    assert find(preview, "a").reason == "deletionPolicy is Retain"


def claim() -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return resource("PersistentVolumeClaim", keys={"readyWhen": ["true"]}, spec=spec)


def job(image: str) -> Object:
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}
    keys = {"readyWhen": ["true"]}
    return resource("Job", api_version="batch/v1", keys=keys, spec={"template": {"spec": pods}})


def waiting(resource: Object) -> Object:
    return {**resource, "dependsOn": ["never"]}


@pytest.mark.parametrize(
    ("before", "after", "grade"),
    [
        pytest.param({"a": config(v="x")}, {"a": config(v="y")}, "reversible", id="update"),
        pytest.param({}, {"a": config(v="x")}, "reversible", id="create"),
        pytest.param({"a": config(v="x")}, {}, "recreates", id="delete"),
        pytest.param({"a": claim()}, {}, "one-way", id="claim"),
        pytest.param({"a": job("one")}, {"a": job("two")}, "one-way", id="job"),
        pytest.param({}, {"a": {**probe(value=1), "completion": "Once"}}, "one-way", id="runs-once"),
        pytest.param({}, {"a": {**config(v="x"), "deletionPolicy": "Retain"}}, "one-way", id="create-retained"),
        pytest.param({"a": {**config(v="x"), "deletionPolicy": "Retain"}}, {}, "one-way", id="release"),
        pytest.param(
            {"a": {**config(v="x"), "deletionPolicy": "Retain", "adoptionPolicy": "Adopt"}}, {}, "reversible", id="release-for-adoption"
        ),
        pytest.param({"a": claim()}, {"never": probe(value=1, fails="cannot")}, "one-way", id="deletion-waits"),
        pytest.param({"a": config(v="x")}, {"a": config(v="x"), "b": waiting(config(v="y"))}, None, id="refused"),
    ],
)  # fmt: skip
def test_a_preview_says_how_a_rollback_undoes_it(before: Object, after: Object, grade: str | None) -> None:
    other = {"other": config(v="x")}
    assert preview_after(spec_of({**other, **before}), spec_of({**other, **after})).undo == grade


def test_an_object_that_must_not_be_deleted_stays_after_a_rollback() -> None:
    rules = {"environment": {"restrictedActions": [{"resource": "a", "deny": ["Delete"]}]}}
    other = {"b": config(v="x")}
    preview = preview_after(spec_of(other, **rules), spec_of({"a": config(v="x"), **other}, **rules))
    assert find(preview, "a").undo.field == "environment.restrictedActions"


@pytest.mark.parametrize(("protected", "grade"), [(True, "one-way"), (False, "reversible")])
def test_a_protected_nested_stack_stays_after_a_rollback(*, protected: bool, grade: str) -> None:
    other = {"b": config(v="x")}
    nested = resource(
        "Stack", api_version=f"{names.GROUP}/{names.VERSION}", spec={"protected": protected, **spec_of(other)}
    )
    assert preview_after(spec_of(other), spec_of({"a": nested, **other})).undo == grade


def test_the_removal_of_a_protected_nested_stack_fails() -> None:
    other = {"b": config(v="x")}
    nested = resource("Stack", api_version=f"{names.GROUP}/{names.VERSION}", spec={"protected": True, **spec_of(other)})
    change = find(preview_after(spec_of({"a": nested, **other}), spec_of(other)), "a")
    assert change.action is Action.FAIL
    assert "its spec.protected is true; set it to false first" in change.reason


def test_a_deletion_that_stops_first_is_graded() -> None:
    rules = {"environment": {"breakpoints": [{"resource": "a", "at": ["PreDelete"]}]}}
    before = {"a": claim(), "b": config(v="x")}
    preview = preview_after(spec_of(before, **rules), spec_of({"b": config(v="x")}, **rules))
    assert actions(preview) == {"a": Action.STOP}
    assert preview.undo == "one-way"


def test_sensitive_values_and_secrets_are_not_shown() -> None:
    rules = {"password": {"type": "string", "sensitive": True}}

    def made(password: str, size: str) -> Object:
        web = config(url="db://${params.password}", size=size)
        return spec_of(
            {"web": web, "login": resource("Secret", data={"user": base64.b64encode(size.encode()).decode()})},
            parameters=rules,
        ) | {"parameters": {"password": password}}

    before, after = made("old-password", "small"), made("new-password", "large")
    preview = preview_after(before, after)
    assert {each.text: (each.old, each.new) for each in find(preview, "web").fields} == {
        "data.url": ("(sensitive)", "(sensitive)"),
        "data.size": ("small", "large"),
    }
    assert [(each.old, each.new) for each in find(preview, "login").fields] == [("(sensitive)", "(sensitive)")]
    assert "password" not in str(dataclasses.asdict(preview)).replace("(sensitive)", "").replace(UNSTORED, "")


@pytest.mark.parametrize(
    ("before", "after", "grade"),
    [
        pytest.param(("old-password", "a"), ("new-password", "a"), "one-way", id="another password"),
        pytest.param(("old-password", "a"), ("old-password", "b"), "reversible", id="another text next to it"),
        pytest.param(("old-password", "a"), ("new-password", "b"), "one-way", id="both"),
    ],
)
def test_no_rollback_restores_a_sensitive_value(before: tuple[str, str], after: tuple[str, str], grade: str) -> None:
    rules = {"password": {"type": "string", "sensitive": True}}

    def made(password: str, user: str) -> Object:
        login = resource("Secret", stringData={"url": f"{user}:${{params.password}}"})
        return spec_of({"login": login}, parameters=rules) | {"parameters": {"password": password}}

    preview = preview_after(made(*before), made(*after))
    assert preview.undo == grade
    undo = find(preview, "login").undo
    assert undo is not None
    assert (undo.field, undo.reason) == (("data.url", UNSTORED) if grade == "one-way" else ("", ""))


def test_drift_is_repaired_with_the_edit() -> None:
    def drift(world: FakeWorld) -> None:
        kind = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
        for each in world.controllers:
            each.kill()
        world.server.patch(kind, "default", "shop-a", {"data": {"v": "drifted"}}, manager="somebody-else")

    spec = spec_of({"a": config(v="x")})
    preview = preview_after(spec, spec, meanwhile=drift)
    change = find(preview, "a")
    assert (change.action, change.reason) == (Action.UPDATE, "drift of data.v is repaired")
    assert [(each.old, each.new) for each in change.fields] == [("drifted", "x")]


def test_an_object_of_another_is_not_taken_unless_it_is_adopted() -> None:
    def occupy(world: FakeWorld) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "taken", "namespace": "default"},
            "data": {"v": "theirs"},
        }
        world.server.create(manifest, manager="somebody-else")

    wanted = spec_of({"a": resource("ConfigMap", metadata={"name": "taken"}, data={"v": "ours"})})
    refused = preview_after(None, wanted, meanwhile=occupy)
    assert actions(refused) == {"a": Action.FAIL}
    adopted = preview_after(None, {**wanted, "adoptionPolicy": "Adopt"}, meanwhile=occupy)
    assert actions(adopted) == {"a": Action.ADOPT}


def test_a_kind_that_comes_with_the_stack_counts_as_served() -> None:
    definition = probe_controller.definition(probe_controller.NEWCOMER)
    definition["metadata"].pop("namespace", None)
    newcomer = resource("Newcomer", api_version=f"{probe_controller.GROUP}/v1", spec={"value": 1})
    spec = spec_of({"definition": {"manifest": definition}, "one": {**newcomer, "dependsOn": ["definition"]}})
    preview = preview_after(None, {**spec, "serviceAccountName": "anyone"})
    assert actions(preview) == {"definition": Action.CREATE, "one": Action.CREATE}
    assert find(preview, "one").unchecked == "its kind does not exist yet"


def test_a_name_that_only_the_run_knows_is_named_so() -> None:
    named = resource("ConfigMap", metadata={"name": "of-${p.status.value}"}, data={"v": "x"})
    preview = preview_after(
        None, spec_of({"p": {"manifest": probe_controller.manifest({"value": "x"})}, "named": named})
    )
    assert actions(preview) == {"p": Action.CREATE, "named": Action.CREATE}
    assert "known after p is ready" in str(find(preview, "named").ref)


def test_the_members_of_a_collection_change_in_batches_to_the_end() -> None:
    def made(value: int) -> Object:
        member = {
            "forEach": "params.zones",
            "key": "item",
            "manifest": probe_controller.manifest({"value": value}),
            "updatePolicy": {"rolling": {"maxBatchSize": 1, "pause": "1m"}},
        }
        zones = {"type": "array", "items": {"type": "string"}}
        return spec_of({"workers": member}, parameters={"zones": zones}) | {"parameters": {"zones": ["a", "b", "c"]}}

    preview = preview_after(made(1), made(2))
    assert actions(preview) == dict.fromkeys(("workers[a]", "workers[b]", "workers[c]"), Action.UPDATE)


def test_a_paused_stack_does_nothing() -> None:
    preview = preview_after(spec_of({"a": config(v="x")}), spec_of({"a": config(v="y")}, paused=True))
    assert preview.changes == ()
    assert "spec.paused" in preview.notes[0]


CLOSED = {"from": "23:00", "to": "23:01"}
OPENING = "2026-01-01T23:00:00Z"


@pytest.mark.parametrize("before", [{}, {"window": CLOSED}], ids=["a new window", "a window"])
def test_a_change_is_shown_although_it_waits_for_its_window(before: Object) -> None:
    preview = preview_after(spec_of({"a": config(v="x")}, **before), spec_of({"a": config(v="y")}, window=CLOSED))

    assert actions(preview) == {"a": Action.UPDATE}
    assert [each for each in preview.notes if "spec.window" in each] == [
        f"spec.window is closed: the change waits until {OPENING}"
    ]


@pytest.mark.parametrize(("value", "notes"), [("y", (previews.APPROVAL,)), ("x", ())], ids=["a change", "none"])
def test_a_change_is_shown_although_it_waits_for_an_approval(value: str, notes: tuple[str, ...]) -> None:
    after = spec_of({"a": config(v=value)}, approval={"required": "Always"})

    assert preview_after(spec_of({"a": config(v="x")}), after).notes == notes


def test_a_change_that_waits_already_is_shown() -> None:
    later = spec_of({"a": config(v="y")}, window=CLOSED)
    preview = preview_after(spec_of({"a": config(v="x")}), later, then=later)

    assert actions(preview) == {"a": Action.UPDATE}
    assert any(OPENING in each for each in preview.notes)


def test_without_a_change_of_the_definition_nothing_waits_for_the_window() -> None:
    preview = preview_after(spec_of({"a": config(v="x")}), spec_of({"a": config(v="x")}, window=CLOSED))

    assert (preview.changes, preview.notes) == ((), ())


def test_a_refused_change_that_would_roll_back_ends_there() -> None:
    before, after = (
        {"a": config(v=str(value)), "p": {"manifest": probe_controller.manifest({"replaceValue": value})}}
        for value in (1, 2)
    )
    preview = preview_after(spec_of(before), spec_of(after))
    assert actions(preview) == {"a": Action.UPDATE, "p": Action.FAIL}
    rolled_back = preview_after(spec_of(before), spec_of(after, rollback={"onFailure": True}))
    assert any("back to revision 1" in each for each in rolled_back.notes)


def test_a_forged_signature_ends_no_preview() -> None:
    def forge(world: FakeWorld) -> None:
        stack = world.server.find(fake_kinds.STACK.kind, STACK.namespace, STACK.name)
        assert stack is not None
        uid = stack["metadata"]["uid"]
        identity = names.identity(stack_uid=uid, group="", kind="ConfigMap", namespace="default", name="forged")
        metadata = {
            "name": "forged",
            "namespace": "default",
            "labels": {names.LABEL_STACK_UID: uid, names.LABEL_RESOURCE: "forged"},
            "annotations": {
                names.ANNOTATION_IDENTITY: identity,
                names.ANNOTATION_SIGNATURE: f"a/b/c/d/k01234567:{'0' * 32}",
            },
        }
        world.server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, manager="mallory")

    spec = spec_of({"a": config(v="x")})
    assert preview_after(spec, spec, meanwhile=forge).changes == ()


def test_what_the_user_may_not_try_is_marked(monkeypatch: Any) -> None:
    original = FakeLiveCluster.try_apply

    async def forbid(self: FakeLiveCluster, manifest: Object, **options: Any) -> Object:
        if manifest["metadata"]["name"] == "shop-a":
            status = {"code": 403, "reason": "Forbidden", "message": "configmaps is forbidden"}
            raise errors.ApiStatusError(code=403, status=status)
        return await original(self, manifest, **options)

    monkeypatch.setattr(FakeLiveCluster, "try_apply", forbid)
    before, after = (spec_of({"a": config(v=text), "b": config(v="${a.data.v}")}) for text in ("x", "y"))
    preview = preview_after(before, after)
    assert actions(preview) == {"a": Action.UPDATE, "b": Action.UPDATE}
    assert "not permitted" in find(preview, "a").unchecked
    assert find(preview, "b").unchecked == ""


def test_no_text_of_a_template_is_taken_for_an_unknown_value() -> None:
    text = "unknown-00000000-0x"
    preview = preview_after(spec_of({"a": config(v="x")}), spec_of({"a": config(v=text)}))
    assert [each.new for each in find(preview, "a").fields] == [text]


def test_a_nested_stack_is_one_object() -> None:
    def made(text: str) -> Object:
        inner = {"template": {"resources": {"x": config(v=text)}}}
        return spec_of({"inner": resource("Stack", api_version=STACK.api_version, spec=inner), "a": config(v="x")})

    preview = preview_after(made("old"), made("new"))
    (change,) = preview.changes
    assert [each.text for each in change.fields] == ["spec.template.resources.x.manifest.data.v"]


def test_a_suspended_stack_is_scaled_down_and_comes_back() -> None:
    web = resource(
        "Deployment",
        api_version="apps/v1",
        spec={
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    )
    spec = spec_of({"web": web})
    (change,) = preview_after(spec, {**spec, "suspended": True}).changes
    assert [(each.text, each.old, each.new) for each in change.fields] == [("spec.replicas", 2, 0)]
    (back,) = preview_after(spec, spec, then={**spec, "suspended": True}).changes
    assert [(each.text, each.old, each.new) for each in back.fields] == [("spec.replicas", 0, 2)]


def test_what_another_cluster_has_is_no_preview() -> None:
    with pytest.raises(previews.PreviewFailed, match="another cluster"):
        preview_after(None, {**spec_of({"a": config(v="x")}), "kubeConfig": {"secretRef": {"name": "east"}}})


@fake_world.in_world
async def test_an_unfinished_update_is_previewed_from_where_it_is(world: FakeWorld) -> None:
    def made(text: str, *stops: str) -> Object:
        points = [{"resource": each, "at": ["PreUpdate"]} for each in stops]
        return spec_of(
            {"a": config(v=text), "b": config(v=text, of="${a.data.v}")}, environment={"breakpoints": points}
        )

    await world.start_controller()
    await world.user.create(stack_manifests.make_stack(made("x")))
    await asyncio.sleep(100)
    await world.user.replace_spec(STACK, made("y", "b"))
    await asyncio.sleep(100)
    targets = (made("y"), made("y", "b"), made("x", "a", "b"))
    assert [actions(await preview_of.preview_spec(world.server, each)) for each in targets] == [
        {"b": Action.UPDATE},
        {"b": Action.STOP},
        {"a": Action.STOP, "b": Action.WAIT},
    ]


def test_what_an_adoption_removes_is_shown() -> None:
    def occupy(world: FakeWorld) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "taken", "namespace": "default", "labels": {"tier": "old"}},
            "data": {"v": "same", "left": "behind"},
        }
        world.server.create(manifest, manager="helm")
        kind = world.server.find_kind(manifest)
        world.server.patch(kind, "default", "taken", {"data": {"theirs": "1"}}, manager="a-controller")

    wanted = spec_of({"a": resource("ConfigMap", metadata={"name": "taken"}, data={"v": "same"})})
    adopted = preview_after(None, {**wanted, "adoptionPolicy": "Adopt"}, meanwhile=occupy)
    assert actions(adopted) == {"a": Action.ADOPT}
    assert {each.text: each.new for each in find(adopted, "a").fields} == {
        "data.left": ABSENT,
        "metadata.labels.tier": ABSENT,
    }


def test_nested_stacks_that_read_a_changed_object_are_previewed() -> None:
    text = "resources: {a: {manifest: {apiVersion: v1, kind: ConfigMap, data: {v: '%s'}}}}"
    nested = [
        resource(
            "Stack", api_version="hearth.dev/v1alpha1", spec={"templateRef": {"name": f"${{{source}.metadata.name}}"}}
        )
        for source in ("source", "other")
    ]

    def make_spec(version: int) -> Object:
        sources = {
            "source": config(**{"template.yaml": text % version}),
            "other": config(**{"template.yaml": text % 1}),
        }
        return spec_of({**sources, "reader": nested[0], "stranger": nested[1]})

    found: list[tuple[str, str]] = []

    async def preview_nested(nested: NestedStack, sources: Mapping[ObjectRef, Object]) -> Preview:
        assert nested.after is not None
        name = nested.after["metadata"]["name"]
        data = next(raw["data"] for ref, raw in sources.items() if ref.name == "shop-source")
        found.append((name, data["template.yaml"]))
        return Preview(kind="Stack", namespace="default", name=name, is_new=False)

    async def test(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(stack_manifests.make_stack(make_spec(1)))
        await asyncio.sleep(200)
        request = preview_of.make_request(world.server, make_spec(2))
        preview = await previews.make_preview(
            FakeLiveCluster(world.server), request, now=preview_of.NOW, preview_nested=preview_nested
        )
        assert [each.name for each in preview.nested] == ["shop-reader"]

    fake_world.run(test)
    assert found == [("shop-reader", text % 2)]


@pytest.mark.parametrize("limit", [0, 3], ids=["held", "allowed"])
def test_members_that_a_collection_with_a_limit_deletes_later_are_shown(limit: int) -> None:
    def make_spec(keys: list[str]) -> Object:
        rules = {"keys": {"type": "array", "items": {"type": "string"}}}
        collection = config(v="${item}") | {
            "forEach": "params.keys",
            "key": "item",
            "updatePolicy": {"maxRemoved": limit},
        }
        kept = collection | {"deletionPolicy": "Retain"}
        resources = {"own": collection, "kept": kept}
        return spec_of(resources, parameters=rules) | {"parameters": {"keys": keys}}

    shown = preview_after(make_spec(["a", "b", "c"]), make_spec(["a"]))

    assert list_actions(shown) == [("own[b]", Action.DELETE), ("own[c]", Action.DELETE)]
    assert {(each.is_uncertain, each.reason) for each in shown.changes} == {(True, previews.UNWANTED)}


def test_a_rollback_to_a_snapshot_is_rejected_as_one_that_no_preview_can_show() -> None:
    before = spec_of({"app": config(v="1")})

    shown = preview_after(before, before | {"rollback": {"toSnapshot": "before"}})

    assert (shown.changes, shown.rejection) == ((), copied_management_cluster.NO_RESTORE.format(name="before"))
