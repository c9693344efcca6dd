"""A cache of Stacks takes the spec of an unchanged generation from its record."""

from __future__ import annotations

import orjson

from hearth.kube.cache.stack_cache import StackCache
from hearth.model.child import Object
from support import virtual_time
from support.units.scripted_api.scripted_watch import ScriptedConnection, Stream, event, list_end

LARGE = [{"name": f"n{number}", "value": "one"} for number in range(2_000)]


class Listener:
    """Hears nothing of interest."""

    def on_stack(self, uid: str) -> None:
        """A Stack changed."""


def make_stack(*, version: int, generation: int = 1, uid: str = "u", phase: str = "CreateComplete") -> Object:
    """A large Stack as the API server writes it."""
    names = {"name": "s", "namespace": "a", "uid": uid}
    metadata = {"generation": generation, "resourceVersion": str(version), **names}
    spec = {"parameters": {"items": LARGE}, "serviceAccountName": "tenant", "template": {"resources": {}}}
    head = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": metadata}
    return {**head, "spec": spec, "status": {"phase": phase}}


def make_cache() -> StackCache:
    """A cache that has listed that Stack."""
    stream = Stream(
        event("ADDED", make_stack(version=1)), event("ADDED", make_stack(version=1, uid="other")), list_end(1)
    )
    cache = StackCache(ScriptedConnection(streams=[stream]), Listener().on_stack)

    async def story() -> None:
        cache.start()
        await cache.wait_synced()
        await cache.close()

    virtual_time.run(story)
    return cache


def test_an_answer_to_a_status_write_shares_the_spec_of_the_record() -> None:
    """It costs no second copy, and is otherwise as if all of it was parsed."""
    cache = make_cache()
    before = cache.find_stack("u")
    raw = make_stack(version=2, phase="UpdateComplete")
    answer = cache.read_answer(orjson.dumps(raw))
    assert answer is not None
    after = cache.put(answer)
    assert before is not None
    assert after.packed_parameters is before.packed_parameters
    assert after == cache.parse(raw)
    assert after.spec == raw["spec"]
    assert (after.phase, cache.find_stack("u")) == ("UpdateComplete", after)


def test_another_spec_is_parsed() -> None:
    """The generation shows it, unless there was no list since the API server may have lost changes."""
    cache = make_cache()
    assert cache.read_answer(orjson.dumps(make_stack(version=2, generation=2))) is None
    assert cache.read_answer(orjson.dumps(make_stack(version=2, uid="third"))) is None
    assert cache.read_answer(orjson.dumps(make_stack(version=2))) is not None
    unlisted = StackCache(ScriptedConnection(), Listener().on_stack)
    unlisted.put(make_stack(version=1))
    assert unlisted.read_answer(orjson.dumps(make_stack(version=2))) is None


def test_an_unreadable_status_does_not_cost_the_spec() -> None:
    """A status that is too deep to store is omitted, and the spec stays as it is known."""
    cache = make_cache()
    raw = make_stack(version=2)
    text = orjson.dumps(raw).replace(b'"status":{', b'"status":{"deep":' + b'{"a":' * 400 + b"1" + b"}" * 400 + b",")
    answer = cache.read_answer(text)
    assert answer is not None
    after = cache.put(answer)
    assert after.spec == raw["spec"]
    assert after.defect == ""


def test_a_changed_spec_is_parsed_once() -> None:
    """It is read right after its event. Only the last large one is kept until then."""
    cache = make_cache()
    raw = make_stack(version=2, generation=2)
    stack = cache.put(raw)
    assert stack.with_parsed_spec().spec["parameters"] is raw["spec"]["parameters"]
    again = stack.with_parsed_spec().spec
    assert again == raw["spec"]
    assert again["parameters"] is not raw["spec"]["parameters"]

    one = cache.put(make_stack(version=3, generation=3))
    cache.put(make_stack(version=3, generation=2, uid="other"))
    assert one.arrived_spec is not None
    assert one.arrived_spec.spec is None
    assert one.with_parsed_spec().spec == raw["spec"]


def test_an_overtaken_answer_keeps_its_own_spec() -> None:
    """The next change of the spec may arrive while the answer to a write is read."""
    cache = make_cache()
    answer = cache.read_answer(orjson.dumps(make_stack(version=2)))
    newer = make_stack(version=3, generation=2)
    newer["spec"]["parameters"] = {"items": LARGE[:1_500]}
    cache.put(newer)
    assert answer is not None
    assert cache.put(answer).with_parsed_spec().spec == make_stack(version=2)["spec"]
    assert cache.parse({**answer}).arrived_spec is None
