"""`hearth schema`: JSON Schemas that accept the same objects as the API server, and detect typing mistakes."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import jsonschema
import orjson
import pytest
import yaml

from hearth.cli import main
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_views.files import editor_schemas
from hearth.model.api import crd
from support import console_blocks, repository
from support.real.servers import stub_server
from support.real.servers.stub_server import says

STACK: dict[str, Any] = {
    "apiVersion": "hearth.dev/v1alpha1",
    "kind": "Stack",
    "metadata": {"name": "shop"},
    "spec": {
        "timeout": "5m",
        "template": {
            "resources": {
                "web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "${stack.name}"}}}
            }
        },
    },
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "hearth.dev/v1alpha1",
    "kind": "StackDefinition",
    "metadata": {"name": "webapps.platform-team.example"},
    "spec": {
        "group": "platform-team.example",
        "names": {"kind": "WebApp", "plural": "webapps"},
        "versions": [{"name": "v1"}],
        "template": {
            "parameters": {
                "title": {"type": "string", "description": "What visitors read first."},
                "size": {"type": "integer", "default": 2, "exclusiveMinimum": 0},
                "zone": {"type": "string", "default": "eu-1", "pattern": "(?i)^eu"},
            },
            "resources": {
                "page": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"title": "${params.title}"}}}
            },
        },
    },
}
APP: dict[str, Any] = {
    "apiVersion": "platform-team.example/v1",
    "kind": "WebApp",
    "metadata": {"name": "shop", "labels": {"tier": "canary"}},
    "spec": {"title": "Hello", "zone": "EU-2"},
}
DEFINITIONS = "GET /apis/hearth.dev/v1alpha1/stackdefinitions"
PUBLISHED = "GET /openapi/v3/apis/platform-team.example/v1"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: admin}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: admin, user: {{token: some-token}}}}]
"""


def run(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main.main, ["schema", *arguments])


def find_documents() -> Iterator[Any]:
    """Hearth's own objects in the examples, and in the files on documentation pages."""
    texts = {str(file): file.read_text() for file in (repository.ROOT / "manifests" / "examples").glob("*.yaml")}
    for page in sorted(repository.DOCS.rglob("*.md")):
        texts |= {f"{page.name}: {name}": text for name, text in console_blocks.read_files(page.read_text()).items()}
    for name, text in texts.items():
        if name.endswith(".yaml"):
            for document in yaml.safe_load_all(text):
                if str(document.get("apiVersion")).startswith("hearth.dev/"):
                    yield pytest.param(document, id=f"{Path(name).name} {document['kind']}")


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """The schema of all kinds."""
    schema: dict[str, Any] = json.loads(run().stdout)
    return schema


@pytest.fixture(scope="module")
def all_kinds(printed: dict[str, Any]) -> jsonschema.Draft7Validator:
    jsonschema.Draft7Validator.check_schema(printed)
    return jsonschema.Draft7Validator(printed)


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    file = tmp_path / "webapps.yaml"
    file.write_text(yaml.safe_dump(DEFINITION))
    return file


@pytest.mark.parametrize("document", list(find_documents()))
def test_examples_and_documentation_are_valid(document: Any, all_kinds: jsonschema.Draft7Validator) -> None:
    assert [error.message for error in all_kinds.iter_errors(document)] == []


def set_field(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(set_field("spec", "tmeout", value="5m"), "'tmeout' was unexpected", id="unknown field"),
        pytest.param(set_field("speck", value={}), "'speck' was unexpected", id="unknown field at the top"),
        pytest.param(set_field("spec", "timeout", value="5x"), "'5x' does not match", id="wrong text"),
        pytest.param(set_field("spec", "paused", value="yes"), "'yes' is not of type 'boolean'", id="wrong type"),
        pytest.param(set_field("spec", "deletionPolicy", value="Keep"), "'Keep' is not one of", id="wrong word"),
        pytest.param(set_field("metadata", "labels", value={"a": 1}), "1 is not of type 'string'", id="wrong label"),
    ],
)
def test_a_mistake_is_found(
    change: Callable[[dict[str, Any]], None], expected: str, all_kinds: jsonschema.Draft7Validator
) -> None:
    stack = copy.deepcopy(STACK)
    assert all_kinds.is_valid(stack)

    change(stack)

    (error,) = all_kinds.iter_errors(stack)
    assert expected in error.message


@pytest.mark.parametrize(
    ("document", "is_valid"),
    [
        pytest.param({"apiVersion": "v1", "kind": "Secret", "data": {"a": "Yg=="}}, True, id="another project's kind"),
        pytest.param({"apiVersion": "hearth.dev/v1alpha1"}, False, id="no kind"),
        pytest.param({**STACK, "kind": "StackDefinition"}, False, id="fields of another kind"),
        pytest.param(
            {**STACK, "apiVersion": "hearthXdev/v1alpha1"}, True, id="a group with another letter for the dot"
        ),
    ],
)
def test_an_object_is_checked_by_its_kind(
    document: dict[str, Any], all_kinds: jsonschema.Draft7Validator, *, is_valid: bool
) -> None:
    assert all_kinds.is_valid(document) == is_valid


def test_no_condition_matches_a_kind_that_begins_with_the_same_word(printed: dict[str, Any]) -> None:
    conditions = [jsonschema.Draft7Validator(rule["if"]) for rule in printed["allOf"]]
    half_written = {"apiVersion": "hearth.dev/v1alpha1", "kind": None}

    assert [sum(each.is_valid(document) for each in conditions) for document in (STACK, half_written)] == [1, 0]


def test_a_folder_has_a_file_per_kind_in_the_layout_of_kubeconform(tmp_path: Path, definitions: Path) -> None:
    folder = tmp_path / "new" / "schemas"

    done = run("--directory", str(folder), "-f", str(definitions))

    assert (done.exit_code, done.output) == (0, "")
    own = [f"hearth.dev/{each['spec']['names']['kind'].lower()}_v1alpha1.json" for each in crd.make_crds()]
    found = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.json"))
    assert found == sorted(
        ["all.json", *own, "hearth.dev/stacktest_v1alpha1.json", "platform-team.example/webapp_v1.json"]
    )
    kinds = FolderKinds(folder)
    app = kinds.find("platform-team.example/v1", "WebApp")
    assert app is not None
    assert "spec" in (kinds.find_schema(app) or {})["properties"]


def test_a_kind_of_a_definition_has_the_rules_of_its_parameters(definitions: Path) -> None:
    printed = json.loads(run("-f", str(definitions), "--kind", "webapp").stdout)
    app = jsonschema.Draft7Validator(printed)

    assert app.is_valid(APP)
    assert not app.is_valid({word: value for word, value in APP.items() if word != "spec"})
    assert printed["properties"]["spec"]["properties"]["title"]["description"] == "What visitors read first."
    wrong = {**APP, "spec": {"size": 0, "titel": "Hello"}}
    assert sorted(error.message for error in app.iter_errors(wrong)) == [
        "'title' is a required property",
        "0 is less than or equal to the minimum of 0",
        "Additional properties are not allowed ('titel' was unexpected)",
    ]


def test_a_pattern_that_editors_cannot_read_is_left_out(definitions: Path) -> None:
    printed = json.loads(run("-f", str(definitions), "--kind", "WebApp").stdout)

    assert "pattern" not in printed["properties"]["spec"]["properties"]["zone"]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"x-kubernetes-int-or-string": True}, {"type": ["integer", "string"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "number", "maximum": 3, "exclusiveMaximum": True}, {"type": "number", "exclusiveMaximum": 3}),
        ({"x-kubernetes-preserve-unknown-fields": True, "nullable": True}, {}),
        (
            {"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True},
            {"type": "object", "properties": {"a": {}}},
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        ),
    ],
    ids=["integer or string", "null", "exclusive bound", "anything", "further fields", "set"],
)
def test_words_of_kubernetes_become_words_of_json_schema(node: dict[str, Any], expected: dict[str, Any]) -> None:
    assert editor_schemas.convert(node) == expected


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--kind", "Stak"), 1, "there is no kind 'Stak'; did you mean 'Stack'?"),
        (("--kind", "Stack", "--directory", "."), 2, "use one of the two"),
        (("--directory", "{file}"), 2, "is a file"),
    ],
    ids=["unknown kind", "two places", "a file instead of a folder"],
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], code: int, message: str, definitions: Path) -> None:
    done = run(*(each.format(file=definitions) for each in arguments))

    assert done.exit_code == code
    assert message in done.output


def test_a_definition_with_mistakes_is_named(definitions: Path) -> None:
    wrong = copy.deepcopy(DEFINITION)
    wrong["spec"]["template"]["resources"]["page"]["manifest"]["data"]["title"] = "${params.titel}"
    definitions.write_text(yaml.safe_dump(wrong))

    done = run("-f", str(definitions))

    assert done.exit_code == 1
    place = "stackdefinition/webapps.platform-team.example: spec.template.resources.page.manifest.data.title: "
    assert place in done.output


def test_the_mistakes_of_all_definitions_are_named(definitions: Path) -> None:
    wrong = copy.deepcopy(DEFINITION)
    wrong["spec"]["template"]["resources"]["page"]["manifest"]["data"]["title"] = "${params.titel}"
    other = {**copy.deepcopy(wrong), "metadata": {"name": "others.platform-team.example"}}
    definitions.write_text(yaml.safe_dump_all([wrong, other]))

    done = run("-f", str(definitions))

    assert done.exit_code == 1
    for name in ("webapps", "others"):
        assert f"stackdefinition/{name}.platform-team.example: spec.template.resources.page" in done.output


def test_a_file_without_definitions_is_named(tmp_path: Path) -> None:
    file = tmp_path / "stack.yaml"
    file.write_text(yaml.safe_dump(STACK))

    done = run("-f", str(file))

    assert done.exit_code == 1
    assert f"there is no StackDefinition in {file}" in done.output


async def run_with_cluster(
    folder: Path, *arguments: str, published: Any, definition: Any = DEFINITION
) -> click.testing.Result:
    """Run with --cluster, where one StackDefinition exists. published: the document with the schema of its kind."""
    listed = {"items": [definition], "metadata": {}}
    answers = {DEFINITIONS: says(orjson.dumps(listed))}
    if published is not None:
        answers[PUBLISHED] = says(orjson.dumps(published))
    async with stub_server.run_stub(stub_server.routes(answers)) as server:
        kubeconfig = folder / "config"
        kubeconfig.write_text(KUBECONFIG.format(url=server.url))
        return await asyncio.to_thread(run, "--cluster", "--kubeconfig", str(kubeconfig), *arguments)


async def test_the_kinds_of_a_cluster_are_those_that_it_publishes(tmp_path: Path) -> None:
    kind = {"group": "platform-team.example", "version": "v1", "kind": "WebApp"}
    spec = {"type": "object", "properties": {"title": {"type": "string", "description": "What visitors read first."}}}
    meta = {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]}
    app = {
        "type": "object",
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": meta, "spec": spec},
        "x-kubernetes-group-version-kind": [kind],
    }
    others = {"type": "object", "x-kubernetes-group-version-kind": [{**kind, "kind": "WebAppList"}, kind]}

    done = await run_with_cluster(tmp_path, published={"components": {"schemas": {"list": others, "app": app}}})

    assert (done.exit_code, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    assert (
        schema["definitions"]["platform-team.example.v1.WebApp"]["properties"]["spec"]["properties"]
        == spec["properties"]
    )
    validator = jsonschema.Draft7Validator(schema)
    assert [validator.is_valid({**APP, "spec": each}) for each in ({"title": "a"}, {"titel": "a"})] == [True, False]


async def test_a_kind_that_the_cluster_does_not_serve_is_a_warning(tmp_path: Path) -> None:
    done = await run_with_cluster(tmp_path, published=None)

    assert done.exit_code == 0
    assert "warning: stackdefinition/webapps.platform-team.example: the cluster does not publish" in done.stderr
    assert "platform-team" not in done.stdout


async def test_a_hostile_cluster_cannot_choose_where_files_are_written(tmp_path: Path) -> None:
    kind = {"group": "platform-team.example", "version": "v1", "kind": "../../WebApp"}
    hostile = {"metadata": DEFINITION["metadata"], "spec": DEFINITION["spec"] | {"names": {"kind": kind["kind"]}}}
    app = {"type": "object", "properties": {"spec": {}}, "x-kubernetes-group-version-kind": [kind]}
    folder = tmp_path / "a" / "schemas"

    done = await run_with_cluster(
        tmp_path,
        "--directory",
        str(folder),
        published={"components": {"schemas": {"app": app}}},
        definition=hostile,
    )

    assert done.exit_code == 0
    assert "warning: stackdefinition/webapps.platform-team.example: " in done.stderr
    assert sorted(each.name for each in folder.iterdir()) == ["all.json", "hearth.dev"]
