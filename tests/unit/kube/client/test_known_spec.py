"""A custom resource whose spec is known is read without it, and is otherwise the same."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.kube.cache import stack_cache
from hearth.model.child import Object

KNOWN = "known"
PADDING = "x" * stack_cache.LARGE
NAMES = st.sampled_from(["spec", "status", "metadata", "a", '"spec":{', ',"status":{"a":1}}', "}", "\\", "ü"])
VALUES = st.recursive(
    NAMES | st.integers(min_value=0, max_value=9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def make(spec: object, *, status: object, **metadata: object) -> Object:
    """A large custom resource with its fields in the order of the API server."""
    plain = {"name": "s", "namespace": "a", "resourceVersion": "7", "uid": "u"}
    found = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": {**metadata, **plain}}
    return {**found, "spec": {"padding": PADDING, "values": spec}, "status": status}


def write(raw: Object) -> bytes:
    """The text of it as in the answer to a request."""
    return orjson.dumps(raw, option=orjson.OPT_APPEND_NEWLINE)


@given(spec=VALUES, status=st.dictionaries(NAMES, VALUES, max_size=3), texts=st.dictionaries(NAMES, NAMES, max_size=3))
def test_the_rest_of_an_object_is_the_same_as_if_all_was_parsed(spec: object, status: Object, texts: Object) -> None:
    """Tenants write what they like into annotations, spec and status: a text that looks like a field is none."""
    raw = make(spec, status=status, annotations=texts)
    found = stack_cache.read(write(raw), lambda metadata: KNOWN if metadata == raw["metadata"] else None)
    if found is not None:
        assert found == {**raw, "spec": KNOWN}
    elif "status" not in repr(status):
        raise AssertionError("an ordinary object must not be parsed as a whole")


@pytest.mark.parametrize("has_status", [True, False])
def test_a_status_within_the_spec_is_none(has_status: bool) -> None:
    """An object without a status is parsed as a whole: its spec must not provide one."""
    raw = make({}, status={"phase": "CreateComplete"})
    raw["spec"]["z"] = {"status": {"phase": "forged"}}
    if not has_status:
        del raw["status"]
    found = stack_cache.read(write(raw), lambda _: KNOWN)
    assert (found["status"] if found is not None else None) == ({"phase": "CreateComplete"} if has_status else None)


def test_what_is_not_certain_is_parsed_as_a_whole() -> None:
    """Unknown specs, small objects, other orders of fields, broken JSON."""
    raw = make({}, status={"phase": "CreateComplete"})
    text = write(raw)
    assert stack_cache.read(text, lambda _: KNOWN) is not None
    assert stack_cache.read(text, lambda _: None) is None
    assert stack_cache.read(write({**raw, "spec": {"a": 1}}), lambda _: KNOWN) is None
    assert stack_cache.read(write({**raw, "zone": {}}), lambda _: KNOWN) is None
    assert stack_cache.read(write(dict(sorted(raw.items(), reverse=True))), lambda _: KNOWN) is None
    assert stack_cache.read(text[:-3], lambda _: KNOWN) is None
