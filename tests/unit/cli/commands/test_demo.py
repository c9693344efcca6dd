"""`hearth demo` as a command: what it refuses before it touches anything. What it shows is seen on a real API server."""

from __future__ import annotations

from pathlib import Path

import click.testing
import pytest

from hearth.cli import main
from hearth.cli.commands import demo
from hearth.cli.demo import demo_cluster

STACK = "apiVersion: hearth.dev/v1alpha1\nkind: Stack\nmetadata: {name: shop}\nspec: {}\n"
OTHER = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"


def run(folder: Path, content: str | None) -> click.testing.Result:
    file = folder / "example.yaml"
    if content is not None:
        file.write_text(content)
    arguments = ["demo", "--kubeconfig", str(folder / "none"), "--example", str(file)]
    return click.testing.CliRunner().invoke(main.main, arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "No such file or directory", id="no file"),
        pytest.param("a: [", "is not valid YAML: line 2, column 1", id="no YAML"),
        pytest.param(OTHER, "must hold one Stack, found 0", id="no Stack"),
        pytest.param(f"{STACK}---\n{STACK}", "must hold one Stack, found 2", id="two Stacks"),
        pytest.param("kind: Stack\n", "must hold one Stack, found 0", id="another client's kind"),
        pytest.param(STACK, "no kubeconfig at", id="no cluster"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_sentence(tmp_path: Path, content: str | None, message: str) -> None:
    """With the file, and without a stack of Python's."""
    result = run(tmp_path, content)

    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


def test_the_stack_goes_where_it_says(tmp_path: Path) -> None:
    """And elsewhere only where it says nothing."""
    plain, placed = tmp_path / "plain.yaml", tmp_path / "placed.yaml"
    plain.write_text(f"{OTHER}---\n{STACK}")
    placed.write_text(STACK.replace("{name: shop}", "{name: shop, namespace: prod}"))

    assert demo.read_stack(str(plain), namespace="test")["metadata"] == {"name": "shop", "namespace": "test"}
    assert demo.read_stack(str(placed), namespace="test")["metadata"] == {"name": "shop", "namespace": "prod"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"conditions": [{"type": "Established", "status": "False"}]}, False),
        ({"conditions": [{"type": "NamesAccepted", "status": "True"}]}, False),
        ({"conditions": [{"type": "Established", "status": "True"}]}, True),
    ],
    ids=["new", "not yet", "half", "served"],
)
def test_a_definition_is_established_when_it_says_so(status: dict[str, object], *, expected: bool) -> None:
    """Before that the API server answers 404."""
    assert demo_cluster.is_established({"status": status}) is expected
