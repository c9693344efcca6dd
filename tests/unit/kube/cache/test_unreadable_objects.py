"""Objects that cannot be read completely: the caches keep their identity and the problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from hearth.engine.cluster_objects import StackObject
from hearth.kube.cache.child_cache import ChildCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.model import errors
from hearth.model.child import Child
from support import virtual_time
from support.ports.silent_ports import DeafListener
from support.units import signing
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import CONFIG_MAP, ScriptedConnection, ServedKinds, Stream, list_end

MARK = '"the deep part"'


def nest(levels: int, *, in_maps: bool = False) -> bytes:
    """A value of that many levels."""
    return b'{"a":' * levels + b"1" + b"}" * levels if in_maps else b"[" * levels + b"]" * levels


def write(raw: Any, levels: int, *, in_maps: bool = False) -> bytes:
    """An event of that object, with a deep value where it is marked."""
    return scripted_watch.event("ADDED", raw).replace(MARK.encode(), nest(levels, in_maps=in_maps))


def make(name: str, **parts: Any) -> dict[str, Any]:
    """A Stack or ConfigMap."""
    return {**scripted_watch.make_object(name, 3, generation=4), **parts}


async def find_stacks(*lines: bytes) -> dict[str, StackObject]:
    """The Stacks in a cache after these events, by name."""
    stacks = StackCache(
        ScriptedConnection(streams=[Stream(*lines, list_end(5))]), DeafListener().on_stack, options=scripted_watch.RULES
    )
    stacks.start()
    await stacks.wait_synced()
    found = [stacks.find_stack(uid) for uid in stacks.stacks()]
    await stacks.close()
    return {stack.name: stack for stack in found if stack is not None}


async def find_children(lines: Sequence[bytes], *, pages: Sequence[Any] = ()) -> dict[str, Child]:
    """The ConfigMaps in a cache after these events or pages, by name."""
    connection = ScriptedConnection(streams=[Stream(*lines, *([] if pages else [list_end(5)]))], pages=list(pages))
    caches = ChildCache(connection, ServedKinds(), DeafListener(), options=scripted_watch.RULES)
    caches.server.has_watch_list = not pages
    caches.follow(CONFIG_MAP, [("data",)])
    await caches.wait_synced()
    found = [child for resource in caches.children("s1").values() for child in resource]
    await caches.close()
    return {child.name: child for child in found}


@pytest.mark.parametrize("levels", [300, 900, 1_100])
@pytest.mark.parametrize("in_maps", [False, True])
def test_a_stack_whose_spec_is_too_deep_keeps_the_rest_of_it(levels: int, *, in_maps: bool) -> None:
    spec = {"paused": True, "parameters": "the deep part", "template": {"resources": {}}}
    lines = [write(make("deep", spec=spec), levels, in_maps=in_maps), scripted_watch.added("z", 4)]
    found = virtual_time.run(lambda: find_stacks(*lines))
    assert found.keys() == {"deep", "z"}
    assert found["deep"].spec == {"paused": True, "template": {"resources": {}}}
    assert found["deep"].defect.startswith("spec.parameters is nested too deeply; the limit is 100 levels")
    assert (found["deep"].generation, found["z"].defect) == (4, "")


def test_a_stack_with_a_million_values_says_so_and_holds_nothing_up() -> None:
    lists = b"[" + b"[]," * 467_000 + b"[]]"
    spec = {"paused": True, "template": {"resources": "the deep part"}}
    line = scripted_watch.event("ADDED", make("wide", spec=spec)).replace(MARK.encode(), lists)
    found = virtual_time.run(lambda: find_stacks(line, scripted_watch.added("z", 4)))
    assert (found["wide"].spec, found["z"].defect) == ({"paused": True}, "")
    assert found["wide"].defect.startswith("spec.template has more than 250000 commas and brackets; make it smaller")
    found_children = virtual_time.run(
        lambda: find_children([line.replace(b'"spec"', b'"data"'), scripted_watch.added("z", 4)])
    )
    assert found_children["wide"].defect.startswith("data.template has more than 250000")


def test_a_status_that_is_too_deep_is_no_defect_of_the_spec() -> None:
    raw = make("a", spec={"paused": True}, status={"phase": "X", "outputs": "the deep part"})
    found = virtual_time.run(lambda: find_stacks(write(raw, 1_100)))
    assert (found["a"].spec, found["a"].defect, found["a"].phase) == ({"paused": True}, "", "X")


@pytest.mark.parametrize(
    ("raw", "defect"),
    [
        pytest.param(
            make("bad", data="the deep part"), "data is nested too deeply; the limit is 100", id="what is read"
        ),
        pytest.param(make("bad", other="the deep part"), "other is nested too deeply", id="what is not read"),
        pytest.param(
            make("bad", metadata={**make("bad")["metadata"], "managedFields": "the deep part"}),
            "metadata.managedFields is nested too deeply",
            id="its managed fields",
        ),
        pytest.param(
            make("bad", metadata={**make("bad")["metadata"], "annotations": 3}),
            "the object contains data that cannot be parsed",
            id="annotations that are a number",
        ),
    ],
)
def test_a_child_that_cannot_be_read_says_so(raw: Any, defect: str) -> None:
    found = virtual_time.run(lambda: find_children([write(raw, 1_100), scripted_watch.added("z", 4)]))
    assert found["bad"].defect.startswith(defect)
    assert (found["bad"].stack_uid, found["z"].defect) == ("s1", "")


def test_so_does_one_of_a_page() -> None:
    fields = orjson.loads(nest(300, in_maps=True))
    entry = {"manager": "hearth:n/s", "operation": "Apply", "fieldsV1": fields}
    bad = scripted_watch.make_object("bad", 3, managedFields=[entry])
    page = scripted_watch.page(9, bad, scripted_watch.make_object("z", 4))
    found = virtual_time.run(lambda: find_children([], pages=[page]))
    assert found["bad"].defect.startswith("metadata.managedFields is nested too deeply")
    assert found["z"].defect == ""


@virtual_time.in_virtual_time
async def test_a_known_child_that_a_new_list_shows_as_unreadable_is_not_deleted() -> None:
    later = make("bad", data="the deep part")
    later["metadata"]["resourceVersion"] = "7"
    gone = errors.ApiStatusError(code=410, status=None)
    first = Stream(scripted_watch.added("bad", 3), list_end(5)).end()
    lists: list[Stream | Exception] = [first, gone, Stream(write(later, 1_100), list_end(8))]
    caches = ChildCache(ScriptedConnection(streams=lists), ServedKinds(), DeafListener(), options=scripted_watch.RULES)
    caches.trust(signing.Trusting())
    caches.follow(CONFIG_MAP, [("data",)])
    await caches.wait_synced()
    (before,) = caches.children_of("s1", "bad")
    await scripted_watch.elapse(30.0)
    (after,) = caches.children_of("s1", "bad")
    await caches.close()
    assert (after.uid, after.resource_version, before.defect) == (before.uid, 7, "")
    assert after.defect.startswith("data is nested too deeply")
