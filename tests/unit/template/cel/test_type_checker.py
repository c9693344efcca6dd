"""Expressions are checked against the schemas of kinds, and unknown fields are not rejected."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.template.cel import cel_environment, expressions, type_checker
from hearth.template.schema import shapes
from hearth.template.schema.shapes import Shape, Type
from support.units.templates.typed_kinds import TypedKinds

KINDS = TypedKinds()


def shape_of(api_version: str, kind: str) -> Shape:
    """The shape of that kind's objects."""
    return shapes.find_shape(KINDS, KINDS.find(api_version, kind))


@pytest.fixture
def scope() -> type_checker.TypeScope:
    """A Deployment, a ConfigMap, a custom kind, and something unknown."""
    return type_checker.TypeScope(
        {
            "web": shape_of("apps/v1", "Deployment"),
            "config": shape_of("v1", "ConfigMap"),
            "svc": shape_of("v1", "Service"),
            "widget": shape_of("example.com/v1", "Widget"),
            "other": shapes.OPEN,
        }
    )


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (
            "web.status.readyReplcas",
            12,
            "there is no field 'readyReplcas' in DeploymentStatus; did you mean 'readyReplicas'?",
        ),
        ("1 + web.sttus.x", 9, "there is no field 'sttus' in Deployment; did you mean 'status'?"),
        (
            "web.status.?readyReplcas",
            13,
            "there is no field 'readyReplcas' in DeploymentStatus; did you mean 'readyReplicas'?",
        ),
        (
            "has(web.status.zz)",
            4,
            "there is no field 'zz' in DeploymentStatus; it has conditions, phase and readyReplicas",
        ),
        (
            "web.status.conditions.exists(c, c.statu == 'x')",
            35,
            "there is no field 'statu' in DeploymentCondition; did you mean 'status'?",
        ),
        (
            "web.spec.template.spec.containers[0].imag",
            38,
            "there is no field 'imag' in Container; did you mean 'image'?",
        ),
        (
            "web.metadata.name + 1",
            19,
            "'+' cannot be applied to (string, int); convert with string(), int() or double()",
        ),
        ("web.spec.replicas == null", 19, "'==' cannot be applied to (int, null_type); test with has()"),
        ("widget.spec.tree.children[0].nam", 30, "there is no field 'nam' in Tree; did you mean 'name'?"),
        ("widget.spec.parts['x'].sze", 24, "there is no field 'sze' in Widget.spec.parts[]; did you mean 'size'?"),
        ("web['spec']", 4, "'[ ]' cannot be applied to (Deployment, string); name fields after a dot"),
        ("nothing(web)", 8, "there is no function or name 'nothing'; docs/language.md lists all functions"),
        ("size(web.spec.replicas)", 5, "size() cannot be applied to (int); convert with string(), int() or double()"),
    ],
)
def test_mistakes(scope: type_checker.TypeScope, text: str, column: int, message: str) -> None:
    faults = scope.check(expressions.parse(text)).faults
    assert [(fault.line, fault.column, fault.message) for fault in faults] == [(1, column, message)]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("web.status.readyReplicas >= 1", "BOOL"),
        ("web.spec.replicas", "INT"),
        ("web.metadata.labels['a/b']", "STRING"),
        ("config.data.anything", "STRING"),
        ("web.spec.strategy.maxSurge", "DYN"),
        ("web.spec.template.spec.containers[0].resources.limits['cpu']", "DYN"),
        ("widget.spec.size", "DYN"),
        ("widget.spec.free.a.b.c", "DYN"),
        ("widget.spec.maybe == null", "BOOL"),
        ("widget.spec.ratio", "DYN"),
        ("widget.spec.matrix[0][0]", "DYN"),
        ("widget.spec.foo_bar.x + widget.spec.fooBar.y", "STRING"),
        ("widget.metadata.name", "DYN"),
        ("other.what.ever[0]", "DYN"),
        ("svc.status.loadBalancer.ingress[0].ip", "STRING"),
        ("params.x", "DYN"),
        ("web.?spec.?replicas", "INT"),
        ("quantity('1Gi')", "kubernetes.Quantity"),
        ("true ? 'a' : null", "DYN"),
    ],
)
def test_results(scope: type_checker.TypeScope, text: str, result: str) -> None:
    """Open types, and types that messages cannot have, are dynamic."""
    judgement = scope.check(expressions.parse(text))
    assert (judgement.faults, judgement.result) == ((), result)


def test_optionals_are_known_as_such(scope: type_checker.TypeScope) -> None:
    assert scope.check(expressions.parse("web.?spec.?replicas")).is_optional
    assert not scope.check(expressions.parse("web.?spec.?replicas.orValue(1)")).is_optional


def test_the_same_text_over_the_same_types_is_judged_once(scope: type_checker.TypeScope) -> None:
    parsed = expressions.parse("web.spec.replicas + 1")
    smaller = type_checker.TypeScope({"web": shape_of("apps/v1", "Deployment")})
    assert scope.check(parsed) is smaller.check(parsed)
    assert scope.check(parsed) is not type_checker.TypeScope({"web": shapes.OPEN}).check(parsed)


@pytest.mark.parametrize("name", sorted(cel_environment.TYPE_NAMES))
def test_a_name_of_a_type_spoils_no_expression(name: str) -> None:
    text = f"'{name}' != ''"
    assert type_checker.TypeScope({name: shapes.OPEN}).check(expressions.parse(text)).faults == ()
    assert type_checker.TypeScope({"a": shapes.OPEN}).check(expressions.parse(text)).faults == ()


def test_what_an_environment_refuses_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = expressions.parse("'no' != 'environment'")
    monkeypatch.setattr(cel_environment, "TYPE_NAMES", frozenset())
    assert type_checker.TypeScope({"string": shapes.OPEN, "b": shapes.OPEN}).check(parsed).faults != ()
    assert type_checker.TypeScope({"a": shapes.OPEN}).check(parsed).faults == ()


def test_a_scope_keeps_its_messages_when_a_new_store_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_checker, "MESSAGES_KEPT", 0)
    first, second = (
        type_checker.TypeScope({"x": shapes.make_closed({field: {"type": "string"}}, name="Thing")})
        for field in ("before", "after")
    )
    assert first.types == second.types
    assert first.check(expressions.parse("x.before")).faults == ()
    assert second.check(expressions.parse("x.after")).faults == ()


def test_all_mistakes_of_an_expression_are_found(scope: type_checker.TypeScope) -> None:
    judgement = scope.check(expressions.parse("web.aa.bb + config.cc"))
    assert [fault.message for fault in judgement.faults] == [
        "there is no field 'aa' in Deployment; it has apiVersion, kind, metadata, spec and status",
        "there is no field 'cc' in ConfigMap; it has apiVersion, data, immutable, kind and metadata",
    ]


@pytest.mark.parametrize(
    ("result", "wanted", "expected"),
    [
        ("INT", Type.INTEGER, True),
        ("INT", Type.STRING, False),
        ("DOUBLE", Type.INTEGER, True),
        ("STRING", Type.INTEGER, False),
        ("BYTES", Type.STRING, True),
        ("kubernetes.Quantity", Type.STRING, True),
        ("LIST<DYN>", Type.ARRAY, True),
        ("LIST<DYN>", Type.OBJECT, False),
        ("MAP<STRING, DYN>", Type.OBJECT, True),
        ("hearth_types_0.Deployment", Type.MAP, True),
        ("hearth_types_0.Deployment", Type.STRING, False),
        ("DYN", Type.INTEGER, True),
        ("NULL", Type.INTEGER, True),
        ("BOOL", Type.OPEN, True),
    ],
)
def test_what_fits_where(result: str, wanted: Type, expected: bool) -> None:
    others: dict[Type, dict[str, Any]] = {
        Type.OPEN: {},
        Type.MAP: {"type": "object"},
        Type.OBJECT: {"properties": {"a": {}}},
    }
    shape = shapes.make_shape(others.get(wanted, {"type": wanted.value}), find=lambda _: None, memory={}, name="x")
    assert (shape.type, type_checker.fits(result, shape)) == (wanted, expected)


def test_without_schemas_everything_is_open() -> None:
    bare = TypedKinds(has_schemas=False)
    assert shapes.find_shape(bare, bare.find("apps/v1", "Deployment")) is shapes.OPEN
    assert shapes.find_shape(KINDS, None) is shapes.OPEN


def test_a_shape_lasts_as_long_as_its_schema() -> None:
    kinds = TypedKinds(has_schemas=False)
    deployment = kinds.find("apps/v1", "Deployment")
    assert shapes.find_shape(kinds, deployment) is shapes.OPEN
    kinds.has_schemas = True
    first = shapes.find_shape(kinds, deployment)
    assert first is not shapes.OPEN
    kinds.generation += 1
    assert shapes.find_shape(kinds, deployment) is first
