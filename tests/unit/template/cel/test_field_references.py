"""The data that an expression reads is reported exactly: names, paths, and optional parts."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.template.cel import cel_environment, expressions, field_references
from hearth.template.cel.field_references import EACH


def read(text: str) -> dict[str, bool]:
    """Whether each path, as written, is required."""
    return {str(found): found.is_required for found in expressions.parse(text).reads.reads}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2", {}),
        ("web.status.ready", {"web.status.ready": True}),
        ("web.metadata.labels['app/name']", {"web.metadata.labels['app/name']": True}),
        ("web.spec.containers[0].image", {"web.spec.containers[0].image": True}),
        ("web.spec.containers[params.at].image", {"params.at": True, "web.spec.containers[*].image": True}),
        ("web", {"web": True}),
        ("has(web.status.a.b)", {"web.status.a.b": False}),
        ("web.status.?a.b", {"web.status.a.b": False}),
        ("web.status.a.?b", {"web.status.a.b": False}),
        ("web.a[?0].b", {"web.a[0].b": False}),
        ("web.?a.orValue(db.b)", {"web.a": False, "db.b": True}),
        ("has(web.a) ? web.a : db.b", {"web.a": True, "db.b": True}),
        ("web.items.all(i, i.z == a.b.e)", {"web.items": True, "web.items[*].z": True, "a.b.e": True}),
        ("web.items.exists(web, web.x)", {"web.items": True, "web.items[*].x": True}),
        ("web.items.filter(i, has(i.x)).size()", {"web.items": True, "web.items[*]": True, "web.items[*].x": False}),
        ("web.items.map(i, i.a, i.b)", {"web.items": True, "web.items[*].a": True, "web.items[*].b": True}),
        (
            "web.a.all(i, i.b.all(j, j.c == i.d))",
            {"web.a": True, "web.a[*].b": True, "web.a[*].b[*].c": True, "web.a[*].d": True},
        ),
        ("cel.bind(s, web.status, s.a + s.b)", {"web.status.a": True, "web.status.b": True}),
        ("web.?a.optMap(v, v + db.x).orValue(1)", {"web.a": False, "db.x": True}),
        ("[web.a, {'k': db.b}]", {"web.a": True, "db.b": True}),
        ("{?'k': web.?a}", {"web.a": False}),
        ("size(web.a) > 0 && 'x' in db.b", {"web.a": True, "db.b": True}),
        ("math.greatest(web.a, 2) + int('1')", {"web.a": True}),
        ("base64.encode(bytes(web.a))", {"web.a": True}),
        ("type(web.a) == int", {"web.a": True}),
        ("web.a.b.size()", {"web.a.b": True}),
    ],
)
def test_paths(text: str, expected: dict[str, bool]) -> None:
    assert read(text) == expected


def test_fields_whose_macro_says_so_are_distinguished() -> None:
    parsed = expressions.parse("has(web.a.b) && web.a.b == 1")
    assert [str(found) for found in parsed.required] == ["web.a.b"]


def test_the_way_to_an_optional_part_is_required_but_not_read() -> None:
    parsed = expressions.parse("web.status.?x")
    assert [str(found) for found in parsed.required] == ["web.status"]
    assert {found.path for found in parsed.reads.reads} == {("status", "x")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("web.status.conditions.exists(c, c.type == 'x')", {("status", "conditions")}, id="elements"),
        pytest.param("web.a[0].b", {("a",)}, id="an index"),
        pytest.param("web.a['k'].b", {("a", "k", "b")}, id="a constant key"),
        pytest.param("web.a[web.k]", {("a",), ("k",)}, id="a computed key"),
        pytest.param("web.a.b + web.a.c", {("a", "b"), ("a", "c")}, id="two"),
        pytest.param("size(web.a) + web.a.b", {("a",)}, id="the shorter path holds the longer"),
    ],
)
def test_what_is_kept_of_an_object(text: str, expected: set[tuple[str, ...]]) -> None:
    assert expressions.bind(expressions.parse(text), path="p", constants={}).reads == {"web": expected}


def test_a_whole_resource_is_every_field_that_its_kind_has() -> None:
    whole = expressions.parse("[web, web.a.b]")
    known = expressions.bind(whole, path="p", constants={}, fields={"web": ["spec", "data"]})
    assert known.reads == {"web": {("spec",), ("data",)}}
    unknown = expressions.bind(whole, path="p", constants={})
    assert ("status",) in unknown.reads["web"]


@pytest.mark.parametrize(
    ("value", "steps", "expected"),
    [
        ({"a": {"b": 1}}, ("a", "b"), False),
        ({"a": {}}, ("a", "b"), True),
        ({"a": None}, ("a",), False),
        ({"a": None}, ("a", "b"), True),
        ({"a": "text"}, ("a", "b"), True),
        ({"a": [{"b": 1}]}, ("a", 0, "b"), False),
        ({"a": []}, ("a", 0), True),
        ({"a": [{"b": 1}, {}]}, ("a", EACH, "b"), True),
        ({"a": []}, ("a", EACH, "b"), False),
        ({"a": {"k": 1}}, ("a", EACH), False),
    ],
)
def test_missing(value: Any, steps: Any, expected: bool) -> None:
    assert field_references.is_missing(value, steps) is expected


def test_a_name_is_known_by_where_it_stands() -> None:
    assert expressions.find_offset(expressions.parse("1 + 'é' + db.x + db.y"), "db") == 10


def test_a_syntax_error_tells_its_place() -> None:
    with pytest.raises(cel_environment.CelCompileError) as caught:
        expressions.parse("web.x ==\n  )")
    assert [(fault.line, fault.column) for fault in caught.value.faults] == [(2, 3)]
