"""Reading and writing Stacks and ResourceGroups, and handling the responses."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import random
from collections.abc import Callable

import orjson
import pytest

from hearth.engine.cluster_objects import Revision, StackObject
from hearth.kube.cache import stack_cache
from hearth.kube.cache.revision_cache import RevisionCache
from hearth.kube.cache.source_cache import SourceCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.kube.management_cluster import KubeManagementCluster
from hearth.kube.objects import controller_revision, event_recorder
from hearth.model import errors, limits, names
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.stack_tree import Node, StackTree
from hearth.model.well_known_kinds import CONTROLLER_REVISION, RESOURCE_GROUP, STACK
from support.ports.silent_ports import DeafListener
from support.server import api_errors
from support.units.scripted_api.scripted_connection import Answer, ScriptedConnection, Sent, conflict, exists, missing
from support.virtual_time import in_virtual_time

ITEM = "/apis/hearth.dev/v1alpha1/namespaces/a/stacks/shop"
REVISIONS = "/apis/apps/v1/namespaces/a/controllerrevisions"
REVISION = Revision(
    name="shop-x",
    number=3,
    hash="k1:abc",
    kinds=frozenset({"v1/ConfigMap", "apps/v1/Deployment"}),
    namespace="a",
    owner="u",
    signature="k1:def",
)
DEFINITION: Object = {"template": {"resources": {}}, "parameters": {"size": 1}}


def stack(*finalizers: str) -> StackObject:
    """The Stack as a cache holds it."""
    return StackObject(
        name="shop",
        namespace="a",
        uid="u",
        generation=1,
        resource_version=7,
        deleting=False,
        finalizers=finalizers,
        annotations={},
        packed_spec=b"{}",
        packed_status=b"{}",
    )


def shown(*finalizers: str, version: int = 8, **metadata: object) -> Object:
    """The Stack as the server shows it."""
    plain = {"name": "shop", "namespace": "a", "uid": "u", "resourceVersion": str(version)}
    return {"metadata": {**plain, "finalizers": list(finalizers), **metadata}, "status": {"phase": "CreateComplete"}}


def body_of(sent: Sent) -> Object:
    """The body of the sent request."""
    assert sent.body is not None
    return sent.body


def make(**script: Answer | list[Answer]) -> tuple[KubeManagementCluster, ScriptedConnection]:
    """A home on a server with these answers: about the Stack, its status, revisions and a source."""
    paths = {
        "stack": f"GET {ITEM}",
        "patch": f"PATCH {ITEM}",
        "status": f"PATCH {ITEM}/status",
        "create": f"POST {REVISIONS}",
        "get": f"GET {REVISIONS}/shop-x",
        "source": "GET /api/v1/namespaces/a/configmaps/c",
    }
    connection = ScriptedConnection({paths[name]: answer for name, answer in script.items()})
    home = KubeManagementCluster(
        connection,  # type: ignore[arg-type]  # the same methods
        stacks=StackCache(connection, DeafListener().on_stack),
        revisions=RevisionCache(connection, DeafListener().on_revision),
        sources=SourceCache(connection, DeafListener().on_source),
    )
    return home, connection


@in_virtual_time
async def test_the_spec_is_requested_only_if_it_is_omitted() -> None:
    live = {**shown(generation=1), "spec": {"paused": True, "parameters": {"a": 1}}}
    home, connection = make(stack=[live, shown(uid="new")])
    kept = dataclasses.replace(stack(), packed_spec=b'{"paused":true}')
    omitted = dataclasses.replace(kept, omitted_size=1)

    assert (await home.open_stack(kept)).spec == {"paused": True}
    assert connection.sent == []
    assert (await home.open_stack(omitted)).spec == live["spec"]
    with pytest.raises(errors.Unreachable, match="Stack a/shop was replaced"):
        await home.open_stack(omitted)


@in_virtual_time
async def test_a_finalizer_is_added_to_those_that_were_read() -> None:
    home, connection = make(patch=shown("x", names.FINALIZER))
    await home.add_finalizer(stack("x"))
    wanted = {"metadata": {"finalizers": ["x", names.FINALIZER], "resourceVersion": "7"}}
    assert connection.sent[0].body == wanted
    assert connection.sent[0].content_type == "application/merge-patch+json"
    found = home.find_stack("u")
    assert found is not None
    assert (found.finalizers, found.resource_version) == (("x", names.FINALIZER), 8)
    assert list(home.stacks()) == ["u"]


@in_virtual_time
async def test_a_finalizer_that_is_there_costs_nothing() -> None:
    home, connection = make()
    await home.add_finalizer(stack(names.FINALIZER))
    await home.remove_finalizer(stack("x"))
    assert connection.sent == []


@in_virtual_time
async def test_a_stack_that_changed_meanwhile_keeps_its_finalizers() -> None:
    home, _ = make(patch=conflict())
    with pytest.raises(errors.ApiStatusError) as caught:
        await home.add_finalizer(stack())
    assert caught.value.code == 409


@in_virtual_time
async def test_our_finalizer_goes_though_a_status_was_written_meanwhile() -> None:
    live = shown("theirs", names.FINALIZER, version=9)
    home, connection = make(patch=[conflict(), shown("theirs", version=10)], stack=live)
    await home.remove_finalizer(stack(names.FINALIZER))
    assert [request.method for request in connection.sent] == ["PATCH", "GET", "PATCH"]
    assert body_of(connection.sent[-1])["metadata"] == {"finalizers": ["theirs"], "resourceVersion": "9"}


@in_virtual_time
async def test_a_stack_goes_with_its_last_finalizer() -> None:
    home, connection = make(status=shown(names.FINALIZER), patch=shown(deletionTimestamp="2026-01-01T00:00:00Z"))
    await home.write_status(stack(names.FINALIZER), {"phase": "DeleteInProgress"})
    assert home.find_stack("u") is not None
    await home.remove_finalizer(stack(names.FINALIZER))
    assert body_of(connection.sent[1])["metadata"]["finalizers"] == []
    assert home.find_stack("u") is None


@in_virtual_time
async def test_a_stack_that_is_gone_needs_no_finalizer_removed_and_no_status() -> None:
    home, _ = make(patch=missing(), status=missing())
    await home.remove_finalizer(stack(names.FINALIZER))
    await home.write_status(stack(), {"phase": "CreateComplete"})


@in_virtual_time
async def test_a_status_is_written_under_the_version_that_was_read() -> None:
    home, connection = make(status=shown())
    await home.write_status(stack(), {"phase": "CreateComplete", "message": None})
    assert [sent.body for sent in connection.sent] == [
        {"metadata": {"resourceVersion": "7"}, "status": {"phase": "CreateComplete", "message": None}}
    ]
    found = home.find_stack("u")
    assert found is not None
    assert found.status == {"phase": "CreateComplete"}


@in_virtual_time
async def test_a_status_is_written_though_the_stack_changed_meanwhile() -> None:
    home, connection = make(status=[conflict(), shown(version=12)], stack=shown(version=11))
    await home.write_status(stack(), {"phase": "CreateComplete"})
    written = [body_of(sent)["metadata"]["resourceVersion"] for sent in connection.sent if sent.method == "PATCH"]
    assert written == ["7", "11"]


@pytest.mark.parametrize(
    "live",
    [pytest.param(shown(uid="v"), id="another one of that name"), pytest.param(missing(), id="none of that name")],
)
@in_virtual_time
async def test_a_status_never_meets_another_stack(live: Answer) -> None:
    home, connection = make(status=conflict(), stack=live)
    await home.write_status(stack(), {"phase": "CreateComplete"})
    assert connection.asked == [f"PATCH {ITEM}/status", f"GET {ITEM}"]


@pytest.mark.parametrize(
    ("script", "code", "count"),
    [
        pytest.param({"status": api_errors.unavailable()}, 503, 1, id="refused otherwise"),
        pytest.param({"status": conflict(), "stack": shown()}, 409, 5, id="a user changes it again and again"),
        pytest.param({"status": conflict(), "stack": api_errors.unavailable()}, 503, 2, id="unknown"),
    ],
)
@in_virtual_time
async def test_a_status_that_cannot_be_written_is_the_callers_to_try_again(
    script: dict[str, Answer], code: int, count: int
) -> None:
    home, connection = make(**script)
    with pytest.raises(errors.ApiStatusError) as caught:
        await home.write_status(stack(), {"phase": "CreateComplete"})
    assert (caught.value.code, len(connection.sent)) == (code, count)


def echo(sent: Sent) -> Object:
    """The sent body, as the server stored it."""
    body = body_of(sent)
    return {**body, "metadata": {**body["metadata"], "uid": "r", "resourceVersion": "9"}}


@in_virtual_time
async def test_a_revision_is_stored_and_known_at_once() -> None:
    home, connection = make(create=echo)
    await home.create_revision(stack(), REVISION, DEFINITION)
    body = body_of(connection.sent[0])
    assert body["metadata"]["labels"] == {
        "hearth.dev/stack-uid": "u",
        "hearth.dev/stack": "shop",
        "hearth.dev/bucket": "175",
    }
    assert body["metadata"]["annotations"] == {
        "hearth.dev/hash": "k1:abc",
        "hearth.dev/kinds": "apps/v1/Deployment,v1/ConfigMap",
        "hearth.dev/revision": "3",
        "hearth.dev/signature": "k1:def",
    }
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "Stack",
        "u",
        True,
        False,
    )
    assert (body["revision"], orjson.loads(orjson.dumps(body["data"]))) == (3, DEFINITION)
    assert home.revisions("u") == (REVISION,)


@in_virtual_time
async def test_a_revision_that_exists_stays_as_it_is() -> None:
    stored = {**controller_revision.make_objects(stack(), REVISION, DEFINITION)[-1]}
    stored["metadata"] = {**stored["metadata"], "uid": "r", "resourceVersion": "9"}
    home, connection = make(create=exists(), get=stored)
    later = dataclasses.replace(REVISION, number=REVISION.number + 1)
    assert await home.create_revision(stack(), later, DEFINITION) == REVISION
    assert [request.method for request in connection.sent] == ["POST", "GET"]


@in_virtual_time
async def test_any_other_refusal_of_a_revision_passes_through() -> None:
    home, _ = make(create=api_errors.unavailable())
    with pytest.raises(errors.ApiStatusError):
        await home.create_revision(stack(), REVISION, DEFINITION)


@pytest.mark.parametrize("size", [pytest.param(10, id="small"), pytest.param(200_000, id="large")])
@in_virtual_time
async def test_a_definition_comes_back_as_it_was_stored(size: int) -> None:
    definition: Object = {"template": {"a": "ä" * size}, "parameters": {}}
    home, _ = make(get=controller_revision.make_objects(stack(), REVISION, definition)[-1])
    assert await home.get_definition(stack(), REVISION) == definition


def compress(text: bytes) -> Object:
    """The data of a revision with that text."""
    return {"compressed": base64.b64encode(gzip.compress(text)).decode()}


def test_a_large_definition_is_stored_compressed() -> None:
    definition: Object = {"template": {"a": "b" * 100_000}, "parameters": {}}
    (data,) = controller_revision.encode_definition(definition)
    assert base64.b64decode(data["compressed"])[4:8] == bytes(4), "the time is not part of it"
    assert len(data["compressed"]) < 1000
    assert orjson.loads(gzip.decompress(base64.b64decode(data["compressed"]))) == definition


@pytest.mark.parametrize("count", [1, 5_000])
def test_a_revision_is_the_same_with_parameters_from_the_spec_as_they_are(count: int) -> None:
    spec = {"parameters": {"items": [{"name": f"ä{number}", "share": 1.0} for number in range(count)]}}
    packed = dataclasses.replace(stack(), packed_parameters=orjson.dumps(spec["parameters"]))
    opened = dataclasses.replace(packed, parsed_spec=spec)
    for parameters in (spec["parameters"], {**spec["parameters"], "more": 1}):
        definition: Object = {"template": {"resources": {}}, "parameters": parameters}
        made = [controller_revision.make_objects(each, REVISION, definition) for each in (stack(), packed, opened)]
        assert made[1:] == made[:-1]
        assert controller_revision.parse_definition(made[2][0]) == definition


HUGE: Object = {"template": {"a": random.Random(1).randbytes(1_500_000).hex()}, "parameters": {}}
"""A definition that does not fit into one object even when it is compressed."""


@in_virtual_time
async def test_a_huge_definition_is_stored_in_several_objects() -> None:
    *parts, last = controller_revision.make_objects(stack(), REVISION, HUGE)
    assert [part["metadata"]["name"] for part in parts] == [f"{REVISION.name}-part-{at}" for at in (1, 2)]
    assert all("labels" not in part["metadata"] for part in parts), "no list of revisions shows them"
    assert last["metadata"]["name"] == REVISION.name
    assert max(len(orjson.dumps(each)) for each in (*parts, last)) < 1_100_000, "etcd takes 1.5 MiB"
    assert controller_revision.parse_definition(last, parts) == HUGE


DENSE = bytes(ord("#") + at % 57 if at < 171 else ord("]") + at % 34 for at in range(256))
"""Maps random bytes to characters that need no escape in JSON and that gzip can hardly compress."""


def test_texts_full_of_commas_are_no_values() -> None:
    table: Object = {"template": {"table": '1,[{"\\",' * limits.REVISION_VALUES}, "parameters": {}}
    *parts, last = controller_revision.make_objects(stack(), REVISION, table)
    assert controller_revision.parse_definition(last, parts) == table


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param({"a": "x" * limits.REVISION_BYTES}, r"it has \d+ bytes as JSON, at most 16777216", id="bytes"),
        pytest.param({"a": [[]] * limits.REVISION_VALUES}, "it holds more than 1000000 values", id="values"),
        pytest.param(
            {"a": random.Random(1).randbytes(limits.REVISION_BYTES - 100).translate(DENSE).decode()},
            r"compressed and in base 64 it has \d+ characters, at most 17000000",
            id="objects",
        ),
    ],
)
def test_a_definition_that_could_not_be_read_again_is_not_stored(template: Object, message: str) -> None:
    with pytest.raises(errors.InvalidDefinition, match=f"spec: .*too large for a revision: {message}"):
        controller_revision.make_objects(stack(), REVISION, {"template": template, "parameters": {}})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda parts: parts[:1], id="a part is missing"),
        pytest.param(lambda parts: [*parts[:1], {"data": {}}], id="a part is empty"),
        pytest.param(lambda parts: [parts[1], parts[0]], id="another order"),
    ],
)
def test_a_huge_definition_with_changed_parts_is_tampered(change: Callable[[list[Object]], list[Object]]) -> None:
    *parts, last = controller_revision.make_objects(stack(), REVISION, HUGE)
    with pytest.raises(errors.TamperedRevision):
        controller_revision.parse_definition(last, change(parts))


@pytest.mark.parametrize("text", ["-1", "17", "x", "9" * 30, "\u0663", ""])
def test_an_implausible_number_of_parts_counts_as_none(text: str) -> None:
    assert controller_revision.read_part_count({names.ANNOTATION_PARTS: text}) == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="none"),
        pytest.param({"template": {}}, id="half of it"),
        pytest.param({"compressed": "???"}, id="not base 64"),
        pytest.param({"compressed": base64.b64encode(b"abc").decode()}, id="not compressed"),
        pytest.param(compress(b"[1]"), id="not a definition"),
        pytest.param([1], id="not a map"),
        pytest.param({"compressed": 7}, id="not a text"),
        pytest.param({"compressed": compress(b"{}")["compressed"][:20]}, id="cut off"),
        pytest.param(compress(bytes(limits.REVISION_BYTES + 1)), id="larger than any definition"),
        pytest.param(compress(b"[" + b"[]," * limits.REVISION_VALUES + b"1]"), id="more values than any definition"),
        pytest.param(compress(b"[" * 2_000 + b"]" * 2_000), id="too deep"),
    ],
)
def test_a_definition_that_a_user_spoilt_is_named(data: object) -> None:
    raw = {"metadata": {"name": "shop-x"}, "data": data}
    with pytest.raises(errors.TamperedRevision, match="shop-x"):
        controller_revision.parse_definition(raw)


@in_virtual_time
async def test_a_source_is_read() -> None:
    source = {"metadata": {"name": "c", "namespace": "a", "uid": "c", "resourceVersion": "1"}, "data": {"k": "v"}}
    home, _ = make(source=source)
    ref = ObjectRef(group="", kind="ConfigMap", namespace="a", name="c")
    assert await home.get_source(ref) == {"k": "v"}


def test_stacks_and_revisions_are_what_the_paths_say() -> None:
    assert (STACK.api_version, STACK.plural) == ("hearth.dev/v1alpha1", "stacks")
    assert CONTROLLER_REVISION.api_version == "apps/v1"


# ResourceGroups as the engine sees them: Stacks of another kind, with separate paths, owners and Events.


GROUP_ITEM = "/apis/hearth.dev/v1alpha1/namespaces/a/resourcegroups/workers"
GROUP: Object = {
    "metadata": {"name": "workers", "namespace": "a", "uid": "u", "resourceVersion": "7"},
    "spec": {"replicas": 2, "paused": True, "template": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}},
}


def test_a_group_is_cached_in_the_form_of_a_stack() -> None:
    group = stack_cache.parse_stack(GROUP, kind=names.GROUP_KIND)
    assert (group.kind, group.is_group, group.owner_key) == ("ResourceGroup", True, "ResourceGroup/workers")
    assert group.spec["paused"] is True
    assert group.spec["size"] == {"replicas": 2}
    assert list(group.spec["template"]["resources"]) == ["member"]


def test_what_a_group_owns_and_reports_names_its_kind() -> None:
    group = stack_cache.parse_stack(GROUP, kind=names.GROUP_KIND)
    revision = Revision(name="workers-x", number=1, hash="k1:a", kinds=frozenset(), namespace="a", owner="u")
    (body,) = controller_revision.make_objects(group, revision, {"template": {}, "parameters": {}})
    assert body["metadata"]["ownerReferences"][0]["kind"] == "ResourceGroup"
    assert controller_revision.parse_revision(body["metadata"]).owner == "u"
    assert event_recorder.about_stack(group)["kind"] == "ResourceGroup"


def test_a_group_and_a_stack_of_one_name_are_two_owners() -> None:
    assert names.field_manager("a", "x") == "hearth:a/x"
    assert names.field_manager("a", "x", kind=names.GROUP_KIND) == "hearth:a/resourcegroup/x"
    assert names.split_owner(names.owner_key(names.GROUP_KIND, "x")) == (names.GROUP_KIND, "x")
    assert names.split_owner(names.owner_key(names.STACK, "x")) == (names.STACK, "x")
    tree = StackTree()
    tree.put(Node("1", "a", "x", ""))
    tree.put(Node("2", "a", "x", "", names.GROUP_KIND))
    assert tree.find_uid("a", "x") == "1"
    assert tree.find_uid("a", "x", kind=names.GROUP_KIND) == "2"
    assert tree.list_names("a") == tree.list_names("a", kind=names.GROUP_KIND) == ["x"]
    tree.drop("1")
    assert (tree.find_uid("a", "x"), tree.find_uid("a", "x", kind=names.GROUP_KIND)) == ("", "2")


@in_virtual_time
async def test_the_status_of_a_group_is_written_to_the_group() -> None:
    answer = {**GROUP, "metadata": {**GROUP["metadata"], "resourceVersion": "8"}, "status": {"phase": "CreateComplete"}}
    connection = ScriptedConnection({f"PATCH {GROUP_ITEM}/status": answer})
    stacks = StackCache(connection, DeafListener().on_stack)
    home = KubeManagementCluster(
        connection,  # type: ignore[arg-type]  # the same methods
        stacks=stacks,
        groups=StackCache(connection, DeafListener().on_stack, kind=RESOURCE_GROUP, tree=stacks.tree),
        revisions=RevisionCache(connection, DeafListener().on_revision),
        sources=SourceCache(connection, DeafListener().on_source),
    )
    await home.write_status(stack_cache.parse_stack(GROUP, kind=names.GROUP_KIND), {"phase": "CreateComplete"})
    found = home.find_stack("u")
    assert found is not None
    assert (found.kind, found.phase, list(home.stacks())) == ("ResourceGroup", "CreateComplete", ["u"])
    assert home.tree.find_uid("a", "workers", kind=names.GROUP_KIND) == "u"
