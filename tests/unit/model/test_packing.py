"""Objects stored as JSON take the memory of their text and are restored unchanged; compressed data is read within
limits.
"""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model import child, child_fields, names, packing
from hearth.model.child import Object
from hearth.model.kinds import Kind

# ---------------------------------------------------------------- JSON as its text

KEPT = 50


def test_packed_is_what_orjson_writes() -> None:
    value = {"a": [1, None, "ü"], "b": {}}
    assert packing.pack(value) == orjson.dumps(value)


def test_what_is_packed_takes_no_more_than_its_text() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [packing.pack({"number": number}) for number in range(KEPT)]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert taken / len(kept) < 500


def test_a_text_of_several_parts_is_one_text() -> None:
    assert packing.inflate(gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two"), limit=7) == b"one two"


@pytest.mark.parametrize(
    "compressed",
    [
        pytest.param(gzip.compress(b"12345") + gzip.compress(b"678"), id="longer together than the limit"),
        pytest.param(gzip.compress(b"1234567") + gzip.compress(b"8"), id="longer, with the limit reached before"),
        pytest.param(gzip.compress(b"1") + b"2", id="not all of it gzip"),
        pytest.param(gzip.compress(b"12345") + gzip.compress(b"67")[:-3], id="truncated in a later part"),
        pytest.param(gzip.compress(b"") * (packing.GZIP_PARTS + 1), id="too many parts"),
    ],
)
def test_no_part_passes_the_limits(compressed: bytes) -> None:
    with pytest.raises((ValueError, zlib.error)):
        packing.inflate(compressed, limit=7)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b'{"a": [1, 2], "b": {}}', 5, id="maps and lists"),
        pytest.param(rb'["a,b[{", "\",", "\\", 1]', 4, id="texts with quotes"),
        pytest.param(b'[1, "a,b,c', 2, id="a text that is cut off"),
        pytest.param(b'[1, "a,b,c\\', 2, id="a text that is cut off in an escape"),
        pytest.param(b"[1, \\ 2, 3]", 3, id="a backslash outside"),
    ],
)
def test_values_are_counted_outside_of_texts(raw: bytes, expected: int) -> None:
    assert not packing.has_more_values(raw, expected)
    assert expected == 0 or packing.has_more_values(raw, expected - 1)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"," * 1_000 + b'"' + b'\\"' * 1_000_000, id="cut off"),
        pytest.param(b"," * 1_000 + b'"",' * 1_000_000, id="many"),
        pytest.param(b"," * 1_000 + b"\\" * 1_000_000, id="backslashes"),
    ],
)
def test_hostile_texts_take_no_longer(raw: bytes) -> None:
    begin = time.perf_counter()
    packing.has_more_values(raw, 999)
    assert time.perf_counter() - begin < 5


# ---------------------------------------------------------------- fields of objects

KIND = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
PATHS = (("spec", "replicas"), ("status",))
IDENTITY = names.identity(stack_uid="s", group="apps", kind="Deployment", namespace="a", name="web")
OURS = (names.ANNOTATION_IDENTITY, names.ANNOTATION_HASH, names.ANNOTATION_SIGNATURE, names.ANNOTATION_REQUIRES)
TEXT = st.sampled_from(["", "s", "0", IDENTITY]) | st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def make(metadata: Object, **fields: Any) -> Object:
    """An object with that metadata."""
    identity = {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "7"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**identity, **metadata}, **fields}


@given(
    labels=st.dictionaries(st.sampled_from([names.LABEL_STACK_UID, "app"]), TEXT),
    annotations=st.dictionaries(st.sampled_from([*OURS, "note"]), TEXT),
    spec=st.dictionaries(st.sampled_from(["replicas", "other"]), JSON),
    status=JSON,
)
def test_a_child_has_the_fields_of_its_object(labels: Object, annotations: Object, spec: Object, status: Any) -> None:
    raw = make({"labels": labels, "annotations": annotations, "generation": 3}, spec=spec, status=status)
    made = child.parse_child(raw, kind=KIND, paths=PATHS)
    assert made.fields == child_fields.project_fields(raw, kind=KIND, paths=PATHS)
    assert list(made.fields) == list(child_fields.project_fields(raw, kind=KIND, paths=PATHS))


@pytest.mark.parametrize("namespace", ["", "a"])
def test_an_object_without_labels_and_annotations_has_none(namespace: str) -> None:
    raw = make({})
    if not namespace:
        del raw["metadata"]["namespace"]
    made = child.parse_child(raw, kind=KIND, paths=())
    identity = {"name": "web", "uid": "u"} | ({"namespace": namespace} if namespace else {})
    assert made.fields == {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": identity}


def test_texts_of_the_child_are_not_kept_twice() -> None:
    annotations = {names.ANNOTATION_IDENTITY: IDENTITY, names.ANNOTATION_HASH: "h" * 40, "note": "n"}
    raw = make({"labels": {names.LABEL_STACK_UID: "s"}, "annotations": annotations})
    made = child.parse_child(raw, kind=KIND, paths=())
    assert b"web" not in made.packed_fields
    assert b"hhhh" not in made.packed_fields
    assert made.fields["metadata"]["annotations"] == annotations


def test_fields_read_again_are_not_parsed_again() -> None:
    made = [child.parse_child(make({"uid": str(number)}), kind=KIND, paths=()) for number in range(3)]
    # Leftovers of other objects may be dropped during the first reads.
    first = [[each.fields for each in made] for _ in range(2)][-1]
    assert all(each.fields is found for each, found in zip(made, first, strict=True))


def test_of_many_objects_the_fields_read_last_are_kept() -> None:
    made = [child.parse_child(make({"uid": str(number)}), kind=KIND, paths=()) for number in range(600)]
    first = made[0].fields
    assert all(each.fields for each in made)
    assert made[0].fields is not first
    large = child.parse_child(make({}, status="x" * child_fields.RECENT_BYTES), kind=KIND, paths=PATHS)
    fields = large.fields
    assert made[0].fields
    assert large.fields is not fields
    assert large.fields == large.fields
