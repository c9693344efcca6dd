"""`lint` and `render`: Stacks in files, without a cluster."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click.testing
import pytest
import yaml

from hearth.cli.stack_access import schema_folder
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_commands import stack_group
from hearth.cli.stack_commands.files import file_commands
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.model import limits
from hearth.model.kinds import Kind
from support import repository

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

CONFIG: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
SCHEMA = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": ["string", "null"]},
        "kind": {"type": ["string", "null"]},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {"type": "object", "properties": {"size": {"type": ["integer", "null"]}}},
    },
}


def make(resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"parameters": {"password": {"type": "string", "sensitive": True}}, "resources": resources}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop"},
        "spec": {"template": template, "parameters": {"password": "geheim-1"}} | spec,
    }


def make_bare(**spec: Any) -> dict[str, Any]:
    """A Stack that refers to its template instead of containing it."""
    stack = make({}, **spec)
    del stack["spec"]["template"]
    return stack


def make_shared(resources: dict[str, Any]) -> dict[str, Any]:
    """A template of the whole cluster, with one parameter."""
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackTemplate",
        "metadata": {"name": "web"},
        "spec": {"template": {"parameters": {"text": {"type": "string"}}, "resources": resources}},
    }


def run(folder: Path, command: str, *documents: Any, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit code and output of a command on these documents."""
    file = folder / "stack.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    result = click.testing.CliRunner().invoke(stack_group.stack, [command, "-f", str(file), *options])
    return result.exit_code, result.output.replace(str(folder), "DIR")


def test_all_mistakes_are_reported_with_their_place(tmp_path: Path) -> None:
    wrong = {
        "a": {"manifest": CONFIG | {"data": {"x": "${params.none}"}}},
        "b": {"dependsOn": ["c"], "manifest": CONFIG},
    }

    code, output = run(tmp_path, "lint", make(wrong))

    assert code == 1
    lines = output.splitlines()
    assert lines[0].startswith("DIR/stack.yaml: stack/shop: spec.template.resources.a.manifest.data.x: ")
    assert lines[1].startswith("DIR/stack.yaml: stack/shop: spec.template.resources.b.dependsOn[0]: ")


def test_what_is_probably_not_meant_is_a_warning(tmp_path: Path) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    stack = make({"data": {"manifest": claim, "updatePolicy": {"replace": "CreateFirst"}}})

    code, output = run(tmp_path, "lint", stack)

    assert code == 0
    place = "warning: DIR/stack.yaml: stack/shop: spec.template.resources.data.updatePolicy.replace: "
    assert f"{place}replace: CreateFirst may lose the data of a PersistentVolumeClaim: " in output
    assert "1 Stack: no mistake" in output


def test_json_is_for_programs(tmp_path: Path) -> None:
    code, output = run(tmp_path, "lint", make({"a": {"manifest": CONFIG}}), options=("-o", "json"))

    assert (code, json.loads(output)) == (0, [])


@pytest.mark.parametrize("command", ["lint", "render"])
def test_a_compressed_file_is_read(tmp_path: Path, command: str) -> None:
    file = tmp_path / "stack.yaml.gz"
    file.write_bytes(gzip.compress(yaml.safe_dump(make({"a": {"manifest": CONFIG | {"data": {"x": "1"}}}})).encode()))
    runner = click.testing.CliRunner()

    named = runner.invoke(stack_group.stack, [command, "-f", str(file)])
    piped = runner.invoke(stack_group.stack, [command, "-f", "-"], input=file.read_bytes())

    assert (named.exit_code, piped.exit_code) == (0, 0)
    assert named.output == piped.output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            gzip.compress(b"kind: Stack")[:-9], "it is truncated, or inflates to more than 20 bytes", id="cut"
        ),
        pytest.param(gzip.compress(b"x" * 21), "it is truncated, or inflates to more than 20 bytes", id="large"),
        pytest.param(gzip.compress(b"\xff"), "is not valid UTF-8: invalid start byte at byte 0", id="no text"),
    ],
)
def test_a_broken_compressed_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    monkeypatch.setattr(limits, "IMPORT_BYTES", 20)
    file = tmp_path / "stack.yaml.gz"
    file.write_bytes(content)

    result = click.testing.CliRunner().invoke(stack_group.stack, ["lint", str(file)])

    assert result.exit_code == 1
    assert str(file) in result.output
    assert message in result.output


def test_fields_are_checked_by_schemas_of_a_folder(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    (schemas / "example.org").mkdir(parents=True)
    (schemas / "example.org" / "widget_v1.json").write_text(json.dumps(SCHEMA))
    (schemas / "deployment-apps-v1.json").write_text(json.dumps(SCHEMA))
    widget = {"manifest": {"apiVersion": "example.org/v1", "kind": "Widget", "spec": {"size": "large"}}}
    web = {"manifest": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"colour": "red", "size": 1}}}

    code, output = run(tmp_path, "lint", make({"w": widget, "t": web}), options=("--schemas", str(schemas)))

    assert code == 1
    assert "spec.template.resources.w.manifest.spec.size" in output
    assert "spec.template.resources.t.manifest.spec.colour" in output
    assert "spec.template.resources.t.manifest.spec.size" not in output
    assert run(tmp_path, "lint", make({"w": widget}))[0] == 0


POD = {"containers": [{"name": "a", "image": "b", "resources": {"limits": {"cpu": 1, "memory": "1Gx"}}}]}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {"selector": {}, "template": {"metadata": {}, "spec": POD}},
}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}


@pytest.mark.parametrize(
    ("manifest", "path", "message"),
    [
        (
            {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": "80"}]}},
            "spec.ports[0].port",
            "must be an integer, found the text '80'; remove the quotes",
        ),
        ({**BUDGET, "spec": {"maxUnavailble": 1}}, "spec.maxUnavailble", "did you mean 'maxUnavailable'?"),
        (
            DEPLOYMENT,
            "spec.template.spec.containers[0].resources.limits.memory",
            "must be a quantity, found the text '1Gx'; write a number with a unit, e.g. 500m or 2Gi",
        ),
        (CONFIG | {"data": {"a": "${other.metadata.nmae}"}}, "data.a", "did you mean 'name'?"),
        (
            CONFIG | {"kind": "Secret", "data": {"a": "hunter 2"}},
            "data.a",
            "must be base64, found a text in another form",
        ),
        ({"apiVersion": "v1", "kind": "List", "items": []}, "kind", "write each of its items as a resource"),
        ({"apiVersion": "apps/v1", "kind": "Deploymnt"}, "kind", "does not have; did you mean 'Deployment'?"),
    ],
    ids=["type", "field", "quantity", "expression", "base64", "list", "kind"],
)
def test_own_kinds_of_kubernetes_are_checked_without_a_cluster(
    tmp_path: Path, manifest: dict[str, Any], path: str, message: str
) -> None:
    code, output = run(tmp_path, "lint", make({"x": {"manifest": manifest}, "other": {"manifest": CONFIG}}))

    (line,) = [each for each in output.splitlines() if not each.startswith("warning")]
    assert code == 1
    assert f"spec.template.resources.x.manifest.{path}: " in line
    assert message in line
    assert "hunter" not in line


def test_what_only_a_cluster_knows_is_no_mistake(tmp_path: Path) -> None:
    code, output = run(
        tmp_path,
        "lint",
        make({"a": {"manifest": CONFIG}}, parameters={}, parametersFrom=[{"secretRef": {"name": "s"}}]),
    )

    assert (code, "mistake" in output) == (0, True)


def test_a_template_beside_the_stack_is_found(tmp_path: Path) -> None:
    stack = make_bare(templateRef={"name": "parts"}, parameters={})
    template = yaml.safe_dump({"resources": {"a": {"manifest": CONFIG | {"data": {"x": "${params.none}"}}}}})
    parts = CONFIG | {"metadata": {"name": "parts"}, "data": {"template.yaml": template}}

    assert "data.x" in run(tmp_path, "lint", stack, parts)[1]
    assert "is in configmap/parts; pass its file as well" in run(tmp_path, "lint", stack)[1]


def test_a_template_of_the_whole_cluster_beside_the_stack_is_found(tmp_path: Path) -> None:
    stack = make_bare(templateRef={"kind": "StackTemplate", "name": "web"}, parameters={"text": "geheim"})
    resources = {"a": {"manifest": CONFIG | {"data": {"x": "${params.text}"}}}}
    shared = make_shared(resources)
    code, output = run(tmp_path, "render", stack, shared)
    assert (code, next(yaml.safe_load_all(output))["data"]) == (0, {"x": "geheim"})
    assert "is in stacktemplate.hearth.dev/web; pass its file as well" in run(tmp_path, "lint", stack)[1]
    resources["a"]["manifest"]["data"]["x"] = "${params.none}"
    assert "resources.a.manifest.data.x" in run(tmp_path, "lint", stack, shared)[1]


def test_a_template_of_the_whole_cluster_is_linted_alone(tmp_path: Path) -> None:
    resources: dict[str, Any] = {"a": {"manifest": CONFIG | {"data": {"x": "${params.text}"}}}}
    shared = make_shared(resources)
    assert run(tmp_path, "lint", shared) == (0, "1 StackTemplate: no mistake\n")
    resources["a"]["manifest"]["data"]["x"] = "${params.none}"
    resources["a"]["dependOn"] = []
    code, output = run(tmp_path, "lint", shared)
    assert code == 1
    assert "stacktemplate/web: spec.template.resources.a.manifest.data.x" in output
    assert "did you mean 'dependsOn'" in output
    used = make_bare(templateRef={"kind": "StackTemplate", "name": "web"}, parameters={"text": "x"})
    resources["a"] = {"forEach": "reads", "manifest": CONFIG}
    resources["reads"] = {"externalRef": CONFIG | {"metadata": {"selector": {"matchLabels": {"a": "b"}}}}}
    assert run(tmp_path, "lint", used, shared) == (0, "1 Stack, 1 StackTemplate: no mistake\n")


def test_a_template_in_several_objects_is_found(tmp_path: Path) -> None:
    references = [{"name": "one", "key": "t.json.gz"}, {"name": "two"}]
    stack = make_bare(templateRefs=references, parameters={})
    first = {"resources": {"a": {"manifest": CONFIG | {"data": {"x": "1"}}}}}
    second = {"resources": {"b": {"manifest": CONFIG | {"data": {"x": "${params.none}"}}}}}
    one = CONFIG | {
        "metadata": {"name": "one"},
        "binaryData": {"t.json.gz": base64.b64encode(gzip.compress(yaml.safe_dump(first).encode())).decode()},
    }
    two = CONFIG | {"metadata": {"name": "two"}, "data": {"template.yaml": yaml.safe_dump(second)}}

    assert "spec.template.resources.b.manifest.data.x" in run(tmp_path, "lint", stack, one, two)[1]
    assert "shop-a" in run(tmp_path, "render", stack, one, two | {"data": {"template.yaml": "resources: {}"}})[1]
    found = run(tmp_path, "lint", stack, two | {"data": {"other.yaml": ""}})[1]
    assert "spec.templateRefs[0]: is in configmap/one; pass its file as well" in found
    assert "spec.templateRefs[1].key: configmap/two has no key 'template.yaml' in data; its keys: other.yaml" in found
    twice = run(tmp_path, "lint", stack, one, two | {"data": {"template.yaml": yaml.safe_dump(first)}})[1]
    assert "resources.a: is also in spec.templateRefs[0]" in twice


def test_manifests_are_rendered_without_secrets(tmp_path: Path) -> None:
    resources = {
        "db": {"manifest": CONFIG | {"data": {"password": "${params.password}"}}},
        "web": {"manifest": CONFIG | {"data": {"of": "${db.metadata.uid}"}}},
    }

    code, output = run(tmp_path, "render", make(resources))

    assert code == 0
    first, second = list(yaml.safe_load_all(output))
    assert first["metadata"] == {"name": "shop-db", "namespace": "default"}
    assert first["data"] == {"password": "(sensitive)"}
    assert second is None
    assert "# web: known after: db.metadata.uid" in output


@pytest.mark.parametrize("text", ["{", "kind: Pod", ""], ids=["no YAML", "no Stack", "empty"])
def test_files_without_a_stack_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)

    result = click.testing.CliRunner().invoke(stack_group.stack, ["lint", "-f", str(file)])

    assert result.exit_code == 1
    assert "x.yaml" in result.output


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        pytest.param(
            "parameters", {"p": {"type": ["string", "null"], "default": None}}, "parameters.p.type", id="two types"
        ),
        pytest.param("parameters", {"p": {"enum": "a"}}, "parameters.p.enum", id="no list"),
        pytest.param("parameters", {"p": {"description": 3}}, "parameters.p.description", id="no text"),
    ],
)
def test_a_template_that_the_api_server_rejects_is_a_mistake(tmp_path: Path, field: str, value: Any, path: str) -> None:
    stack = make({"a": {"manifest": CONFIG}})
    stack["spec"] = {"template": {**stack["spec"]["template"], field: value}}
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(stack))

    result = click.testing.CliRunner().invoke(stack_group.stack, ["lint", str(tmp_path / "shop.yaml")])

    assert result.exit_code == 1
    assert result.output.count(f"stack/shop: spec.template.{path}: ") == 1, result.output


@pytest.mark.parametrize("command", ["lint", "render", "diff"])
def test_all_files_that_cannot_be_read_are_reported(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.yaml").write_text("a: {")
    (tmp_path / "b.yaml").write_bytes(b"\xff")
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(make({"a": {"manifest": CONFIG, "when": "params.b"}})))

    named = [tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "none.yaml", tmp_path / "shop.yaml"]
    files = [part for each in named for part in ("-f", str(each))]
    result = click.testing.CliRunner().invoke(stack_group.stack, [command, *files])

    assert result.exit_code == (2 if command == "diff" else 1)
    for said in ("a.yaml is not valid YAML", "b.yaml is not valid UTF-8", "none.yaml: No such file"):
        assert said in result.output
    # The Stack in the readable file is checked anyway.
    assert ("spec.template.resources.a.when" in result.output) is (command == "lint")


def test_a_link_in_a_folder_is_not_followed_to_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "repository"
    (folder / "stacks").mkdir(parents=True)
    (folder / "shop.yaml").write_text(yaml.safe_dump(make({"a": {"manifest": CONFIG}})))
    (folder / "stacks" / "shop.yaml").symlink_to("../shop.yaml")
    monkeypatch.chdir(folder)
    runner = click.testing.CliRunner()

    within = runner.invoke(stack_group.stack, ["lint", "stacks"])
    (tmp_path / "secret.yaml").write_text("a: {")
    (folder / "stacks" / "secret.yaml").symlink_to("../../secret.yaml")
    outside = runner.invoke(stack_group.stack, ["lint", "stacks"])

    assert (within.exit_code, within.output) == (0, "1 Stack: no mistake\n")
    assert outside.exit_code == 1
    assert "cannot read stacks/secret.yaml: it is outside of the current folder and of stacks; run " in outside.output


@pytest.mark.parametrize(
    ("schema", "simple"),
    [
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"type": ["string", "integer"]}, {}),
        ({"items": {"type": ["null", "object"]}}, {"items": {"type": "object"}}),
    ],
)
def test_a_type_is_one_word(schema: dict[str, Any], simple: dict[str, Any]) -> None:
    assert schema_folder.simplify(schema) == simple


def test_a_file_that_is_no_schema_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "service-v1.json").write_text("[1")
    kinds = FolderKinds(tmp_path)
    service = kinds.find("v1", "Service")

    assert service is not None
    assert kinds.find_schema(service) is None


def test_sarif_names_file_line_and_rule(tmp_path: Path) -> None:
    wrong = {
        "a": {"manifest": CONFIG | {"data": {"x.y": "${params.none}"}}},
        "b": {"dependsOn": ["a", "c"], "manifest": CONFIG},
    }

    code, output = run(tmp_path, "lint", CONFIG, make(wrong), options=("-o", "sarif"))

    log = json.loads(output)
    (ran,) = log["runs"]
    rules = [rule["id"] for rule in ran["tool"]["driver"]["rules"]]
    lines = (tmp_path / "stack.yaml").read_text().splitlines()
    found = []
    for result in ran["results"]:
        (place,) = result["locations"]
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert place["physicalLocation"]["artifactLocation"] == {"uri": "DIR/stack.yaml"}
        found.append((result["ruleId"], lines[place["physicalLocation"]["region"]["startLine"] - 1].strip()))
    assert (code, log["version"]) == (1, "2.1.0")
    assert found == [("invalid-manifest", "x.y: ${params.none}"), ("invalid-dependency", "- c")]


def test_sarif_without_a_mistake_has_no_result(tmp_path: Path) -> None:
    code, output = run(tmp_path, "lint", make({"a": {"manifest": CONFIG}}), options=("-o", "sarif"))

    assert (code, json.loads(output)["runs"][0]["results"]) == (0, [])


def test_the_hook_accepts_files_without_a_stack() -> None:
    (hook,) = yaml.safe_load((repository.ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = hook["entry"].split()
    runner = click.testing.CliRunner()

    accepted = runner.invoke(stack_group.stack, [*arguments, str(repository.DATA / "running.yaml")])
    rejected = runner.invoke(stack_group.stack, arguments[:1])

    assert (program, accepted.exit_code, accepted.output) == ("kubectl-stack", 0, "0 Stacks: no mistake\n")
    assert rejected.exit_code == 2
    assert "specify a file" in rejected.output


def test_the_outputs_in_the_docs_are_those_of_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository.ROOT)
    page = (repository.DOCS / "kubectl-stack.md").read_text()
    blocks = [block for block in page.split("```")[1::2] if "\n$ kubectl stack lint" in block]
    sessions = [part.splitlines() for block in blocks for part in block.strip().removeprefix("$ ").split("\n$ ")]
    assert len(sessions) >= 2
    for command, *shown in sessions:
        arguments = command.removeprefix("kubectl stack ").split()
        written = click.testing.CliRunner().invoke(stack_group.stack, arguments).output.splitlines()
        pattern = "".join(".*\n" if line == "…" else re.escape(line) + "\n" for line in shown)
        assert re.match(pattern, "\n".join(written) + "\n", re.DOTALL), command


def make_group(manifest: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A ResourceGroup next to the Stacks."""
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "ResourceGroup",
        "metadata": {"name": "workers"},
        "spec": {"replicas": 2, "template": {"manifest": {**CONFIG, **manifest}}} | spec,
    }


def test_groups_are_checked_as_stacks_are(tmp_path: Path) -> None:
    group = make_group(
        {"metadata": {"name": "same"}, "data": {"size": "${params.size}"}},
        removalPolicies=[{"resources": ["01"]}],
        rollingUpdate={"maxBatchSize": 0},
    )
    code, output = run(tmp_path, "lint", make({"a": {"manifest": CONFIG}}), group)
    lines = output.splitlines()
    assert code == 1
    assert [line.removeprefix("DIR/stack.yaml: resourcegroup/workers: ").partition(": ")[0] for line in lines] == [
        "spec.removalPolicies[0].resources[0]",
        "spec.template.manifest.metadata.name",
        "spec.rollingUpdate.maxBatchSize",
        "spec.template.manifest.data.size",
    ]


def test_a_minimum_above_the_size_of_a_group_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    group = make_group({}, rollingUpdate={"minInService": 3})
    _, output = run(tmp_path, "lint", make({"a": {"manifest": CONFIG}}), group, options=("-o", "json"))
    (mistake,) = json.loads(output)
    text = (tmp_path / "stack.yaml").read_text().splitlines()
    assert (mistake["kind"], mistake["path"]) == ("ResourceGroup", "spec.rollingUpdate.minInService")
    assert "minInService: 3" in text[mistake["line"] - 1]


def test_the_members_of_a_group_are_rendered(tmp_path: Path) -> None:
    group = make_group({"data": {"i": "${key}"}}, removalPolicies=[{"resources": ["0"]}])
    _, output = run(tmp_path, "render", group)
    found = [each["metadata"]["name"] for each in yaml.safe_load_all(output)]
    assert found == ["workers-1", "workers-2"]
    assert run(tmp_path, "lint", group) == (0, "1 ResourceGroup: no mistake\n")


@pytest.mark.parametrize("command", ["lint", "render"])
def test_what_the_operator_evaluates_elsewhere_is_evaluated_here_too(tmp_path: Path, command: str) -> None:
    lines = "${params.list.map(i, 'line-' + string(i)).join(',')}"
    slow = "${string(params.list.map(x, params.list.map(y, params.list.map(z, x + y + z))).size())}"
    stack = make({"a": {"manifest": {**CONFIG, "data": {"lines": lines}}}})
    stack["spec"]["parameters"] = {"list": list(range(1_500))}
    stack["spec"]["template"]["parameters"] = {"list": {"type": "array"}}

    code, output = run(tmp_path, command, stack)
    assert code == 0
    assert ("line-1499" if command == "render" else "no mistake") in output

    stack["spec"]["template"]["resources"]["a"]["manifest"]["data"]["slow"] = slow
    code, output = run(tmp_path, command, stack)
    assert code == 1
    assert "data.slow: expression took more than" in output


CHAIN: dict[str, Any] = {
    "web": {"manifest": {**CONFIG, "data": {"a": "${params.key}", "b": "plain"}}},
    "certain": {"manifest": {**CONFIG, "data": {"named": "${web.metadata.name}", "b": "${web.data.b}"}}},
    "secret": {"manifest": {**CONFIG, "data": {"copy": "${web.data.a}"}}},
    "later": {"manifest": {**CONFIG, "data": {"u": "${web.metadata.uid}"}}},
    "labels": {"manifest": {**CONFIG, "data": {"u": "${string(size(web.metadata.labels))}"}}},
    "maybe": {"manifest": {**CONFIG, "data": {"u": "${web.metadata.?labels.?x.orValue('none')}"}}},
}


def test_what_is_certain_is_rendered(tmp_path: Path) -> None:
    stack = make(CHAIN)
    stack["spec"]["template"]["parameters"] = {"key": {"type": "string"}}
    stack["spec"]["parametersFrom"] = [{"secretRef": {"name": "db"}}]
    stack["spec"]["parameters"] = {}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "stringData": {"key": "ab"}}

    code, output = run(tmp_path, "render", stack, secret)

    shown = {each.partition("\n")[0].removeprefix("# "): each for each in output.split("---\n")[1:]}
    assert code == 0
    assert "a: (sensitive)" in shown["web"]
    assert "b: plain" in shown["web"]
    assert "named: shop-web" in shown["certain"]
    assert "b: plain" in shown["certain"]
    assert "copy: (sensitive)" in shown["secret"]
    assert "later: known after: web.metadata.uid" in shown
    assert any(each.startswith("labels: known after: web.metadata.labels") for each in shown)
    assert any(each.startswith("maybe: known after: ") for each in shown)


def test_what_is_only_read_is_given_by_a_file(tmp_path: Path) -> None:
    resources = {
        "platform": {"externalRef": {**CONFIG, "metadata": {"name": "platform"}}},
        "token": {"externalRef": {**CONFIG, "kind": "Secret", "metadata": {"name": "token"}}},
        "teams": {"externalRef": {**CONFIG, "metadata": {"selector": {"matchLabels": {"role": "team"}}}}},
        "web": {"manifest": {**CONFIG, "data": {"d": "${platform.data.domain}", "t": "${token.data.key}"}}},
        "quota": {"forEach": "teams", "manifest": {**CONFIG, "data": {"team": "${item.metadata.name}"}}},
    }
    stack = make(resources)
    code, output = run(tmp_path, "render", stack)
    assert code == 0
    assert "# quota: known after: teams (pass them with --external)" in output
    assert "# web: known after: platform.data.domain, token.data.key" in output

    items = [
        {**CONFIG, "metadata": {"name": "platform"}, "data": {"domain": "example.org"}},
        {**CONFIG, "kind": "Secret", "metadata": {"name": "token"}, "data": {"key": "aHVudGVyMg=="}},
        {**CONFIG, "metadata": {"name": "red", "labels": {"role": "team"}}},
        {**CONFIG, "metadata": {"name": "blue", "labels": {"role": "team"}}},
        {**CONFIG, "metadata": {"name": "far", "namespace": "other", "labels": {"role": "team"}}},
    ]
    file = tmp_path / "external.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    code, output = run(tmp_path, "render", stack, options=("--external", str(file)))
    assert code == 0
    assert "d: example.org" in output
    assert "t: (sensitive)" in output
    assert "aHVudGVyMg==" not in output
    assert [line for line in output.splitlines() if line.startswith("# quota")] == ["# quota[blue]", "# quota[red]"]


def test_a_folder_is_read_as_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(make({"a": {"manifest": CONFIG}})))
    (tmp_path / "notes.txt").write_text("{")
    done = click.testing.CliRunner().invoke(stack_group.stack, ["lint", "-f", str(tmp_path)])

    assert (done.exit_code, done.output) == (0, "1 Stack: no mistake\n")


def test_a_mistake_in_a_nested_template_is_found(tmp_path: Path) -> None:
    inner = {"resources": {"c": {"manifest": {**CONFIG, "data": {"a": "${servce.metadata.name}"}}}}}
    spec = {"parameters": {"p": "${web.metadata.name}"}, "template": {"parameters": {"p": {"type": "string"}}, **inner}}
    nested = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "spec": spec}

    code, output = run(tmp_path, "lint", make({"web": {"manifest": CONFIG}, "in": {"manifest": nested}}))

    assert code == 1
    assert "spec.template.resources.in.manifest.spec.template.resources.c.manifest.data.a" in output
    assert "'servce' is not defined" in output


# ---------------------------------------------------------------- the Stack in the cluster


class LiveStack:
    """The part of a session that reads one Stack."""

    def __init__(self, stack: dict[str, Any]) -> None:
        self._stack = stack

    async def find(self, _kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        """The Stack, in one namespace."""
        return self._stack if (namespace, name) == ("prod", "shop") else None


@pytest.mark.parametrize(
    ("former", "namespace", "is_warned"),
    [("db", "prod", True), ("database", "prod", False), ("db", "elsewhere", False)],
    ids=["renamed", "as before", "new there"],
)
async def test_a_renamed_set_is_warned_about(
    capsys: pytest.CaptureFixture[str], former: str, namespace: str, *, is_warned: bool
) -> None:
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}
    stateful_set = {"manifest": {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": claims}}
    live = cast("Session", LiveStack(make({former: stateful_set})))
    written = StackFile(source="stack.yaml", manifest=make({"database": stateful_set}), beside=())

    found = await file_commands.add_former(live, written, namespace=namespace)
    with file_commands.evaluating() as evaluator:
        file_commands.check_template(found, FolderKinds(None), evaluator)

    assert ("new StatefulSet without the data of db" in capsys.readouterr().err) is is_warned
