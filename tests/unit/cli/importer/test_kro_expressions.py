"""Expressions of kro in the words of Hearth."""

from __future__ import annotations

import pytest

from hearth.cli.importer import kro_expressions

RENAMED = {"region": "item"}


@pytest.mark.parametrize(
    ("stated", "made"),
    [
        ("${schema.spec.name}", "${params.name}"),
        ("${schema.metadata.name}-${schema.spec.a.b}", "${stack.name}-${params.a.b}"),
        ("${schema.metadata.namespace}", "${stack.namespace}"),
        ("${other.schema.spec}", "${other.schema.spec}"),
        ("${'schema.spec.name' + schema.spec.name}", "${'schema.spec.name' + params.name}"),
        ('${"a\\"schema.spec" + schema.spec.b}', '${"a\\"schema.spec" + params.b}'),
        ("${region + web.region}", "${item + web.region}"),
        ("${schema.spec.list.map(region, region)}", "${params.list.map(item, item)}"),
        ("${schema.spec.on ? 1 : omit()}", "${params.on ? 1 : null}"),
        ("${x ? schema.spec.a : region}", "${x ? params.a : item}"),
        ("${x?schema.spec.a:y}", "${x?params.a:y}"),
        ("${x.?schema . spec}", "${x.?schema . spec}"),
        ("${json.marshal(schema.spec)}", "${toJson(params)}"),
        ('${"%x".format([hash.sha256(json.marshal(config.data))])}', "${sha256(toJson(config.data))}"),
        ("${schema.spec.a.merge(schema.spec.b)}", "${merge(params.a, params.b)}"),
        ("${{'a': 1}.merge({'b': 2}).merge(c)}", "${merge(merge({'a': 1}, {'b': 2}), c)}"),
        ("${a.?b.sort().join(',')}", "${sort(a.?b).join(',')}"),
        ("${x ? f(a)[0].c.sort() : []}", "${x ? sort(f(a)[0].c) : []}"),
        ("${[1, 2].sum() + 1}", "${sum([1, 2]) + 1}"),
        ("${a.map(x, x.merge(y))}", "${a.map(x, merge(x, y))}"),
        ("echo $HOME", "echo $HOME"),
    ],
)
def test_an_expression(stated: str, made: str) -> None:
    """Texts in quotes, fields of other values and names in other places stay."""
    assert kro_expressions.translate(stated, RENAMED) == made


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        ({"a": ["${web.spec.x}", "${db.?spec.x + cache.spec.?x}"]}, {"web"}),
        ("${has(web.spec) ? schema.web : 'db'}", {"web"}),
        ("${web}", {"web"}),
        ("web", set()),
    ],
)
def test_what_an_expression_cannot_do_without(value: object, reads: set[str]) -> None:
    """A field that may be missing is not needed, nor is what it is read from."""
    assert kro_expressions.find_reads(value, {"web", "db", "cache"}) == reads


def test_what_may_be_missing_is_read_as_such() -> None:
    change = kro_expressions.make_optional({"web"})
    assert change("web.spec.?x.orValue(db.spec.?x)") == "web.?spec.?x.orValue(db.spec.?x)"
    assert change("a.web.spec.?x + web.spec.x + web.?spec") == "a.web.spec.?x + web.spec.x + web.?spec"


def test_conditions_reach_all_that_read() -> None:
    """Over any number of steps, each once; a cycle ends."""
    stated = {"a": ["x"], "b": [], "c": ["y", "x"], "d": []}
    reads = {"a": {"a"}, "b": {"a", "d"}, "c": {"b"}, "d": {"b"}}
    assert kro_expressions.spread(stated, reads) == {"a": ["x"], "b": ["x"], "c": ["x", "y"], "d": ["x"]}
    assert kro_expressions.join(["a || b", "c"]) == "(a || b) && (c)"
