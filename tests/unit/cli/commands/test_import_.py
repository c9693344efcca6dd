"""`hearth import` as a command: it reads files, writes a Stack, and reports problems on standard error."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path

import click.testing
import pytest

from hearth.cli import main
from hearth.cli.commands import import_
from hearth.template.text import kubectl_yaml

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def run(*arguments: str, text: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main.main, ["import", *arguments], input=text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "Online_Boutique.yaml"
    path.write_text(CONFIG)
    return path


def test_the_stack_is_printed(file: Path) -> None:
    result = run(str(file))

    assert result.exit_code == 0
    assert result.stderr == ""
    (document,) = kubectl_yaml.parse_documents(result.stdout)
    assert document.value == {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "online-boutique"},
        "spec": {
            "template": {
                "resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}}
            }
        },
    }


def test_standard_input_is_read(file: Path) -> None:
    result = run("-", str(file), "--name", "shop", "--namespace", "prod", text=CONFIG.replace("a}", "b}"))

    (document,) = kubectl_yaml.parse_documents(result.stdout)
    assert list(document.value["spec"]["template"]["resources"]) == ["b", "a"]
    assert document.value["metadata"] == {"name": "shop", "namespace": "prod"}


def test_standard_input_alone_has_a_name_too() -> None:
    assert "name: imported" in run("-", text=CONFIG).stdout


@pytest.mark.parametrize(
    ("file", "name"),
    [
        pytest.param("data/01-Online_Boutique.yaml.gz", "online-boutique", id="words"),
        pytest.param("00-all.yaml", "all", id="a number that orders files says nothing"),
        pytest.param("00-10-all.yaml", "all", id="two numbers"),
        pytest.param("3scale.yaml", "n3scale", id="begins with a digit"),
        pytest.param("2048.yaml", "n2048", id="nothing but digits"),
        pytest.param("日本.yaml", "imported", id="nothing to use"),
        pytest.param("a" * 62 + "-b.yaml", "a" * 62, id="too long"),
        pytest.param("v1.2.3.yaml", "v1-2-3", id="a version"),
    ],
)
def test_a_stack_is_named_after_its_file(file: str, name: str) -> None:
    assert import_.name_after(file) == name


def test_warnings_do_not_disturb_the_stack() -> None:
    result = run("-", text=CONFIG.replace("{name: a}", "{}"))

    assert result.exit_code == 0
    assert result.stderr.startswith("warning: standard input, document 1 (line 1): ConfigMap has no name")
    assert "warning" not in result.stdout


def test_mistakes_are_all_reported_and_nothing_is_printed(file: Path) -> None:
    result = run(str(file), "-", text="kind: A\n---\nkind: B\n")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["error", "error"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("missing.yaml", None, "No such file or directory", id="not there"),
        pytest.param("binary.yaml", b"\xff\xfe", "is not valid UTF-8: invalid start byte at byte 0", id="no text"),
        pytest.param("", None, "there is no .yaml, .yml, .json file in folder", id="an empty folder"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    result = run(str(path))

    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert message in result.stderr


@pytest.mark.parametrize("name", ["My-Shop", "shop_1", "-shop", "00-all", "3scale", "x" * 64])
def test_a_name_that_kubernetes_would_refuse_is_refused_at_once(name: str) -> None:
    result = run("-", "--name", name, text=CONFIG)

    assert result.exit_code == 2
    assert (
        "must be at most 63 lower-case letters, digits and dashes and begin with a letter, e.g. my-shop"
        in result.stderr
    )


def test_help_says_how_it_is_used() -> None:
    assert "kubectl stack import shop.yaml database.yaml > stack.yaml" in run("--help").stdout


def test_a_file_name_cannot_leave_the_comment(tmp_path: Path) -> None:
    path = tmp_path / "a\n---\nkind: Evil\n.yaml"
    path.write_text(CONFIG)

    result = run(str(path), "--name", "shop")

    (document,) = kubectl_yaml.parse_documents(result.stdout)
    assert document.value["kind"] == "Stack"
    assert "a\\n---\\nkind: Evil" in result.stdout.splitlines()[0]


def test_a_file_name_cannot_write_lines_into_a_complaint(tmp_path: Path) -> None:
    path = tmp_path / "a\nerror: all is well.yaml"
    missing = run(str(path))
    path.write_text("[")

    complaints = [missing.stderr, run(str(path)).stderr]

    assert ["\nerror: all is well" in complaint for complaint in complaints] == [False, False]


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml.gz"
    path.write_bytes(gzip.compress(CONFIG.encode()))

    (document,) = kubectl_yaml.parse_documents(run(str(path)).stdout)

    assert document.value["metadata"] == {"name": "shop"}


def test_a_broken_compressed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml.gz"
    path.write_bytes(gzip.compress(CONFIG.encode())[:-12])

    result = run(str(path))

    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: cannot decompress {path}: it is truncated")


def test_a_large_stack_is_written_in_several_objects(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    source = random.Random(3)
    path.write_text(
        "---\n".join(
            CONFIG.replace("a}", f"c{number}}}\ndata: {{x: {source.randbytes(9_000).hex()}}}") for number in range(30)
        )
    )

    result = run(str(path))

    *maps, stack = (document.value for document in kubectl_yaml.parse_documents(result.stdout))
    assert result.stderr.startswith(
        f"note: the template is too large for one object: it is stored in {len(maps)} compressed"
    )
    assert [each["name"] for each in stack["spec"]["templateRefs"]] == [each["metadata"]["name"] for each in maps]


def test_no_manifest_commands_the_terminal() -> None:
    hostile = '"\\e]0;PWNED\\a \\u202Egpj.exe\\u200B"'
    mistaken = run("-", text=CONFIG.replace("{name: a}", "{name: " + hostile + "}"))
    assert mistaken.exit_code == 1
    assert "PWNED" in mistaken.stderr
    taken = run("-", text=CONFIG + f"data: {{k: {hostile}}}\n")
    assert taken.exit_code == 0
    assert "PWNED" in taken.stdout
    for written in (mistaken.output, taken.output):
        assert all(each.isprintable() or each == "\n" for each in written)
    (document,) = kubectl_yaml.parse_documents(taken.stdout)
    manifest = document.value["spec"]["template"]["resources"]["a"]["manifest"]
    assert manifest["data"] == {"k": "\x1b]0;PWNED\x07 \u202egpj.exe\u200b"}


def test_a_folder_is_read_with_the_folders_in_it(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.yml", "a/b/c.json", ".git/x.yaml", "notes.txt"):
        file = tmp_path / "shop" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        named = re.sub("[^a-z]", "", name)
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": named}}))

    result = run(str(tmp_path / "shop"))

    stack = next(kubectl_yaml.parse_documents(result.stdout)).value
    assert stack["metadata"]["name"] == "shop"
    names = [each["manifest"]["metadata"]["name"] for each in stack["spec"]["template"]["resources"].values()]
    assert names == ["abcjson", "azyml", "byaml"]
