"""Fields as the API server names them: read, found in a manifest, and left out of it."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import field_paths
from hearth.model.field_paths import ElementPath, ListItem, PathPattern

MANIFEST: dict[str, Any] = {
    "metadata": {"annotations": {"example.com/owner": "me"}},
    "spec": {"replicas": 2, "containers": [{"name": "web", "image": "a"}, {"name": "log", "ports": [{"port": 80}]}]},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spec.replicas", ("spec", "replicas")),
        ("metadata.annotations[example.com/owner]", ("metadata", "annotations", "example.com/owner")),
        ('spec.containers[name="web"].image', ("spec", "containers", ListItem((("name", "web"),)), "image")),
        ("spec.containers[name=web].image", ("spec", "containers", ListItem((("name", "web"),)), "image")),
        ('p[port=80,protocol="UDP"]', ("p", ListItem((("port", "80"), ("protocol", "UDP"))))),
        (r'p[name="a]\"b"]', ("p", ListItem((("name", 'a]"b'),)))),
    ],
)
def test_what_messages_say_can_be_read(text: str, expected: PathPattern) -> None:
    assert field_paths.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", ".", "spec.", ".spec", "spec..a", "[a]", "a[", "a[]", "a]b", "a[x=]", 'a[x="]', "a[b]c"]
)
def test_what_is_no_path_is_none(text: str) -> None:
    assert field_paths.parse(text) is None


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("spec.replicas", ("spec", "replicas"), True),
        ("spec", ("spec", "replicas"), True),
        ("spec.replicas", ("spec",), False),
        ("spec.containers[name=web]", ("spec", "containers", 0, "image"), True),
        ("spec.containers[name=web]", ("spec", "containers", 1), False),
        ("spec.containers[name=log].ports[port=80]", ("spec", "containers", 1, "ports", 0), True),
    ],
)
def test_a_pattern_covers_what_lies_at_and_below_it(text: str, place: ElementPath, expected: bool) -> None:
    pattern = field_paths.parse(text)
    assert pattern is not None
    assert field_paths.covers(pattern, place, MANIFEST) is expected


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([], MANIFEST["spec"]),
        ([("replicas",)], {"containers": MANIFEST["spec"]["containers"]}),
        ([("containers", 0, "image"), ("containers", 1)], {"replicas": 2, "containers": [{"name": "web"}]}),
        ([("containers", 0), ("containers", 1)], {"replicas": 2}),
        ([("containers", 1, "ports", 0, "port"), ("replicas",)], {"containers": [{"name": "web", "image": "a"}, {"name": "log"}]}),
    ],
    ids=["nothing", "a field", "in lists", "a whole list", "what held nothing else"],
)  # fmt: skip
def test_fields_are_left_out(places: list[ElementPath], expected: Any) -> None:
    before = repr(MANIFEST)
    assert field_paths.without(MANIFEST["spec"], places) == expected
    assert repr(MANIFEST) == before
