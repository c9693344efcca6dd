"""Sensitive values between an export and an import become parameters, never placeholders that could be applied."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies

from hearth.cli.importer import stack_assembly, withheld_values
from hearth.cli.importer.manifest_documents import SourceText
from hearth.cli.importer.stack_assembly import Import
from hearth.model import errors
from hearth.model.text import redaction

MASK = redaction.SENSITIVE


def assemble(*manifests: Any) -> Import:
    return stack_assembly.assemble(
        [SourceText(source="a.yaml", content=yaml.safe_dump_all(manifests))], name="shop", namespace=None
    )


def config(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": data}


def test_a_masked_field_is_left_out_and_comes_back_as_a_parameter() -> None:
    raw = config(**{"config.yaml": "password: x", "size": "3"})
    shown = config(**{"config.yaml": MASK, "size": "3"})

    written, withheld = withheld_values.withhold(shown, raw, resource="web")

    assert [str(each) for each in withheld] == ["data[config.yaml]"]
    assert written["data"] == {"size": "3"}
    result = assemble(written)
    template = result.stack["spec"]["template"]
    assert template["parameters"] == {"webConfigYaml": {"type": "string", "sensitive": True}}
    assert template["resources"]["web"]["manifest"] == config(**{"config.yaml": "${params.webConfigYaml}", "size": "3"})
    assert "parameters" not in result.stack["spec"]
    assert result.notes == ("the parameter webConfigYaml has no value yet: set it with spec.parametersFrom",)


def test_a_parameter_has_the_type_of_its_value() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"args": ["-p", "x"], "port": 80, "on": True, "all": {"a": "b"}},
    }
    shown = {**raw, "spec": {"args": ["-p", MASK], "port": MASK, "on": MASK, "all": {"…": "b"}}}

    written, withheld = withheld_values.withhold(shown, raw, resource="web")

    assert {each.parameter: each.type for each in withheld} == {
        "webArgs": "array", "webPort": "integer", "webOn": "boolean", "webAll": "object"
    }  # fmt: skip
    assert written["spec"] == {}


def test_items_of_a_list_keep_their_place() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"env": [{"name": "A", "value": "x"}, {"name": "B", "value": "y"}]},
    }
    shown = {**raw, "spec": {"env": [{"name": "A", "value": "x"}, {"name": "B", "value": MASK}]}}

    written, _ = withheld_values.withhold(shown, raw, resource="web")

    (resource,) = assemble(written).stack["spec"]["template"]["resources"].values()
    assert resource["manifest"]["spec"]["env"] == [
        {"name": "A", "value": "x"},
        {"name": "B", "value": "${params.webValue}"},
    ]


def test_equal_names_become_different_parameters() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"p": "x"},
        "binaryData": {"p": "x"},
    }
    shown = {**raw, "data": {"p": MASK}, "binaryData": {"p": MASK}}
    first, _ = withheld_values.withhold(shown, raw, resource="web")
    second, _ = withheld_values.withhold({**shown, "metadata": {"name": "b"}}, raw, resource="web")

    template = assemble(first, second).stack["spec"]["template"]

    assert len(template["parameters"]) == 4
    used = [each["manifest"][field]["p"] for each in template["resources"].values() for field in ("data", "binaryData")]
    assert sorted(used) == sorted(f"${{params.{name}}}" for name in template["parameters"])


def test_what_an_object_is_called_is_no_secret() -> None:
    written, withheld = withheld_values.withhold(
        {"apiVersion": MASK, "kind": "ConfigMap", "metadata": {"name": MASK, "annotations": {"a": MASK}}}, config(), resource="web"
    )  # fmt: skip

    assert (written["apiVersion"], written["metadata"]["name"]) == ("v1", "web")
    assert [str(each) for each in withheld] == ["metadata.annotations.a"]
    (resource,) = assemble(written).stack["spec"]["template"]["resources"].values()
    assert resource["manifest"]["metadata"] == {"name": "web", "annotations": {"a": "${params.webA}"}}


@pytest.mark.parametrize(
    "record",
    [
        pytest.param("{", id="no JSON"),
        pytest.param("3", id="no list"),
        pytest.param("[{}]", id="nothing in it"),
        pytest.param('[{"path": [], "parameter": "a", "type": "string"}]', id="no path"),
        pytest.param('[{"path": ["data", 0], "parameter": "a", "type": "string"}]', id="an item"),
        pytest.param('[{"path": ["data", "a"], "parameter": "a}", "type": "string"}]', id="no name"),
        pytest.param('[{"path": ["data", "a"], "parameter": "a", "type": "${x}"}]', id="no type"),
        pytest.param('[{"path": ["kind"], "parameter": "a", "type": "string"}]', id="the kind"),
        pytest.param('[{"path": ["metadata", "name"], "parameter": "a", "type": "string"}]', id="the name"),
        pytest.param(
            '[{"path": ["spec", 3, "x"], "parameter": "a", "type": "string"}]', id="a place that is not there"
        ),
        pytest.param('[{"path": [true, "x"], "parameter": "a", "type": "string"}]', id="a boolean"),
    ],
)
def test_a_record_that_makes_no_sense_is_refused(record: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "annotations": {"hearth.dev/withheld": record}},
    }

    with pytest.raises(errors.InvalidDefinition, match="export the object again"):
        assemble(manifest)


@pytest.mark.parametrize(
    ("manifest", "place"),
    [
        pytest.param(config(a=MASK), "data.a", id="a value"),
        pytest.param(config(a=f" {MASK}\n"), "data.a", id="with space around it"),
        pytest.param({**config(), "spec": {"args": ["-p", MASK]}}, "spec.args[1]", id="an item"),
        pytest.param({**config(), "kind": "Secret", "data": {"a": "KHNlbnNpdGl2ZSk="}}, "data.a", id="in base 64"),
        pytest.param({**config(), "kind": "Secret", "data": {"a": "dTogcHcKcDogKHNlbnNpdGl2ZSkK"}}, "data.a", id="part of it"),
        pytest.param({**config(), "kind": "Secret", "stringData": {"a": f"postgres://u:{MASK}@h/db"}}, "stringData.a", id="URL"),
    ],
)  # fmt: skip
def test_a_mask_is_refused(manifest: dict[str, Any], place: str) -> None:
    with pytest.raises(errors.InvalidDefinition) as caught:
        assemble(manifest)

    assert str(caught.value).startswith(
        f"a.yaml, document 1 (line 1): {place} contains the placeholder that people see"
    )


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(config(a="the token (sensitive) of the shop"), id="a sentence"),
        pytest.param(config(a=f"password: {MASK}"), id="part of a text that need not be secret"),
        pytest.param(
            {**config(), "kind": "Secret", "stringData": {"a": f"# the token {MASK}\ntoken: x"}}, id="a comment"
        ),
        pytest.param({**config(), "spec": {"description": MASK}}, id="a description"),
    ],
)
def test_the_word_itself_is_no_mask(manifest: dict[str, Any]) -> None:
    assert assemble(manifest).stack["spec"]["template"]["resources"]


LEAVES = strategies.sampled_from(["a", "b", MASK, 3, True, None])
VALUES = strategies.recursive(
    LEAVES, lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.sampled_from(["a", "b.c", "1"]), inner, max_size=3)
)  # fmt: skip


@hypothesis.given(strategies.dictionaries(strategies.sampled_from(["spec", "data", "other"]), VALUES, max_size=3))
def test_no_mask_is_ever_written(fields: dict[str, Any]) -> None:
    shown = {"apiVersion": "example.com/v1", "kind": "X", "metadata": {"name": "a"}, **fields}

    written, withheld = withheld_values.withhold(
        shown, json.loads(json.dumps(shown).replace(MASK, "real")), resource="web"
    )

    record = (written["metadata"].get("annotations") or {}).pop("hearth.dev/withheld", "[]")
    assert MASK not in json.dumps(written)
    assert len(json.loads(record)) == len(withheld)
    if withheld:
        written["metadata"]["annotations"] = {"hearth.dev/withheld": record}
    template = assemble(written).stack["spec"]["template"]
    assert len(template.get("parameters", {})) == len(withheld)
