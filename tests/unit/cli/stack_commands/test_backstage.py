"""`kubectl stack backstage`: a software template whose form and manifest fit the StackDefinition."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from pathlib import Path
from typing import Any

import click.testing
import jsonschema
import orjson
import pytest
import yaml

from hearth.cli.commands import schema
from hearth.cli.stack_commands import stack_group
from support.real.servers import stub_server
from support.real.servers.stub_server import says

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
                "zone": {"type": "string", "default": "eu", "enum": ["eu"]},
                "password": {"type": "string", "sensitive": True},
            },
            "resources": {
                "page": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"title": "${params.title}"}}}
            },
        },
    },
}
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: admin}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: admin, user: {{token: some-token}}}}]
"""
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
    zone = spec["properties"]["zone"]
    assert (zone["type"], zone["enum"]) == ("string", ["eu"])
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


@pytest.mark.parametrize("spec", [
    pytest.param({"names": {"kind": "WebApp", "plural": "../../webapps"}}, id="plural"),
    pytest.param({"names": {"kind": "${{ secrets.TOKEN }}", "plural": "webapps"}}, id="kind"),
    pytest.param({"group": "platform.example\nspec: {}"}, id="group"),
    pytest.param({"versions": [{"name": "v1\nspec: {}"}]}, id="version"),
])  # fmt: skip
def test_a_name_that_would_change_a_file_is_refused(tmp_path: Path, spec: dict[str, Any]) -> None:
    done = invoke("-f", str(write_definition(tmp_path, **spec)), "--directory", str(tmp_path / "out"))

    assert done.exit_code == 1
    assert "should match pattern" in done.output
    assert [each.name for each in tmp_path.iterdir()] == ["webapps.yaml"]


def test_texts_of_a_definition_only_reach_the_form(tmp_path: Path) -> None:
    secret = "${{ secrets.TOKEN }}"
    title = {"type": "string", "description": secret, "default": secret, "enum": [secret], "pattern": "secrets"}
    template = {"parameters": {"title": title}, "resources": DEFINITION["spec"]["template"]["resources"]}

    done = invoke("-f", str(write_definition(tmp_path, template=template)), "--directory", str(tmp_path / "out"))

    assert done.exit_code == 0, done.output
    found = read_template(tmp_path / "out")
    form = found["spec"].pop("parameters")[1]["properties"]["spec"]["properties"]["title"]
    assert form["enum"] == [secret]
    (skeleton,) = (tmp_path / "out" / "skeleton").iterdir()
    assert "secrets" not in json.dumps(found) + skeleton.read_text()


def test_a_file_without_a_definition_is_named(tmp_path: Path) -> None:
    (tmp_path / "stack.yaml").write_text("apiVersion: hearth.dev/v1alpha1\nkind: Stack\nmetadata: {name: shop}\n")

    done = invoke("-f", str(tmp_path / "stack.yaml"), "--directory", str(tmp_path / "out"))

    assert done.exit_code == 1
    assert "there is no StackDefinition in " in done.output


async def invoke_with_cluster(folder: Path, named: str) -> click.testing.Result:
    """Run for one of two StackDefinitions of a cluster, which have the same singular."""
    other = copy.deepcopy(DEFINITION)
    other["metadata"]["name"] = "sites.platform.example"
    other["spec"]["names"] = {"kind": "Site", "plural": "sites", "singular": "page"}
    first = copy.deepcopy(DEFINITION)
    first["spec"]["names"]["singular"] = "page"
    listed = says(orjson.dumps({"items": [first, other], "metadata": {}}))
    routes = stub_server.routes({"GET /apis/hearth.dev/v1alpha1/stackdefinitions": listed})
    async with stub_server.run_stub(routes) as server:
        (folder / "config").write_text(KUBECONFIG.format(url=server.url))
        arguments = (named, "--directory", str(folder / "out"), "--kubeconfig", str(folder / "config"))
        return await asyncio.to_thread(invoke, *arguments)


@pytest.mark.parametrize("named", ["webapps.platform.example", "WebApp", "webapps"])
async def test_a_definition_of_the_cluster_is_found_by_each_of_its_names(tmp_path: Path, named: str) -> None:
    done = await invoke_with_cluster(tmp_path, named)

    assert (done.exit_code, done.stdout) == (0, "")
    assert read_template(tmp_path / "out")["metadata"]["name"] == "create-webapp"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("webap", "there is no StackDefinition 'webap'; did you mean 'webapp'?; use one of these names: "),
        ("page", "2 StackDefinitions match 'page'; use one of these names: webapps.platform.example and sites."),
    ],
)
async def test_an_unclear_name_is_explained(tmp_path: Path, named: str, message: str) -> None:
    done = await invoke_with_cluster(tmp_path, named)

    assert done.exit_code == 1
    assert message in done.stderr
    assert not (tmp_path / "out").exists()
