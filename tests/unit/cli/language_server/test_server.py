"""The language server as an editor sees it: a real process, the protocol, and half-written files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest

from hearth.cli import main
from hearth.model import limits
from support.real.language_client import CURSOR, LanguageClient

URI = "file:///work/shop.yaml"
HEAD = """apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: shop}
spec:
  parameters: {image: nginx}
  template:
    parameters:
      image: {type: string, description: The image of the web server.}
      password: {type: string, sensitive: true, default: geheim}
    conditions: {big: params.image == 'a'}
    resources:
      web:
        manifest:
          apiVersion: apps/v1
          kind: Deployment
          spec: {replicas: 1}
      config:
        when: conditions.big
        dependsOn: [web]
        manifest:
          apiVersion: v1
          kind: ConfigMap
          data:
"""


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageClient]:
    with LanguageClient(folder=tmp_path_factory.mktemp("editor")) as client:
        yield client


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a: ${‸", ["params", "conditions", "stack", "web", "config"]),
        ("a: ${‸}", ["params", "conditions", "stack", "web", "config"]),
        ('a: "${‸', ["params", "conditions", "stack", "web", "config"]),
        ("a: '${w‸", ["web"]),
        ('a: "x ${params.‸', ["image", "password"]),
        ('a: "${params.image} ${params.pa‸}"', ["password"]),
        ("a: ${stack.n‸", ["name", "namespace"]),
        ("a: ${web.spec.repl‸}", ["replicas"]),
        ("a: ${web.spec.template.spec.containers[0].imag‸", ["image", "imagePullPolicy"]),
        ("a: \"${web.?spec.?repl‸", ["replicas"]),
        ("\ta: ${params.im‸", ["image"]),
        ("a: '😀 ${params.im‸", ["image"]),
        ("a: {b: ['${params.im‸", ["image"]),
        ("a: ${size('web.‸", []),
        ("a: $${params.‸", []),
        ("a: params.‸", []),
    ],
    ids=["open", "closed", "quoted", "prefix", "in-text", "second", "stack", "schema", "item", "optional", "tab", "emoji",
         "flow", "in-a-text", "literal", "no-expression"],
)  # fmt: skip
def test_words_are_offered_while_an_expression_is_written(
    editor: LanguageClient, line: str, expected: list[str]
) -> None:
    indent = "" if line.startswith("\t") else " " * 12

    assert editor.complete(URI, f"{HEAD}{indent}{line}") == expected
    assert editor.complete(URI, f"{HEAD}{indent}{line}\n    outputs: {{}}\n") == expected


@pytest.mark.parametrize("field", ["when: ", "forEach: ", "key: '", "readyWhen: [", "failedWhen:\n          - "])
def test_words_are_offered_in_fields_that_are_expressions(editor: LanguageClient, field: str) -> None:
    text = HEAD.replace("when: conditions.big", f"{field}params.im{CURSOR}")

    assert editor.complete(URI, text) == ["image"]


def test_values_are_offered_with_the_types_of_their_expressions(editor: LanguageClient) -> None:
    values = "    values: {ports: \"{'http': 80}\", all: \"[values.ports]\", title: params.image + 'x', net: params}\n"
    text = HEAD.replace("    resources:\n", f"{values}    resources:\n")

    def complete(written: str) -> list[str]:
        return editor.complete(URI, f"{text}            a: ${{{written}{CURSOR}")

    def hover(written: str) -> str:
        return str(editor.ask_at("hover", URI, f"{text}            a: ${{{written}}}\n")["contents"]["value"])

    assert complete("va") == ["values"]
    assert complete("values.") == ["all", "net", "ports", "title"]
    assert complete("values.net.im") == ["image"]
    assert editor.complete(
        URI, HEAD.replace("    resources:\n", f"    values:\n      a: '1'\n      b: values.{CURSOR}\n    resources:\n")
    ) == ["a", "b"]
    assert hover(f"values.ti{CURSOR}tle") == "value `title`: string"
    assert hover(f"values.al{CURSOR}l") == "value `all`: array"
    assert editor.complete(URI, f"{HEAD}            a: ${{va{CURSOR}") == []


def test_only_a_member_has_the_names_of_its_element(editor: LanguageClient) -> None:
    text = HEAD.replace("when: conditions.big", "forEach: params.list") + f"            a: ${{it{CURSOR}"

    assert editor.complete(URI, text) == ["item"]
    assert editor.complete(URI, text.replace("forEach", "other")) == []


def test_an_open_quote_in_another_line_hides_no_name(editor: LanguageClient) -> None:
    text = HEAD.replace("{replicas: 1}", '{replicas: "1}') + f"            a: ${{co{CURSOR}"

    assert editor.complete(URI, text) == ["conditions", "config"]


def test_quotes_after_an_open_one_hide_no_name(editor: LanguageClient) -> None:
    quoted = "".join(f'            k{number}: "a"\n' for number in range(30))
    text = f'{HEAD}            open: "a\n{quoted}      last: {{}}\n    outputs: {{x: {{value: "${{la{CURSOR}'

    assert editor.complete(URI, text) == ["last"]


def test_an_alias_is_one_value(editor: LanguageClient) -> None:
    text = HEAD.replace("{replicas: 1}", "&a {replicas: 1}").replace("dependsOn: [web]", "retry: *a")

    assert editor.complete(URI, f"{text}            a: ${{co{CURSOR}") == ["conditions", "config"]


def test_an_open_expression_ends_where_the_next_key_begins(editor: LanguageClient) -> None:
    assert editor.complete(URI, f"{HEAD}            a: ${{params\n            b: pa{CURSOR}") == []


def test_each_document_has_its_own_names(editor: LanguageClient) -> None:
    other = HEAD.replace("image", "picture")
    text = f"a: [1\n---\n{HEAD}            a: ${{params.im{CURSOR}}}\n---\n{other}"

    assert editor.complete(URI, f"{HEAD}---\n{other}            a: ${{params.{CURSOR}") == ["password", "picture"]
    assert editor.complete(URI, text) == ["image"]


def test_a_file_cut_anywhere_has_an_answer(editor: LanguageClient) -> None:
    for end in range(0, len(HEAD), 41):
        answer = editor.ask_at("completion", URI, HEAD[:end] + CURSOR)
        assert answer is None or isinstance(answer, list)


def test_hover_shows_type_and_purpose_but_no_secret(editor: LanguageClient) -> None:
    def hover(written: str) -> str:
        return str(editor.ask_at("hover", URI, f"{HEAD}            a: ${{{written}}}\n")["contents"]["value"])

    assert hover(f"params.im{CURSOR}age") == "parameter `image`: string\n\nThe image of the web server."
    assert hover(f"params.pass{CURSOR}word") == "parameter `password`: string, sensitive"
    assert hover(f"we{CURSOR}b.spec") == "resource `web`: Deployment (apps/v1)"
    assert hover(f"'{'😀' * 20}' + params.im{CURSOR}age") == "parameter `image`: string\n\nThe image of the web server."
    assert hover(f"web.spec.repl{CURSOR}icas") == "`web.spec.replicas`: integer (DeploymentSpec.replicas)"


def test_a_file_that_is_no_stack_is_left_alone(editor: LanguageClient) -> None:
    uri = "file:///work/other.yaml"

    assert editor.complete(uri, f"kind: ConfigMap\ndata: {{a: '${{{CURSOR}") == []
    assert editor.wait_diagnostics(uri) == []


def test_a_file_that_is_not_open_is_not_read(editor: LanguageClient, tmp_path: Path) -> None:
    file = tmp_path / "stack.yaml"
    file.write_text(HEAD)

    for method in ("completion", "hover", "definition", "prepareRename"):
        place = {"textDocument": {"uri": file.as_uri()}, "position": {"line": 11, "character": 7}}
        assert editor.ask(f"textDocument/{method}", **place) is None


# ---------------------------------------------------------------- lint


WRONG = (
    HEAD.replace("image: nginx", "image: 1")
    + "            🎉: '😀${bew.metadata.name}'\n            b: ${params.imgae}\n"
)


def lint(folder: Path, text: str) -> list[str]:
    """The sentences of `kubectl stack lint`, without the file in front."""
    file = folder / "stack.yaml"
    file.write_text(text)
    written = click.testing.CliRunner().invoke(main.main, ["stack", "lint", "-f", str(file)])
    return [
        line.removeprefix("warning: ").removeprefix("note: ").removeprefix(f"{file}: ").removeprefix(f"error: {file} ")
        for line in (written.stdout + written.stderr).splitlines()
    ]


@pytest.mark.parametrize(
    "text",
    [
        WRONG,
        f"{WRONG}---\n{WRONG.replace('shop', 'other')}",
        f"{HEAD}            a: ${{\n",
        f'{HEAD}            a: "${{par\n',
        f"{HEAD}\tx: 1\n",
        WRONG.replace("kind: Stack", "kind: StackTemplate"),
        HEAD.replace("kind: ConfigMap", "kind: Secret") + "            password: YQ==\n",
        HEAD.replace("parameters: {image: nginx}", "parametersFrom: [{configMapRef: {name: a}}]")
        + "            a: b\n",
    ],
    ids=["mistakes", "two-documents", "open-expression", "open-quote", "tab", "template", "warning", "note"],
)
def test_findings_are_the_sentences_of_lint(editor: LanguageClient, tmp_path: Path, text: str) -> None:
    editor.write(uri := f"file:///work/{tmp_path.name}.yaml", text)

    assert sorted(each["message"] for each in editor.wait_diagnostics(uri)) == sorted(lint(tmp_path, text)) != []


@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_a_finding_stands_at_its_field(editor: LanguageClient, line_break: str) -> None:
    editor.write(uri := f"file:///work/{len(line_break)}.yaml", WRONG.replace("\n", line_break))

    found = {each["code"]: each["range"] for each in editor.wait_diagnostics(uri)}

    line = WRONG.splitlines().index("  parameters: {image: 1}")
    assert found["invalid-parameter"] == make_range(line, 15, 20)
    # The emoji has two units.
    assert found["invalid-manifest"]["end"]["character"] in (13, 14)


def make_range(line: int, start: int, end: int) -> dict[str, Any]:
    """A range within a line."""
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def test_invalid_yaml_is_shown_where_it_begins(editor: LanguageClient) -> None:
    uri = "file:///work/quote.yaml"
    editor.write(uri, HEAD.replace("{replicas: 1}", '"{replicas: 1}'))

    (found,) = editor.wait_diagnostics(uri)

    assert found["range"]["start"]["line"] == HEAD[: HEAD.index("{replicas")].count("\n")


def test_lint_survives_the_end_of_its_process(editor: LanguageClient) -> None:
    uri = "file:///work/killed.yaml"
    editor.write(uri, WRONG)
    expected = editor.wait_diagnostics(uri)
    pid = editor.process.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)

    editor.write(uri, WRONG + "\n")
    first = editor.wait_diagnostics(uri)
    editor.write(uri, WRONG)

    assert first == expected or "takes too long" in first[0]["message"]
    assert editor.wait_diagnostics(uri) == expected


# ---------------------------------------------------------------- hostile input


HOSTILE = {
    "alias-bomb": "a: &a [x]\n"
    + "".join(f"b{i}: &b{i} [*{'a' if not i else f'b{i - 1}'}" + ", *a]\n" for i in range(60)),
    "deep-flow": "[" * 50_000,
    "deep-block": "".join(f"{' ' * i}a:\n" for i in range(2_000)),
    "huge": "a: " + "x" * (2 * limits.SOURCE_BYTES),
    "long-line": "a: " + "${" * 20_000,
    "control": "a: \x00\x08\ud83d\u2028\ufeff",
    "directives": "%TAG ! x\n" * 1_000,
    "quotes": 'a: "\n' * 500,
}


@pytest.mark.parametrize(
    "written", ["(" * 100_000, "a+" * 2_000 + "a", "[" * 2_000, "x." * 50_000], ids=["parens", "sum", "lists", "path"]
)
def test_a_hostile_expression_is_survived(editor: LanguageClient, written: str) -> None:
    text = HEAD.replace("when: conditions.big", f'when: "web{written}"')

    for method in ("completion", "hover", "definition"):
        answer = editor.ask_at(method, URI, text.replace('"web', f'"we{CURSOR}b'))
        assert not answer or "code" not in answer
    refusal = editor.ask_at("rename", URI, text.replace("      web:", f"      we{CURSOR}b:"), newName="front")
    assert "cannot be parsed" in refusal.get("message", "") or len(refusal["changes"][URI]) == 3


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_survived(editor: LanguageClient, name: str) -> None:
    uri = f"file:///work/{name}.yaml"
    text = f"# hearth.dev\n{HOSTILE[name]}"

    for method in ("completion", "hover", "definition"):
        answer = editor.ask_at(method, uri, text + CURSOR)
        assert not answer or "code" not in answer
    editor.wait_diagnostics(uri)

    assert editor.complete(URI, f"{HEAD}            a: ${{params.im{CURSOR}") == ["image"]


def test_a_file_that_is_too_large_has_no_answer(editor: LanguageClient) -> None:
    padding = "#" * limits.SOURCE_BYTES

    assert editor.ask_at("completion", URI, f"{HEAD}            a: ${{{CURSOR}}}\n{padding}") is None


@pytest.mark.parametrize(("is_utf8", "units"), [(False, 2), (True, 4)], ids=["utf-16", "utf-8"])
def test_positions_are_in_the_units_of_the_editor(tmp_path: Path, units: int, *, is_utf8: bool) -> None:
    text = f"{HEAD}            a: '😀😀${{params.im{CURSOR}age}}'\n"

    with LanguageClient(folder=tmp_path, is_utf8=is_utf8) as editor:
        found = editor.ask_at("prepareRename", URI, text)

    start = len("            a: '${params.") + 2 * units
    assert found == make_range(HEAD.count("\n"), start, start + len("image"))


def test_a_session_leaves_no_file_and_no_text_behind(tmp_path: Path) -> None:
    with LanguageClient("--stdio", folder=tmp_path) as editor:
        editor.write(URI, f"{HEAD}            a: ${{\n")
        editor.wait_diagnostics(URI)
        editor.ask_at("rename", URI, HEAD.replace("password", f"pass{CURSOR}word"), newName="geheim-2")
        editor.tell("textDocument/hover", textDocument="geheim-3")
        editor.ask("textDocument/unknown", password="geheim-4")

        assert editor.end() == 0
        assert "geheim" not in editor.errors
        assert list(tmp_path.iterdir()) == []


def test_without_the_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hearth.cli.language_server.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls", None)

    result = click.testing.CliRunner().invoke(main.main, ["lsp"])

    assert result.exit_code == 1
    assert result.stderr == "Error: pygls is not installed; run pip install 'hearth[lsp]'\n"


def test_a_cluster_that_does_not_answer_ends_the_command(tmp_path: Path) -> None:
    result = click.testing.CliRunner().invoke(main.main, ["lsp", "--cluster", "--kubeconfig", str(tmp_path / "none")])

    assert result.exit_code == 1
    assert result.stderr == f"Error: no kubeconfig at {tmp_path}/none; pass one with --kubeconfig\n"


LINT = """
import asyncio, sys
from hearth.cli.language_server import server
from hearth.cli.language_server.kinds_source import KindsSource
found = asyncio.run(server.Linter(KindsSource()).find(sys.argv[1]))
sys.exit(any(each["message"] == server.LOST for each in found))
"""


def test_the_folder_of_the_editor_provides_no_code(tmp_path: Path) -> None:
    evidence = tmp_path / "ran"
    (tmp_path / "hearth").mkdir()
    (tmp_path / "hearth" / "__init__.py").write_text(f"open({str(evidence)!r}, 'w')")

    subprocess.run([sys.executable, "-P", "-c", LINT, HEAD], cwd=tmp_path, check=True)

    assert not evidence.exists()
