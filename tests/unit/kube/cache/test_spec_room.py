"""Specs without room in the share of their namespace are read again; everything else of their Stacks stays known."""

from __future__ import annotations

import orjson
import pytest

from hearth.kube.cache import cache_budget
from hearth.kube.cache.stack_cache import StackCache
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.memory_shares import MemoryShares
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForms
from support import virtual_time
from support.ports.silent_ports import DeafListener
from support.units.scripted_api.scripted_connection import ScriptedConnection
from support.units.scripted_api.scripted_watch import ScriptedConnection as ScriptedWatch
from support.units.scripted_api.scripted_watch import Stream, event, list_end

SIZE = 100_000
SITE = Kind(group="platform.example", version="v1", name="Site", plural="sites", namespaced=True)
TEMPLATE: Object = {"resources": {"a": {"manifest": {"kind": "ConfigMap", "data": {"b": "x" * SIZE}}}}}


def make_stack(number: int, *, namespace: str = "a", generation: int = 1, version: int = 1, **spec: object) -> Object:
    """A Stack with a large template."""
    identity = {"name": f"s{number}", "namespace": namespace, "uid": f"{namespace}{number}"}
    metadata = {**identity, "generation": generation, "resourceVersion": str(version)}
    return {"kind": "Stack", "metadata": metadata, "spec": {"template": TEMPLATE, "paused": True, **spec}}


def make_cache() -> StackCache:
    return StackCache(ScriptedConnection(), DeafListener().on_stack)


@pytest.fixture(autouse=True)
def shares(monkeypatch: pytest.MonkeyPatch) -> MemoryShares:
    """Shares that nothing else uses, with room for the specs of three Stacks of one namespace."""
    found = MemoryShares()
    # A namespace has half of the total, and specs leave an eighth of the total free.
    found.total = int(3 * SIZE * 1.1 * 8 / 3)
    monkeypatch.setattr(cache_budget, "memory_shares", found)
    return found


def fill(cache: StackCache) -> None:
    """Put ten large Stacks into a cache."""
    for number in range(10):
        cache.put(make_stack(number))


def count_omitted(cache: StackCache) -> int:
    found = (cache.find_stack(uid) for uid in cache.stacks())
    return sum(stack is not None and stack.omitted_size > 0 for stack in found)


def test_specs_beyond_the_share_are_omitted(shares: MemoryShares) -> None:
    cache = make_cache()
    fill(cache)

    assert count_omitted(cache) == 7
    assert shares.total_held < 4 * SIZE
    omitted = cache.find_stack("a9")
    assert omitted is not None
    assert omitted.spec == {"paused": True}
    assert omitted.spec_size > SIZE
    assert sum(cache.count_bytes().values()) < 4 * SIZE
    cache.put(make_stack(1, namespace="b"))
    assert count_omitted(cache) == 7


def test_a_deleted_stack_makes_room(shares: MemoryShares) -> None:
    cache = make_cache()
    fill(cache)

    cache.forget("a0")
    cache.put(make_stack(9, generation=2, version=2))

    assert count_omitted(cache) == 6
    for uid in list(cache.stacks()):
        cache.forget(uid)
    assert shares.total_held == 0


def test_a_changed_spec_of_the_same_size_stays() -> None:
    cache = make_cache()
    fill(cache)

    changed = cache.put(make_stack(0, generation=2, version=2, paused=False))

    assert changed.spec == make_stack(0, paused=False)["spec"]


def test_an_omitted_spec_is_parsed_when_it_is_opened() -> None:
    cache = make_cache()
    fill(cache)
    raw = {**make_stack(9, version=2), "status": {"phase": "CreateComplete"}}
    cache.put(raw)

    opened = cache.open(raw)

    assert opened.spec == raw["spec"]
    assert opened.omitted_size == 0
    known = cache.find_stack("a9")
    assert known is not None
    assert (known.phase, known.omitted_size > SIZE) == ("CreateComplete", True)


def make_instance(number: int, *, version: int = 1) -> Object:
    identity = {"name": f"s{number}", "namespace": "a", "uid": f"u{number}"}
    metadata = {**identity, "generation": 1, "resourceVersion": str(version)}
    return {"kind": "Site", "metadata": metadata, "spec": {"text": "x" * SIZE, "size": 3, "stack": {"paused": True}}}


def list_instances(forms: InstanceForms) -> StackCache:
    """A cache that has listed one large instance."""
    stream = Stream(event("ADDED", make_instance(0)), list_end(1))
    cache = StackCache(ScriptedWatch(streams=[stream]), DeafListener().on_stack, kind=SITE, forms=forms)

    async def story() -> None:
        cache.start()
        await cache.wait_synced()
        await cache.close()

    virtual_time.run(story)
    return cache


def test_an_instance_keeps_its_options_and_replicas(shares: MemoryShares) -> None:
    rules = {"text": {"type": "string"}, "size": {"type": "integer", "default": 1}}
    contents = [
        {"template": {"parameters": rules}, "form": {"scale": {"parameter": "size"}, "defaults": {"timeout": timeout}}}
        for timeout in ("1m", "5m")
    ]
    by_number = {number: instance_form.make_form("sites", number, each) for number, each in enumerate(contents, 1)}
    forms = InstanceForms("sites", by_number, current=1)
    shares.total = 0
    cache = list_instances(forms)
    cache.move("u0", 2)
    moved = cache.find_stack("u0")

    assert moved is not None
    assert (moved.definition_revision, moved.replicas, moved.spec["paused"]) == (2, 3, True)
    assert moved.omitted_size > SIZE
    assert len(moved.packed_stated) < 1_000
    opened = cache.open(make_instance(0, version=2))
    assert (opened.definition_revision, opened.spec["timeout"]) == (2, "5m")
    assert opened.spec["parameters"]["text"] == "x" * SIZE
    assert orjson.loads(opened.packed_stated) == make_instance(0)["spec"]
