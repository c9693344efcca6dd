"""Reading and writing Stacks. On the fake and on a real API server."""

from __future__ import annotations

import json

import pytest

from contract import bench as benches
from contract.bench import Bench, Refusal
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.model import names, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from support.stories.world import Address

DEFINITION: Object = {"template": {"resources": {}}, "parameters": {"size": 1}}

UNSEEN: Object = {"observedGeneration": -1}
"""The status of a Stack that has not been observed yet."""


def find(bench: Bench, made: Object) -> StackObject:
    """The Stack as the cache shows it."""
    stack = bench.home.find_stack(made["metadata"]["uid"])
    assert stack is not None
    return stack


def revision(number: int, stack: StackObject, *, hash_: str = "h1") -> Revision:
    return Revision(
        name=f"shop-{hash_}",
        number=number,
        hash=hash_,
        kinds=frozenset({"v1/ConfigMap", "v1/Secret"}),
        namespace=stack.namespace,
        owner=stack.uid,
        signature="k1:def",
    )


async def test_stack_is_shown_and_reported(bench: Bench) -> None:
    made = await bench.create_stack()
    stack = find(bench, made)
    assert (stack.name, stack.namespace, stack.generation, stack.deleting) == ("shop", bench.namespace, 1, False)
    assert (stack.finalizers, stack.status, list(stack.spec)) == ((), UNSEEN, ["template"])
    assert bench.ears.stacks == [stack.uid]


async def test_new_spec_is_reported(bench: Bench) -> None:
    made = await bench.create_stack()
    await bench.user.patch(Address.of(made), {"spec": {"parameters": {"size": 2}}})
    await bench.until(lambda: find(bench, made).generation == 2)
    assert bench.ears.stacks == [made["metadata"]["uid"]] * 2


async def test_own_status_is_shown_at_once(bench: Bench) -> None:
    made = await bench.create_stack()
    conditions = [
        {"type": "Ready", "status": "False", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]
    await bench.home.write_status(find(bench, made), {"phase": "CreateInProgress", "conditions": conditions})
    await bench.home.write_status(find(bench, made), {"phase": "CreateComplete", "conditions": None})
    stack = find(bench, made)
    assert (stack.status, stack.generation) == ({**UNSEEN, "phase": "CreateComplete"}, 1)


async def test_edit_beside_our_own_status_is_reported(bench: Bench) -> None:
    made = await bench.create_stack()
    stale = find(bench, made)
    await bench.user.patch(Address.of(made), {"metadata": {"annotations": {"hearth.dev/retry": "1"}}})
    await bench.home.write_status(stale, {"phase": "CreateInProgress"})
    await bench.until(lambda: len(bench.ears.stacks) > 1)
    assert find(bench, made).annotations == {"hearth.dev/retry": "1"}


async def test_status_of_a_stack_that_is_gone(bench: Bench) -> None:
    made = await bench.create_stack()
    stack = find(bench, made)
    await bench.user.delete(Address.of(made))
    await bench.home.write_status(stack, {"phase": "CreateComplete"})
    await bench.until(lambda: bench.home.find_stack(stack.uid) is None)


async def test_finalizer_comes_and_goes(bench: Bench) -> None:
    """Removing the finalizer completes the deletion of a Stack, and the cache forgets it at once."""
    made = await bench.create_stack()
    await bench.home.add_finalizer(find(bench, made))
    assert find(bench, made).finalizers == (names.FINALIZER,)
    await bench.user.delete(Address.of(made))
    await bench.until(lambda: find(bench, made).deleting)
    await bench.home.remove_finalizer(find(bench, made))
    assert bench.home.find_stack(made["metadata"]["uid"]) is None
    assert await bench.user.find(Address.of(made)) is None


async def test_finalizer_on_what_has_changed_since(bench: Bench) -> None:
    made = await bench.create_stack()
    stale = find(bench, made)
    await bench.user.patch(Address.of(made), {"metadata": {"finalizers": ["another.example.com/else"]}})
    found = await benches.refused(bench.home.add_finalizer(stale))
    assert found == Refusal(409, "Conflict", "stacks", ())


async def test_finalizers_of_others_are_kept(bench: Bench) -> None:
    made = await bench.create_stack()
    await bench.user.patch(Address.of(made), {"metadata": {"finalizers": ["another.example.com/else"]}})
    await bench.until(lambda: bool(find(bench, made).finalizers))
    await bench.home.add_finalizer(find(bench, made))
    assert find(bench, made).finalizers == ("another.example.com/else", names.FINALIZER)
    await bench.home.remove_finalizer(find(bench, made))
    assert find(bench, made).finalizers == ("another.example.com/else",)


async def test_finalizer_of_a_stack_that_is_gone(bench: Bench) -> None:
    made = await bench.create_stack()
    await bench.home.add_finalizer(find(bench, made))
    stack = find(bench, made)
    await bench.user.patch(Address.of(made), {"metadata": {"finalizers": None}})
    await bench.user.delete(Address.of(made))
    await bench.home.remove_finalizer(stack)


async def test_deletion_of_a_stack_that_has_changed_since(bench: Bench) -> None:
    made = await bench.create_stack()
    stale = find(bench, made)
    assert stale.created_at
    await bench.user.patch(Address.of(made), {"spec": {"expiresAfter": "9h"}})
    found = await benches.refused(bench.home.delete_stack(stale))
    assert (found.code, found.reason) == (409, "Conflict")
    await bench.until(lambda: find(bench, made).generation == 2)
    await bench.home.delete_stack(find(bench, made))
    assert await bench.user.find(Address.of(made)) is None
    await bench.home.delete_stack(stale)


async def test_revision_is_kept(bench: Bench) -> None:
    stack = find(bench, await bench.create_stack())
    stored = await bench.home.create_revision(stack, revision(1, stack), DEFINITION)
    assert (stored, bench.home.revisions(stack.uid)) == (revision(1, stack), (revision(1, stack),))
    assert await bench.home.get_definition(stack, stored) == DEFINITION


async def test_revision_that_is_there_already(bench: Bench) -> None:
    stack = find(bench, await bench.create_stack())
    await bench.home.create_revision(stack, revision(1, stack), DEFINITION)
    again = await bench.home.create_revision(stack, revision(7, stack), DEFINITION)
    assert (again, bench.home.revisions(stack.uid)) == (revision(1, stack), (revision(1, stack),))


async def test_revisions_by_number(bench: Bench) -> None:
    stack = find(bench, await bench.create_stack())
    for number, hash_ in ((2, "a"), (1, "b"), (3, "c")):
        await bench.home.create_revision(stack, revision(number, stack, hash_=hash_), DEFINITION)
    assert [each.number for each in bench.home.revisions(stack.uid)] == [1, 2, 3]


async def test_revisions_go_with_their_stack(bench: Bench) -> None:
    made = await bench.create_stack()
    stack = find(bench, made)
    await bench.home.create_revision(stack, revision(1, stack), DEFINITION)
    await bench.user.delete(Address.of(made))
    await bench.until(lambda: bench.home.revisions(stack.uid) == ())


@pytest.fixture
def source(bench: Bench) -> ObjectRef:
    """A ConfigMap that a definition is read from."""
    ref = ObjectRef(group="", kind="ConfigMap", namespace=bench.namespace, name="source")
    bench.home.follow_sources("s1", [ref])
    return ref


async def test_source(bench: Bench, source: ObjectRef) -> None:
    manifest = bench.config("source", metadata={"labels": {}}, a="1")
    await bench.user.create(manifest)
    assert await bench.home.get_source(source) == {"a": "1"}
    await bench.user.patch(Address.of(manifest), {"data": {"a": "2"}})

    async def is_changed() -> bool:
        return await bench.home.get_source(source) == {"a": "2"}

    await bench.until(is_changed)
    assert source in bench.ears.sources


async def test_source_that_is_missing(bench: Bench, source: ObjectRef) -> None:
    assert (await benches.refused(bench.home.get_source(source))).code == 404
    await bench.user.create(bench.config("source", metadata={"labels": {}}, a="1"))
    await bench.until(lambda: source in bench.ears.sources)
    assert await bench.home.get_source(source) == {"a": "1"}


async def test_source_that_is_a_secret(bench: Bench) -> None:
    manifest: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "source", "namespace": bench.namespace},
        "data": {"a": "MQ=="},
    }
    ref = ObjectRef(group="", kind="Secret", namespace=bench.namespace, name="source")
    bench.home.follow_sources("s1", [ref])
    await bench.user.create(manifest)
    assert await bench.home.get_source(ref) == {"a": "MQ=="}
    await bench.user.patch(Address.of(manifest), {"data": {"a": "Mg=="}})
    await bench.until(lambda: ref in bench.ears.sources)
    assert await bench.home.get_source(ref) == {"a": "Mg=="}
    bench.home.follow_sources("s1", [])
    bench.ears.sources.clear()
    await bench.user.patch(Address.of(manifest), {"data": {"a": "Mw=="}})
    assert await bench.home.get_source(ref) == {"a": "Mw=="}
    assert bench.ears.sources == []


async def test_source_that_is_a_template(bench: Bench) -> None:
    template = {"parameters": {"size": {"type": "integer", "default": 1}}, "resources": {}}
    manifest: Object = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackTemplate",
        "metadata": {"name": f"template-{bench.namespace}"},
        "spec": {"template": template},
    }
    ref = well_known_kinds.make_template_ref(manifest["metadata"]["name"])
    bench.home.follow_sources("s1", [ref])
    assert (await benches.refused(bench.home.get_source(ref))).code == 404
    await bench.user.create(manifest)
    await bench.until(lambda: ref in bench.ears.sources)
    assert json.loads((await bench.home.get_source(ref))["spec.template"]) == template
    bench.ears.sources.clear()
    await bench.user.patch(Address.of(manifest), {"spec": {"template": {"parameters": {"size": {"default": 2}}}}})
    await bench.until(lambda: ref in bench.ears.sources)
    found = json.loads((await bench.home.get_source(ref))["spec.template"])
    assert found["parameters"]["size"]["default"] == 2
    await bench.user.delete(Address.of(manifest))


async def test_the_creator_of_a_source_is_the_stack_in_its_labels(bench: Bench, source: ObjectRef) -> None:
    manifest = bench.config("source", metadata={"labels": {names.LABEL_STACK_UID: "s2"}}, a="1")
    await bench.user.create(manifest)
    await bench.home.get_source(source)
    assert bench.home.find_source_creators("s1") == {"s2"}
    await bench.user.patch(Address.of(manifest), {"metadata": {"labels": {names.LABEL_STACK_UID: None}}})
    await bench.until(lambda: not bench.home.find_source_creators("s1"))
    bench.home.follow_sources("s1", [])
    assert bench.home.find_source_creators("s1") == frozenset()


async def test_event_never_raises(bench: Bench) -> None:
    """Not even about a deleted Stack."""
    made = await bench.create_stack()
    stack = find(bench, made)
    await bench.home.emit_event(stack, type_="Normal", reason="Test", message="said")
    await bench.user.delete(Address.of(made))
    await bench.home.emit_event(stack, type_="Normal", reason="Test", message="said again")


async def test_an_event_about_a_source_never_raises(bench: Bench) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "reported", "namespace": bench.namespace}}
    ref = ObjectRef(group="", kind="ConfigMap", namespace=bench.namespace, name="reported")
    await bench.home.emit_source_event(ref, type_="Warning", reason="Test", message="said of nothing")
    await bench.user.create(manifest)
    bench.home.follow_sources("s1", [ref])
    await bench.home.get_source(ref)
    await bench.home.emit_source_event(ref, type_="Warning", reason="Test", message="said")
    bench.home.follow_sources("s1", [])
