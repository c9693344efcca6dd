"""Recovering parts of an object that cannot be read completely, and naming it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.kube.client import salvage
from hearth.kube.client.salvage import Omission
from hearth.model import limits
from hearth.model.child import Object

METADATA = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}


def nest(levels: int, *, in_maps: bool = False) -> bytes:
    """A value of that many levels, as JSON."""
    return b'{"a":' * levels + b"1" + b"}" * levels if in_maps else b"[" * levels + b"]" * levels


def write(**members: bytes) -> bytes:
    """An object with these members in addition to its metadata."""
    parts = {"apiVersion": b'"v1"', "kind": b'"Stack"', "metadata": orjson.dumps(METADATA), **members}
    return b"{" + b",".join(b'"%b":%b' % (key.encode(), value) for key, value in parts.items()) + b"}"


def omissions(raw: Object) -> list[tuple[str, str]]:
    """The paths of omitted fields, with the reason of the first one."""
    found = salvage.find_omission(raw)
    return [(path, found.reason) for path in found.paths] if found is not None else []


@pytest.mark.parametrize("in_maps", [False, True])
def test_a_member_that_is_too_deep_is_left_out_and_named(*, in_maps: bool) -> None:
    spec = b'{"paused":true,"parameters":' + nest(1_100, in_maps=in_maps) + b',"timeout":"5m"}'
    found = salvage.read_answer(write(spec=spec, status=b'{"phase":"x"}'))
    assert found["metadata"] == METADATA
    assert found["spec"] == {"paused": True, "timeout": "5m"}
    assert found["status"] == {"phase": "x"}
    assert omissions(found) == [("spec.parameters", "depth")]


def test_deep_metadata_leave_the_name() -> None:
    metadata = orjson.dumps(METADATA)[:-1] + b',"managedFields":[{"fieldsV1":' + nest(1_100, in_maps=True) + b"}]}"
    found = salvage.read_answer(write(metadata=metadata, spec=b"{}"))
    assert found["metadata"] == METADATA
    assert omissions(found) == [("metadata.managedFields", "depth")]


def test_a_number_that_nothing_can_hold_is_left_out() -> None:
    found = salvage.read_answer(write(spec=b'{"a":' + b"9" * 5_000 + b',"b":1}'))
    assert (found["spec"], omissions(found)) == ({"b": 1}, [("spec.a", "malformed")])


def test_brackets_in_text_are_no_levels() -> None:
    text = '[{"' * 2_000 + "\\" + '"'
    found = salvage.read_answer(write(spec=orjson.dumps({"a": text, "b": [[text]]}), x=nest(1_100)))
    assert found["spec"] == {"a": text, "b": [[text]]}
    assert omissions(found) == [("x", "depth")]


def test_what_is_named_like_metadata_elsewhere_is_not_believed() -> None:
    forged = orjson.dumps({"metadata": {"name": "victim", "uid": "v", "resourceVersion": "9"}})
    raw = write(spec=nest(1_100)).replace(b'{"apiVersion"', b'{"a":' + forged + b',"apiVersion"', 1)
    assert salvage.read_answer(raw)["metadata"] == METADATA


def test_one_item_of_a_list_leaves_the_others_whole() -> None:
    items = b"[" + b",".join([write(spec=b'{"a":1}'), write(spec=nest(1_100)), write(spec=b'{"a":2}')]) + b"]"
    found = salvage.read_answer(b'{"kind":"StackList","metadata":{"resourceVersion":"9"},"items":' + items + b"}")
    assert found["metadata"] == {"resourceVersion": "9"}
    assert [item.get("spec") for item in found["items"]] == [{"a": 1}, None, {"a": 2}]
    assert [omissions(item) for item in found["items"]] == [[], [("spec", "depth")], []]


def test_a_line_that_was_cut_gives_what_came_before() -> None:
    line = b'{"type":"ADDED","object":' + write(spec=orjson.dumps({"a": "x" * limits.LINE_HEAD_BYTES}))
    found = salvage.read_event(line[: limits.LINE_HEAD_BYTES])
    assert (found["type"], found["object"]["metadata"]) == ("ADDED", METADATA)
    assert omissions(found["object"]) == [("", "size")]


def test_only_what_can_be_written_again_is_kept() -> None:
    deep = orjson.loads(nest(300))
    raw: Object = {"metadata": METADATA, "spec": {"a": deep, "b": 1}, "x": deep}
    found = salvage.prune(raw)
    assert {key: found[key] for key in ("metadata", "spec")} == {"metadata": METADATA, "spec": {"b": 1}}
    assert omissions(found) == [("spec.a", "depth"), ("x", "depth")]


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(3, id="no map"),
        pytest.param({}, id="empty"),
        pytest.param({**METADATA, "uid": 3}, id="a UID that is a number"),
        pytest.param({**METADATA, "resourceVersion": "9" * 5_000}, id="a version of 5,000 digits"),
        pytest.param({**METADATA, "resourceVersion": "²"}, id="a version that is no number"),
        pytest.param({**METADATA, "namespace": []}, id="a namespace that is a list"),
    ],
)
def test_an_object_without_a_name_is_nothing(metadata: Any) -> None:
    assert salvage.strip({"metadata": metadata}) is None


def test_of_an_object_with_wrong_types_the_well_formed_metadata_are_kept() -> None:
    metadata = {**METADATA, "labels": 3, "annotations": {"a": "b", "c": 3}, "finalizers": ["x", 3], "generation": "1"}
    stripped = salvage.strip({"metadata": metadata, "spec": 3})
    assert stripped is not None
    assert stripped["metadata"] == {**METADATA, "annotations": {"a": "b"}, "finalizers": ["x"]}
    assert omissions(stripped) == [("", "malformed")]


def test_a_value_in_json_is_never_taken_for_an_omission() -> None:
    assert salvage.find_omission({salvage.OMITTED: {"parts": [{"path": "", "reason": "depth"}]}}) is None


def test_a_message_names_what_is_left_out_and_the_limit() -> None:
    said = str(Omission(paths=tuple(f"spec.p{number}" for number in range(5)), reason="depth"))
    limit = f"the limit is {limits.JSON_DEPTH} levels"
    assert said == f"spec.p0 is nested too deeply; {limit}; 4 other parts cannot be read either"


MANY = limits.WIRE_VALUES // 2
"""Empty lists: half as many are allowed."""


def test_a_member_with_too_many_values_is_left_out_and_named() -> None:
    spec = b'{"paused":true,"parameters":[' + b"[]," * 2 * MANY + b'[]],"timeout":"5m"}'
    found = salvage.read_answer(write(spec=spec, status=b'{"phase":"x"}'))
    assert (found["spec"], found["status"]) == ({"paused": True, "timeout": "5m"}, {"phase": "x"})
    assert omissions(found) == [("spec.parameters", "values")]
    assert "spec.parameters has more than 250000 commas and brackets" in str(salvage.find_omission(found))


def test_members_that_have_too_many_values_together_are_left_out() -> None:
    part = b"[" + b"[]," * (MANY // 2) + b"[]]"
    spec = b"{" + b",".join(b'"p%d":%b' % (n, part) for n in range(4)) + b"}"
    found = salvage.read_answer(write(spec=spec, status=b'{"outputs":' + part + b"}"))
    assert (found["spec"].keys(), len(found["status"]["outputs"])) == ({"p0"}, MANY // 2 + 1)
    assert omissions(found) == [("spec", "values")]


def test_texts_with_many_commas_are_read() -> None:
    text = "1," * 3 * MANY
    found = salvage.read_answer(write(data=orjson.dumps({"csv": text}), more=nest(1_100)))
    assert (found["data"], omissions(found)) == ({"csv": text}, [("more", "depth")])


def test_one_item_with_too_many_values_leaves_the_others_whole() -> None:
    large = write(spec=b"[" + b"[]," * 2 * MANY + b"[]]")
    items = b"[" + b",".join([write(spec=b'{"a":1}'), large]) + b"]"
    found = salvage.read_answer(b'{"kind":"StackList","metadata":{"resourceVersion":"9"},"items":' + items + b"}")
    assert [item.get("spec") for item in found["items"]] == [{"a": 1}, None]
    assert omissions(found["items"][1]) == [("spec", "values")]
