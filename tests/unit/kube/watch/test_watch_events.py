"""What the beginning of an event says, without parsing it: exactly what the whole says, or nothing."""

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
    """As the API server writes its own types."""
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
    """No text and no map of a user passes for the metadata."""
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
    """Bookmarks, custom resources, and numbers that are none."""
    assert watch_events.find_identity(orjson.dumps(event)) is None
