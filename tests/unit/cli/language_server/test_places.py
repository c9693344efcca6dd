"""Definition, references and rename of names in a template."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hearth.cli.language_server import places

STACK = """apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: shop}
spec:
  parameters: {size: 1, 'name': a}
  environment: {breakpoints: [{resource: 'cache[a]/db', at: [PreUpdate]}, {resource: web, at: [PreUpdate]}]}
  template:
    parameters:
      size: {type: integer}
      name: {type: string}
    conditions: {big: params.size > 1}
    values: {label: params.name + 'x', again: "values.label + values['label']"}
    resources:
      web:
        when: conditions.big
        manifest:
          apiVersion: v1
          kind: ConfigMap
          data:
            size: "${params.size} ${params['size'] + \\"size\\"} 😀 ${params.?size}"
            text: 'size: $${params.size} ${''size'' + params.name}'
            block: |
              size
              ${params.size}
      cache:
        dependsOn: [web, "web[*]"]
        readyWhen: [cache.metadata.name == web.metadata.name]
        manifest:
          apiVersion: hearth.dev/v1alpha1
          kind: Stack
          spec:
            parameters: {size: "${params.size}", web: "${[1].map(web, web)[0] + size(web.data)}"}
            template:
              parameters: {size: {}, web: {}}
              resources:
                db: {manifest: {apiVersion: v1, kind: ConfigMap, data: {a: "${params.size}", b: "${params.web}"}}}
                web: {dependsOn: [db], manifest: {apiVersion: v1, kind: ConfigMap, data: {a: "${db.data.a}"}}}
    outputs:
      web: {value: "${web.metadata.name}", when: params.size > 0}
      label: {value: "${values.label}"}
"""


def point(before: str, text: str = STACK) -> int:
    """The offset after the first occurrence of a text."""
    return text.index(before) + len(before)


def rename(before: str, new_name: str, text: str = STACK) -> str:
    """The text after a rename at the place that follows a text."""
    for span in sorted(places.rename(text, point(before, text), new_name), key=lambda span: -span.start):
        text = text[: span.start] + new_name + text[span.end :]
    return text


def replace(text: str, *changes: tuple[str, str]) -> str:
    """The text after each replacement; each replaced part must exist."""
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


SIZE = (
    ("{size: 1,", "{count: 1,"),
    ("      size: {type", "      count: {type"),
    ("{big: params.size", "{big: params.count"),
    ("${params.size} ${params['size'] ", "${params.count} ${params['count'] "),
    ("${params.?size}", "${params.?count}"),
    ("              ${params.size}", "              ${params.count}"),
    ('{size: "${params.size}", web', '{size: "${params.count}", web'),
    ("when: params.size", "when: params.count"),
)
WEB = (
    ("resource: web", "resource: front"),
    ("      web:\n        when", "      front:\n        when"),
    ('[web, "web[*]"]', '[front, "front[*]"]'),
    ("== web.", "== front."),
    ("size(web.data)", "size(front.data)"),
    ("${web.metadata", "${front.metadata"),
)


@pytest.mark.parametrize("before", ["{si", "      si", "params['si", "${params.?si", "big: params.si"])
def test_a_parameter_is_renamed_wherever_it_is_read(before: str) -> None:
    assert rename(before, "count") == replace(STACK, *SIZE)


@pytest.mark.parametrize("before", ["resource: we", "      we", '[web, "w', "== we", "size(we"])
def test_a_resource_is_renamed_wherever_it_is_read(before: str) -> None:
    assert rename(before, "front") == replace(STACK, *WEB)


def test_a_resource_of_a_nested_stack_is_renamed_in_the_rules_of_the_outer_one() -> None:
    changes = (("cache[a]/db", "cache[a]/base"), ("db: {man", "base: {man"), ("[db]", "[base]"), ("${db.", "${base."))

    assert rename("                d", "base") == replace(STACK, *changes)


def test_a_rename_keeps_line_breaks() -> None:
    text = STACK.replace("\n", "\r\n")

    assert rename("      si", "count", text) == replace(STACK, *SIZE).replace("\n", "\r\n")


def test_a_condition_is_renamed() -> None:
    changes = (("{big:", "{large:"), ("conditions.big", "conditions.large"))

    assert rename("{bi", "large") == replace(STACK, *changes)


@pytest.mark.parametrize("before", ["values: {la", "values.la", "values['la", "${values.la"])
def test_a_value_is_renamed_wherever_it_is_read(before: str) -> None:
    changes = (
        ("{label: params", "{title: params"),
        ("values.label +", "values.title +"),
        ("values['label']", "values['title']"),
        ("${values.label}", "${values.title}"),
    )

    assert rename(before, "title") == replace(STACK, *changes)


def test_a_resource_named_values_is_a_resource_where_the_template_has_no_values() -> None:
    text = "\n".join(line for line in STACK.split("\n") if "    values: {" not in line)
    text = text.replace("      cache:\n", "      values:\n")

    renamed = rename("      value", "other", text)

    assert renamed == text.replace("      values:\n", "      other:\n").replace("${values.", "${other.")


@pytest.mark.parametrize(
    ("before", "new_name", "message"),
    [
        ("values: {la", "again", "there is already 'again' in values"),
        ("      we", "Web", "names start with a lower-case letter"),
        ("      we", "web-1", "names start with a lower-case letter"),
        ("      we", "params", "reserved word"),
        ("      we", "cache", "there is already 'cache' in resources"),
        ("      si", "", "names start with a lower-case letter"),
        ("      si", "name", "there is already 'name' in parameters"),
        ("metadata: {na", "other", "there is no parameter, condition, value or resource here"),
    ],
)
def test_an_invalid_rename_is_refused(before: str, new_name: str, message: str) -> None:
    with pytest.raises(places.Refusal, match=message):
        rename(before, new_name)


def test_a_rename_that_a_loop_variable_would_hide_is_refused() -> None:
    text = STACK.replace("size(web.data)", "[1].map(each, web.data)[0]")

    with pytest.raises(places.Refusal, match="'each' already has a meaning in `"):
        rename("      we", "each", text)


@pytest.mark.parametrize(
    ("written", "message"),
    [('"${web.', "not valid YAML"), ('"${web.}"', r"`web\.` cannot be parsed: .*; fix it, then rename")],
)
def test_a_half_written_file_is_not_renamed(written: str, message: str) -> None:
    with pytest.raises(places.Refusal, match=message):
        rename("      we", "front", STACK.replace('"${web.metadata.name}"', written))


def test_the_definition_of_a_name_is_its_key() -> None:
    for before, key in (
        ("${params['si", "      size: {ty"),
        ("== we", "      web:\n"),
        ("conditions.b", "{big"),
        ("${values.la", "{label"),
    ):
        span = places.find_definition(STACK, point(before))
        assert span is not None
        assert span.start == STACK.index(key) + len(key) - len(key.lstrip(" {"))


def test_names_of_a_nested_stack_are_its_own() -> None:
    span = places.find_definition(STACK, point('data: {a: "${params.si'))

    assert span is not None
    assert span.start == STACK.index("size: {}")


@pytest.mark.parametrize("before", ["metadata: {na", "[1].map(we", "apiVer", 'value: "$', "$${params.si"])
def test_anything_else_has_no_definition(before: str) -> None:
    assert places.find_definition(STACK, point(before)) is None
    assert places.find_references(STACK, point(before)) == []
    assert places.find_renameable(STACK, point(before)) is None


def test_references_start_with_the_definition_and_skip_broken_expressions() -> None:
    text = STACK.replace("== web.metadata.name", "== web..")

    spans = places.find_references(text, point("      we", text))

    assert {text[span.start : span.end] for span in spans} == {"web"}
    assert spans[0] == places.find_definition(text, point("      we", text))
    assert len(spans) == len(WEB)


def test_a_group_has_parameters_of_its_own() -> None:
    group: dict[str, Any] = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "ResourceGroup",
        "metadata": {"name": "workers"},
        "spec": {"parameters": {"size": 1}, "template": {"manifest": {"kind": "ConfigMap", "data": "${params.size}"}}},
    }
    text = yaml.safe_dump(group)

    assert rename("${params.si", "count", text) == text.replace("size", "count")
