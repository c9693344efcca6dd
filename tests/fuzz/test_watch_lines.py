"""Any bytes as a watch: the caches never raise, and finally equal the server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.kube.cache.child_cache import ChildCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.model import names
from support import virtual_time
from support.ports.silent_ports import DeafListener
from support.units import fuzzing
from support.units.fuzzing import JSON, LONG, QUICK
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import CONFIG_MAP, ScriptedConnection, ServedKinds, Stream

METADATA: dict[str, Any] = {
    "name": "a",
    "namespace": "n",
    "uid": "a",
    "resourceVersion": "7",
    "generation": 1,
    "labels": {names.LABEL_STACK_UID: "s", names.LABEL_RESOURCE: "r"},
    "annotations": {names.ANNOTATION_INCARNATION: "1", names.ANNOTATION_REQUIRES: "b/1"},
    "finalizers": ["x"],
    "managedFields": [{"manager": "hearth:n/s", "operation": "Apply", "fieldsV1": {"f:data": {"f:k": {}}}}],
}
PART = st.sampled_from([None, *METADATA])
TYPES = st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "NEWS"])


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """An event with anything in one of its places, or damaged."""
    metadata = dict(METADATA)
    if (part := draw(PART)) is not None:
        metadata[part] = draw(JSON)
    first = draw(
        st.sampled_from([{}, {"kind": "ConfigMap", "apiVersion": "v1"}, {"apiVersion": "v1", "kind": "ConfigMap"}])
    )
    raw: Any = {**first, "metadata": metadata, "spec": draw(JSON), "status": draw(JSON), "data": draw(JSON)}
    if draw(st.integers(min_value=0, max_value=9)) == 0:
        raw = draw(JSON)
    return draw(fuzzing.damaged(fuzzing.write({"type": draw(TYPES), "object": raw}))) + b"\n"


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Some of them, in pieces."""
    return draw(fuzzing.in_pieces(b"".join(draw(st.lists(lines(), min_size=1, max_size=4)))))


def survive(pieces: list[bytes]) -> None:
    """After all that, a healthy object is known, and nothing happened that was not expected."""
    end = [scripted_watch.added("z", 3, generation=1), scripted_watch.list_end(5)]
    script = [Stream(*end, *pieces).end(), *(Stream(*end) for _ in range(8))]

    async def test() -> None:
        children = ChildCache(
            ScriptedConnection(streams=list(script)), ServedKinds(), DeafListener(), options=scripted_watch.RULES
        )
        children.follow(CONFIG_MAP, [("data",), ("status", "phase")])
        await scripted_watch.elapse(100.0)
        known = {child.name for resource in children.children("s1").values() for child in resource}
        assert "z" in known
        assert not [health.restarts for health in children.health() if health.restarts.get("unexpected")]
        await children.close()

    virtual_time.run(test)


def survive_stacks(pieces: list[bytes]) -> None:
    end = [scripted_watch.added("z", 3, generation=1), scripted_watch.list_end(5)]
    script = [Stream(*end, *pieces).end(), *(Stream(*end) for _ in range(8))]

    async def test() -> None:
        stacks = StackCache(
            ScriptedConnection(streams=list(script)), DeafListener().on_stack, options=scripted_watch.RULES
        )
        stacks.start()
        await scripted_watch.elapse(100.0)
        assert "z" in stacks.stacks()
        assert not [health.restarts for health in stacks.health() if health.restarts.get("unexpected")]
        for uid in stacks.stacks():
            found = stacks.find_stack(uid)
            assert found is not None
            assert isinstance(found.spec, dict)
        await stacks.close()

    virtual_time.run(test)


@pytest.mark.parametrize("check", [survive, survive_stacks])
def test_any_line_is_survived(check: Any) -> None:
    QUICK(given(streams())(check))()


@pytest.mark.soak
@pytest.mark.parametrize("check", [survive, survive_stacks])
def test_any_line_is_survived_for_long(check: Any) -> None:
    settings(LONG)(given(streams())(check))()
