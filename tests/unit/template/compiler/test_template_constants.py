"""Values of a template: their types, their errors, and the limits against templates that make them grow."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hearth.model import errors, limits
from hearth.template.blueprint import Blueprint, Definition, Known
from hearth.template.compiler import compiler
from hearth.template.compiler.template_constants import CONDITIONS, Constants
from hearth.template.parser.template_parser import VALUES
from hearth.template.schema import parameters
from support.units.templates.invalid_templates import KINDS, RESOURCES, SOUND, STACK, find_mistakes

PARAMETERS = """
parameters:
  name: {type: string, default: web}
  size: {type: integer, default: 2}
  share: {type: number, default: 1}
  zones: {type: array, items: {type: string}, default: [a, b]}
  net: {type: object, properties: {cidr: {type: string}}, default: {cidr: 10.0.0.0/8}}
  password: {type: string, sensitive: true, default: null}
"""


def compile_values(template: str, parameters: Any = None) -> Blueprint:
    """The blueprint of a template with the parameters above."""
    raw = yaml.safe_load(PARAMETERS.replace(", default: null", "") + template)
    definition = Definition(template=raw, parameters={"password": "sesame-open", **(parameters or {})})
    return compiler.compile_template(definition, stack=STACK, kinds=KINDS)


def find_outputs(values: str, outputs: str, more: str = "resources: {}") -> dict[str, Any]:
    """The outputs of a template with these values."""
    blueprint = compile_values(f"values: {values}\noutputs: {outputs}\n{more}\n")
    found = {name: output.evaluate({}) for name, output in blueprint.outputs.items()}
    return {name: outcome.value for name, outcome in found.items() if isinstance(outcome, Known)}


def find_faults(values: str, manifest: str = "{}") -> list[tuple[str, str]]:
    """The mistakes of a template with these values and one Deployment of that spec."""
    found = f"{{apiVersion: apps/v1, kind: Deployment, spec: {manifest}}}"
    template = PARAMETERS.replace(", default: null", "") + f"values: {values}\nresources: {{a: {{manifest: {found}}}}}"
    return find_mistakes(template, {"password": "sesame-open"})


def test_values_read_parameters_conditions_and_each_other_in_any_order() -> None:
    values = """{title: "values.host + (conditions.large ? ' (large)' : '')", host: "params.name + '.local'",
    total: "params.size * 3", hosts: "params.zones.map(zone, zone + '.' + values.host)"}"""
    outputs = (
        '{title: {value: "${values.title}"}, hosts: {value: "${values.hosts}"}, all: {value: "n=${values.total}"}}'
    )
    conditions = "conditions: {large: values.total > 5}\nresources: {}"

    assert find_outputs(values, outputs, conditions) == {
        "title": "web.local (large)",
        "hosts": ["a.web.local", "b.web.local"],
        "all": "n=6",
    }


def test_values_decide_members_and_resources() -> None:
    blueprint = compile_values(f"""
values: {{zones: "params.zones.filter(zone, zone != 'a')", isOff: "params.size > 5"}}
resources:
  each: {{forEach: values.zones, key: "values.zones[index] + 'x'", {SOUND}}}
  hidden: {{when: values.isOff, {SOUND}}}
  read: {{externalRef: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: "${{values.zones[0]}}"}}}}}}
""")

    assert set(blueprint.resources) == {"each[bx]"}
    assert set(blueprint.externals) == {"read"}


def test_a_number_stays_a_number_for_other_expressions() -> None:
    outputs = '{more: {value: "${values.half * 1.5}"}, whole: {value: "${values.half}"}}'

    assert find_outputs('{half: "params.share * 2.0"}', outputs) == {"more": 3, "whole": 2}


def test_a_template_without_values_may_have_a_resource_of_that_name() -> None:
    reader = "reader: {manifest: {apiVersion: v1, kind: ConfigMap, data: {a: '${values.data.a}'}}}"
    blueprint = compile_values(f"resources: {{values: {{{SOUND}}}, {reader}}}")

    assert blueprint.resources["reader"].requires == ("values",)
    assert find_mistakes(f"resources: {{values: {{{SOUND}}}, b: {{when: values.data.a == 'x', {SOUND}}}}}") == [
        (
            f"{RESOURCES}.b.when",
            "only params, conditions and values can be used here, because it is evaluated before any apply (at column 1 of `values.data.a == 'x'`)",
        )
    ]


@pytest.mark.parametrize(
    ("values", "spec", "path", "message"),
    [
        pytest.param(
            "{host: params.name}",
            "{replicas: '${values.host}'}",
            f"{RESOURCES}.a.manifest.spec.replicas",
            "must be an integer, `values.host` gives text; make the whole string one expression that gives an integer, e.g. with int()",
            id="a wrong type",
        ),
        pytest.param(
            "{net: params.net, other: values.net}",
            "{paused: '${values.other.cdir}'}",
            f"{RESOURCES}.a.manifest.spec.paused",
            "there is no field 'cdir' in values.other; did you mean 'cidr'? (at column 14 of `values.other.cdir`)",
            id="a field within",
        ),
        pytest.param(
            "{size: params.size, text: values.size + 'x'}",
            "{}",
            "spec.template.values.text",
            "'+' cannot be applied to (int, string); convert with string(), int() or double() (at column 13 of `values.size + 'x'`)",
            id="a wrong type of another value",
        ),
        pytest.param(
            "{host: params.name}",
            "{replicas: '${values.hots}'}",
            f"{RESOURCES}.a.manifest.spec.replicas",
            "there is no field 'hots' in values; did you mean 'host'? (at column 8 of `values.hots`)",
            id="an unknown name",
        ),
        pytest.param(
            "{host: params.name, other: values.hots}",
            "{}",
            "spec.template.values.other",
            "there is no field 'hots' in values; did you mean 'host'? (at column 8 of `values.hots`)",
            id="an unknown name in a value",
        ),
        pytest.param(
            "{host: a.metadata.name}",
            "{}",
            "spec.template.values.host",
            "a value can use only params, conditions and other values, because it is evaluated before any apply; write this expression where it is used, or in an output (at column 1 of `a.metadata.name`)",
            id="a resource",
        ),
        pytest.param(
            "{one: values.two, two: values.three + 'x', three: values.one}",
            "{}",
            "spec.template.values.one",
            "depends on itself: values.one → values.two → values.three → values.one; remove one of them",
            id="a circle",
        ),
        pytest.param(
            "{size: 3}",
            "{}",
            "spec.template.values.size",
            "must be an expression, found the number 3; write e.g. \"params.name + '-web'\"",
            id="no expression",
        ),
        pytest.param(
            "{size: 1 / (params.size - 2)}",
            "{}",
            "spec.template.values.size",
            "`1 / (params.size - 2)` fails: divide by zero; fix the expression or the parameters that it uses",
            id="an evaluation that fails",
        ),
        pytest.param(
            "{size: 18446744073709551615u}",
            "{replicas: '${values.size}'}",
            "spec.template.values.size",
            "must be a 64-bit integer, and so must all integers within it; convert it with string()",
            id="a large integer",
        ),
    ],
)
def test_mistakes(values: str, spec: str, path: str, message: str) -> None:
    assert find_faults(values, spec) == [(path, message)]


def test_a_circle_through_conditions_is_printed() -> None:
    template = f"values: {{a: 'conditions.b ? 1 : 2'}}\nconditions: {{b: values.a > 1}}\nresources: {{a: {{{SOUND}}}}}"

    assert find_mistakes(template) == [
        (
            "spec.template.conditions.b",
            "depends on itself: conditions.b → values.a → conditions.b; remove one of them",
        )
    ]


def test_a_resource_cannot_have_the_name_of_the_values() -> None:
    assert find_mistakes(f"values: {{a: \"'x'\"}}\nresources: {{values: {{{SOUND}}}}}") == [
        (f"{RESOURCES}.values", "is the name of the values in a template that has some; rename the resource")
    ]


@pytest.mark.parametrize(
    ("first", "double"),
    [
        pytest.param("'x' + params.name", "values.a{0} + values.a{0}", id="text"),
        pytest.param("params.zones", "values.a{0} + values.a{0}", id="list"),
        pytest.param("[params.name]", "[values.a{0}, values.a{0}]", id="nested list"),
        pytest.param("{{'a': params.name}}", "{{'a': values.a{0}, 'b': values.a{0}}}", id="map"),
    ],
)
def test_values_that_double_are_refused(first: str, double: str) -> None:
    values = {"a0": first.replace("{{", "{").replace("}}", "}")}
    values |= {f"a{number + 1}": double.format(number) for number in range(40)}
    template = {**yaml.safe_load(PARAMETERS.replace(", default: null", "")), "values": values, "resources": {}}
    found = find_mistakes(template, {"password": "x"})

    assert found[0][0].startswith("spec.template.values.a")
    assert any(word in found[0][1] for word in ("makes the values of the template larger than", "expression "))


def test_all_values_together_have_a_limit() -> None:
    template = {
        "parameters": {"text": {"type": "string"}},
        "values": dict.fromkeys(("a", "b", "c"), "params.text"),
        "resources": {},
    }

    assert find_mistakes(template, {"text": "x" * (limits.OBJECT_BYTES // 2)}) == [
        (
            "spec.template.values.c",
            "makes the values of the template larger than 2097152 bytes; shorten or split it",
        )
    ]


def test_a_value_from_a_sensitive_parameter_is_sensitive() -> None:
    values = "{login: \"'user:' + params.password\", again: values.login + conditions.x, host: params.name}"
    values = "{login: \"'user:' + params.password\", again: values.login + 'x', host: params.name}"
    outputs = """{login: {value: "${values.again}"}, kind: {value: "${conditions.isLong}"}, host: {value: "${values.host}"}}"""
    more = "conditions: {isLong: size(values.login) > 3}\nresources: {}"

    assert find_outputs(values, outputs, more) == {"login": "(sensitive)", "kind": "(sensitive)", "host": "web"}
    [(path, message)] = find_faults(values, "{paused: true}, metadata: {name: '${values.again}'}")
    assert path == f"{RESOURCES}.a.manifest.metadata.name"
    assert "something sensitive" in message
    blueprint = compile_values(f"values: {values}\nresources: {{a: {{{SOUND}}}}}")
    assert "user:sesame-open" in blueprint.sensitive_texts


def test_the_types_of_many_values_have_a_limit() -> None:
    """Each value repeats the type of a large parameter. Above the limit, values accept everything."""
    properties = {f"field{number}": {"type": "string"} for number in range(900)}
    template: dict[str, Any] = {
        "parameters": {"large": {"type": "object", "properties": properties, "default": {}}},
        "values": {f"v{number}": f"values.v{number - 1}" if number else "params.large" for number in range(300)},
        "resources": {},
    }
    constants = Constants("", {CONDITIONS: {}, VALUES: template["values"]})
    for name in template["values"]:
        constants.schemas[name] = template["parameters"]["large"]
        constants.find_value_shape({name})

    assert constants._written < limits.SHAPE_LENGTH * 2
    assert constants.find_value_shape({"v0"}).fields["v0"].fields == {}
    assert find_mistakes(template) == []


def test_too_many_values_are_refused() -> None:
    values = {f"v{number}": "1" for number in range(limits.ENTRIES + 1)}

    assert find_mistakes({"values": values, "resources": {}}) == [
        ("spec.template.values", "has 1001 entries, but at most 1000 are allowed; split the template")
    ]


def test_a_long_chain_of_values_is_evaluated() -> None:
    values = {f"v{number}": f"values.v{number + 1} + 1" for number in range(limits.ENTRIES - 1)}
    values[f"v{limits.ENTRIES - 1}"] = "1"
    template = {"values": values, "resources": {}, "outputs": {"sum": {"value": "${values.v0}"}}}
    blueprint = compiler.compile_template(Definition(template=template, parameters={}), stack=STACK, kinds=KINDS)

    assert blueprint.outputs["sum"].evaluate({}) == Known(limits.ENTRIES)


def test_no_error_contains_a_sensitive_value() -> None:
    with pytest.raises(errors.InvalidDefinition) as failure:
        compile_values("values: {a: int(params.password), b: '1 / values.a'}\nresources: {}")

    assert "sesame" not in str(failure.value)


def test_shapes_of_values_evict_no_shapes_of_parameters() -> None:
    rules = {"a": {"type": "string"}}
    shape = parameters.find_shape(rules)
    for number in range(2 * parameters.SHAPES_KEPT):
        parameters.find_shape({f"v{number}": {"type": "string"}}, name=VALUES)

    assert parameters.find_shape(rules) is shape
