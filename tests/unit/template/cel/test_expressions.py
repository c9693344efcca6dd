"""Expressions return a value, wait for missing data, or report why they cannot be evaluated."""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any

import pytest

from hearth.template.blueprint import EvaluationError, Known, Outcome, Pending
from hearth.template.cel import cel_environment, cel_values, expressions


def evaluate(text: str, **values: Any) -> Outcome:
    """The value of `text`."""
    return expressions.bind(expressions.parse(text), path="here", constants={}).evaluate(values)


@pytest.mark.parametrize(
    ("text", "web", "expected"),
    [
        ("web.a >= 1", {"a": 1}, True),
        ("web.a", {"a": {"b": [1, None]}}, {"b": [1]}),
        ("web.a", {"a": None}, None),
        ("web.a == 2", {"a": 2.0}, True),
        ("has(web.a.b.c)", {}, False),
        ("has(web.a.b.c)", {"a": {"b": {"c": 0}}}, True),
        ("has(web.a['x'].c)", {"a": {}}, False),
        ("has(web.a[0].c)", {"a": []}, False),
        ("has(web.a.b) ? web.a.b : 'none'", {}, "none"),
        ("has(web.a.b) && web.a.b == 1", {}, False),
        ("web.?a.?b.orValue(7)", {}, 7),
        ("web.items.exists(i, has(i.x.y))", {"items": [{}, {"x": {"y": 1}}]}, True),
        ("web.l.map(x, x * 2)", {"l": [1, 2]}, [2, 4]),
        ("web.s.split(',')", {"s": "a,b"}, ["a", "b"]),
        ("math.greatest(web.a, 3)", {"a": 1}, 3),
        ("base64.encode(bytes(web.s))", {"s": "abc"}, "YWJj"),
        ("string(base64.decode(web.s))", {"s": "YWJj"}, "abc"),
        ("cel.bind(x, web.a, x + x)", {"a": 2}, 4),
        ("quantity(web.m).isGreaterThan(quantity('1Gi'))", {"m": "2048Mi"}, True),
        ("quantity(web.m).add(quantity('1Gi'))", {"m": "1Gi"}, "2Gi"),
        ("quantity(web.m).sub(1).asInteger()", {"m": "1k"}, 999),
        ("isQuantity(web.m)", {"m": "many"}, False),
        ("quantity('1').compareTo(quantity('1000m'))", {}, 0),
        ("web.?a[?1].orValue('')", {"a": ["x"]}, ""),
    ],
)
def test_value(text: str, web: dict[str, Any], expected: Any) -> None:
    assert evaluate(text, web=web) == Known(expected)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        pytest.param("db.status.host", {"db": {"status": {}}}, ("db.status.host",), id="a field"),
        pytest.param("db.status.host", {"db": {}}, ("db.status.host",), id="the way to it"),
        pytest.param("db.status.host", {"db": None}, ("db.status.host",), id="no child"),
        pytest.param("db.status.host", {}, ("db.status.host",), id="not even heard of"),
        pytest.param("db.?status.?host", {"db": None}, ("db.status.host",), id="no child, though read optionally"),
        pytest.param("db.a + web.b", {"db": {}, "web": {}}, ("db.a", "web.b"), id="two"),
        pytest.param("db.a + web.b", {"db": {"a": 1}, "web": {}}, ("web.b",), id="only what is missing"),
        pytest.param("db.status.?host", {"db": {}}, ("db.status",), id="the way to an optional one"),
        pytest.param("db.a[0]", {"db": {"a": []}}, ("db.a[0]",), id="an element"),
        pytest.param("db.a['x/y']", {"db": {"a": {}}}, ("db.a['x/y']",), id="a key"),
        pytest.param(
            "db.l.all(x, x.ok)", {"db": {"l": [{"ok": True}, {}]}}, ("db.l[*].ok",), id="a field of an element"
        ),
        pytest.param("db.a[web.k]", {"db": {"a": {}}, "web": {"k": "x"}}, ("db.a[*]",), id="a computed key"),
        pytest.param("db.a.b", {"db": {"a": None}}, ("db.a.b",), id="something within a null"),
        pytest.param("db.?a.?b", {"db": {"a": None}}, ("db.a.b",), id="something optional within a null"),
    ],
)
def test_waiting(text: str, values: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert evaluate(text, **values) == Pending(missing=expected)


def test_a_branch_that_is_not_taken_needs_nothing() -> None:
    assert evaluate("web.a || db.b", web={"a": True}, db={}) == Known(True)


@pytest.mark.parametrize(
    ("text", "web", "message"),
    [
        ("10 / web.a", {"a": 0}, "`10 / web.a` fails: divide by zero"),
        ("int(web.a)", {"a": "x"}, "`int(web.a)` fails: cannot convert string to int"),
        ("web.a + 1", {"a": "x"}, "`web.a + 1` fails: No matching overloads"),
        ("quantity(web.a)", {"a": "x"}, "'x' is not a quantity"),
        ("[web.?a]", {"a": 1}, "optional within a list"),
        ("1.0 / double(web.a)", {"a": 0}, "not a JSON number"),
        ("type(web.a)", {"a": 0}, "which a manifest cannot contain"),
        ("{web.a: 1}", {"a": 1}, "keys must be strings"),
    ],
)
def test_what_waiting_does_not_mend(text: str, web: dict[str, Any], message: str) -> None:
    outcome = evaluate(text, web=web)
    assert isinstance(outcome, EvaluationError)
    assert outcome.path == "here"
    assert message in outcome.message
    assert "INVALID_ARGUMENT" not in outcome.message


TIME = "timestamp('2020-06-01T10:00:00Z')"


@pytest.mark.parametrize(
    ("zone", "expected"), [("UTC", 10), ("Europe/Paris", 12), ("America/Argentina/Buenos_Aires", 7), ("-02:30", 7)]
)
def test_a_time_zone_is_a_name_or_an_offset(zone: str, expected: int) -> None:
    assert evaluate(f"{TIME}.getHours('{zone}')") == Known(expected)


@pytest.mark.parametrize(
    "zone",
    [
        pytest.param("'/dev/ptmx'", id="device"),
        pytest.param("'../dev/ptmx'", id="relative path"),
        pytest.param("'file:dev/ptmx'", id="file"),
        pytest.param("'" + "a" * 100 + "'", id="long name"),
        pytest.param("web.zone", id="value of an object"),
        pytest.param("'/dev/' + 'ptmx'", id="computed"),
    ],
)
def test_nothing_else_is_a_time_zone(zone: str) -> None:
    with pytest.raises(cel_environment.CelCompileError, match="needs a time zone that is written as text"):
        expressions.parse(f"[1].map(i, {TIME}.getHours({zone}))")


def test_the_same_text_is_compiled_once() -> None:
    assert expressions.parse("web.once") is expressions.parse("web.once")


def test_values_are_fresh() -> None:
    given = {"a": {"b": [1]}}
    outcome = evaluate("web.a", web=given)
    assert isinstance(outcome, Known)
    outcome.value["b"].append(2)
    assert given == {"a": {"b": [1]}}


def test_an_absent_resource_has_nothing() -> None:
    parsed = expressions.parse_optional("db.?status.?host")
    bound = expressions.bind(parsed, path="here", constants={}, absent=["db"])
    assert (bound.names, bound.evaluate({})) == ((), Known(None))


def test_a_great_many_nulls_do_no_harm() -> None:
    program = (
        "from hearth.template.cel import expressions as e\n"
        "bound = e.bind(e.parse('[null, {\"a\": null}]'), path='', constants={})\n"
        "for _ in range(50_000): bound.evaluate({})\n"
        "print('alive')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("alive", 0)


# ---------------------------------------------------------------- results as JSON in one form


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(True, True, id="truth"),
        pytest.param(3, 3, id="integer"),
        pytest.param(2.0, 2, id="whole double"),
        pytest.param(2.5, 2.5, id="double"),
        pytest.param(2.0**60, 2.0**60, id="double beyond exact integers"),
        pytest.param("x", "x", id="text"),
        pytest.param(None, None, id="null"),
        pytest.param({"a": None, "b": [1, None, 2.0]}, {"b": [1, 2]}, id="nulls within are left out"),
        pytest.param(bytearray(b"abc"), "YWJj", id="bytes in base 64"),
        pytest.param(datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC), "2024-05-01T12:00:00Z", id="time"),
        pytest.param(datetime.timedelta(hours=1), "3600s", id="duration"),
        pytest.param(datetime.timedelta(milliseconds=-1500), "-1.5s", id="negative duration"),
    ],
)
def test_converting(value: Any, expected: Any) -> None:
    """The type matters too: 2 is not 2.0 to an API server, nor true."""
    converted = cel_values.convert(value)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(float("nan"), "not a JSON number", id="not a number"),
        pytest.param({1: "a"}, "keys must be strings", id="a key that is no text"),
        pytest.param(object(), "which a manifest cannot contain", id="a value of another world"),
    ],
)
def test_what_json_cannot_hold_is_refused(value: Any, message: str) -> None:
    with pytest.raises(cel_values.UnrepresentableValue, match=message):
        cel_values.convert(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x", "x"), (True, "true"), (3, "3"), (2.5, "2.5"), ([1, "a"], '[1,"a"]'), ({"b": 1, "a": {}}, '{"a":{},"b":1}')],
    ids=["text", "truth", "integer", "double", "list", "map with its keys in order"],
)
def test_text_of_a_value(value: Any, expected: str) -> None:
    assert cel_values.write_text(value) == expected
