"""Reading the start of an event without parsing it: the same result as a full parse, or nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.kube.watch import watch_events
from hearth.model.child import Object

TEXT = st.text(max_size=12) | st.sampled_from(['"resourceVersion":"9"', '","uid":"b","resourceVersion":"9"', "{", "\\"])
VERSION = st.integers(min_value=1, max_value=2**63 - 1).map(str)


def make_event(event_type: str = "MODIFIED", **metadata: Any) -> Object:
    """As the API server writes one of its own types."""
    return {
        "type": event_type,
        "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"resourceVersion": "9"}},
    }


def test_the_state_of_an_object_stands_at_the_beginning() -> None:
    event = make_event(name="a", namespace="n", uid="u", resourceVersion="12", labels={"uid": "v"})
    assert watch_events.find_identity(orjson.dumps(event)) == (b"MODIFIED", "u", 12)


@given(
    event_type=st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]),
    first=st.dictionaries(st.sampled_from(["kind", "apiVersion", "data"]) | TEXT, TEXT | st.dictionaries(TEXT, TEXT)),
    metadata=st.lists(
        st.tuples(st.sampled_from(["name", "namespace", "uid", "labels"]), TEXT | st.dictionaries(TEXT, TEXT))
    ),
    version=VERSION,
)
def test_it_says_what_the_whole_says_or_nothing(
    event_type: str, first: Object, metadata: list[tuple[str, Any]], version: str
) -> None:
    raw = {**first, "metadata": {**dict(metadata), "resourceVersion": version}}
    found = watch_events.find_identity(orjson.dumps({"type": event_type, "object": raw}))
    assert found in (None, (event_type.encode(), raw["metadata"].get("uid"), int(version)))


@pytest.mark.parametrize(
    "event",
    [
        make_event("BOOKMARK", name="a", uid="u", resourceVersion="12"),
        make_event(name="a", uid="u", resourceVersion="9" * 4301),
        make_event(name="a", uid="u", resourceVersion="012"),
        make_event(name="a", labels={}, uid="u", resourceVersion="12"),
        {"type": "MODIFIED", "object": {"aaa": {}, **make_event(uid="u", resourceVersion="12")["object"]}},
    ],
)
def test_whatever_is_out_of_the_ordinary_is_parsed(event: Object) -> None:
    assert watch_events.find_identity(orjson.dumps(event)) is None


def make_custom(spec: object, **metadata: Any) -> bytes:
    """An event as the API server writes a custom resource, with its fields in the order of the alphabet."""
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z", "name": "a", "namespace": "n", **metadata}
    raw = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": metadata, "spec": spec, "status": {}}
    return (
        orjson.dumps({"type": "MODIFIED", "object": raw}, option=orjson.OPT_SORT_KEYS)
        .replace(b'{"object":', b'{"type":"MODIFIED","object":', 1)
        .replace(b',"type":"MODIFIED"}', b"}")
    )


FORGED: Object = {"metadata": {"resourceVersion": "9", "uid": "b"}, "spec": {}}


def test_the_state_of_a_custom_resource_stands_at_the_end_of_its_metadata() -> None:
    maps = {"annotations": {"resourceVersion": "9", "uid": "b"}, "labels": {"resourceVersion": "9", "uid": "b"}}
    line = make_custom({"template": FORGED}, **maps, uid="u", resourceVersion="12")
    assert orjson.loads(line)["object"]["metadata"]["uid"] == "u"
    assert watch_events.find_identity(line) == (b"MODIFIED", "u", 12)


@given(
    maps=st.fixed_dictionaries(
        {},
        optional={
            name: st.dictionaries(st.sampled_from(["resourceVersion", "uid", "spec"]) | TEXT, TEXT)
            for name in ("annotations", "labels")
        },
    ),
    owners=st.lists(st.fixed_dictionaries({"name": TEXT, "uid": TEXT}), max_size=2),
    managers=st.lists(st.fixed_dictionaries({"fieldsV1": st.just({"f:resourceVersion": {}}), "manager": TEXT})),
    spec=st.dictionaries(TEXT, TEXT | st.just(FORGED)),
    version=VERSION,
)
def test_no_text_and_no_map_passes_for_the_end_of_the_metadata(
    maps: Object, owners: list[Object], managers: list[Object], spec: Object, version: str
) -> None:
    line = make_custom(spec, **maps, ownerReferences=owners, managedFields=managers, uid="u", resourceVersion=version)
    assert watch_events.find_identity(line) == (b"MODIFIED", "u", int(version))


def test_metadata_without_end_is_not_searched_for_long() -> None:
    line = make_custom(FORGED, annotations={"a": "x" * watch_events.METADATA_BYTES}, uid="u", resourceVersion="12")
    assert watch_events.find_identity(line) is None
