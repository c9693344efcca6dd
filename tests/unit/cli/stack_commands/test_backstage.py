"""`kubectl stack backstage`: a software template whose form and manifest fit the StackDefinition."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click.testing
import jsonschema
import pytest
import yaml

from hearth.cli.commands import schema
from hearth.cli.stack_commands import stack_group

DEFINITION: dict[str, Any] = {
    "apiVersion": "hearth.dev/v1alpha1",
    "kind": "StackDefinition",
    "metadata": {"name": "webapps.platform.example"},
    "spec": {
        "group": "platform.example",
        "names": {"kind": "WebApp", "plural": "webapps"},
        "versions": [{"name": "v1"}],
        "template": {
            "parameters": {
                "title": {"type": "string", "description": "What visitors read first."},
                "maxReplicas": {"type": "integer", "default": 2, "minimum": 1, "maximum": 9},
                "zone": {"type": ["string", "null"], "default": None},
                "password": {"type": "string", "sensitive": True},
            },
            "resources": {
                "page": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"title": "${params.title}"}}}
            },
        },
    },
}
VALUE = re.compile(r"\$\{\{ values\.(\w+) \| dump \}\}")


def invoke(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(stack_group.stack, ["backstage", *arguments])


def write_definition(folder: Path, **spec: Any) -> Path:
    file = folder / "webapps.yaml"
    file.write_text(yaml.safe_dump(DEFINITION | {"spec": DEFINITION["spec"] | spec}, sort_keys=False))
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder with the files of a template."""
    done = invoke("-f", str(write_definition(tmp_path)), "--directory", str(tmp_path / "out"), "--folder", "apps/prod")
    assert (done.exit_code, done.stdout) == (0, "")
    return tmp_path / "out"


def read_template(folder: Path) -> dict[str, Any]:
    template: dict[str, Any] = yaml.safe_load((folder / "template.yaml").read_text())
    return template


def test_the_form_has_the_parameters_with_their_rules(folder: Path) -> None:
    identity, form, repository = read_template(folder)["spec"]["parameters"]

    assert identity["required"] == ["name", "namespace"]
    assert repository["properties"]["repoUrl"]["ui:field"] == "RepoUrlPicker"
    spec = form["properties"]["spec"]
    assert spec["required"] == ["title", "password"]
    assert spec["properties"]["title"] == {
        "title": "Title",
        "description": "What visitors read first.",
        "type": "string",
    }
    replicas = spec["properties"]["maxReplicas"]
    assert replicas | {"description": ""} == {
        "title": "Max replicas",
        "description": "",
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
    }
    assert spec["properties"]["zone"]["type"] == "string"
    assert list(spec["properties"]["password"]["properties"]) == ["secretKeyRef"]
    assert "stack" not in spec["properties"]


def test_every_value_of_the_skeleton_is_given(folder: Path) -> None:
    fetch, publish = read_template(folder)["spec"]["steps"]
    (skeleton,) = (folder / "skeleton").iterdir()

    assert set(VALUE.findall(skeleton.read_text())) == set(fetch["input"]["values"])
    assert fetch["input"]["targetPath"] == "apps/prod"
    assert skeleton.name == "webapps-${{ values.name }}.yaml"
    assert publish["action"] == "publish:github:pull-request"


@pytest.mark.parametrize("title", ["Hello", "a: b # c", '"\n  replicas: 99', "${{ values.name }}"])
def test_no_text_of_a_form_can_add_a_field(folder: Path, title: str) -> None:
    (skeleton,) = (folder / "skeleton").iterdir()
    values = {
        "name": "shop",
        "namespace": "prod",
        "spec": {"title": title, "password": {"secretKeyRef": {"name": "login", "key": "password"}}},
    }

    made = yaml.safe_load(VALUE.sub(lambda found: json.dumps(values[found[1]]), skeleton.read_text()))

    assert made == {
        "apiVersion": "platform.example/v1",
        "kind": "WebApp",
        "metadata": {"name": "shop", "namespace": "prod"},
        "spec": values["spec"],
    }
    known = schema.read_definitions([str(folder.parent / "webapps.yaml")])
    assert list(jsonschema.Draft7Validator(known[0].schema).iter_errors(made)) == []


def test_gitlab_gets_a_merge_request(tmp_path: Path) -> None:
    done = invoke("-f", str(write_definition(tmp_path)), "--directory", str(tmp_path), "--publish", "gitlab")

    assert done.exit_code == 0
    template = read_template(tmp_path)
    assert template["spec"]["steps"][1]["action"] == "publish:gitlab:merge-request"
    assert template["spec"]["parameters"][2]["properties"]["repoUrl"]["ui:options"] == {"allowedHosts": ["gitlab.com"]}


def test_a_definition_with_mistakes_is_refused(tmp_path: Path) -> None:
    wrong = {
        "parameters": {},
        "resources": {"a": {"dependsOn": ["b"], "manifest": {"apiVersion": "v1", "kind": "Pod"}}},
    }

    done = invoke("-f", str(write_definition(tmp_path, template=wrong)), "--directory", str(tmp_path / "out"))

    assert done.exit_code == 1
    assert "stackdefinition/webapps.platform.example: spec.template.resources.a.dependsOn[0]" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [(), ("webapp", "-f", "a.yaml")], ids=["neither", "both"])
def test_either_a_name_or_a_file_is_needed(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = invoke(*arguments, "--directory", str(tmp_path))

    assert done.exit_code == 2
    assert "specify DEFINITION, or a file with -f FILE" in done.output
