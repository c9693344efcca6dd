"""`kubectl stack` itself: what it lists, that its help costs nothing, and completion as kubectl asks for it."""

from __future__ import annotations

import subprocess
import sys

import click.testing
import pytest

from hearth.cli import main
from hearth.cli.stack_commands import stack_group
from support.real import stack_command


def test_every_subcommand_has_help_with_examples() -> None:
    """Which can be pasted."""
    for name in stack_group.COMMANDS:
        result = click.testing.CliRunner().invoke(stack_group.stack, [name, "--help"])

        assert result.exit_code == 0, result.output
        assert "Examples:\n  kubectl stack " in result.output, name


def test_it_is_also_a_subcommand_of_hearth() -> None:
    """For those without kubectl."""
    result = click.testing.CliRunner().invoke(main.main, ["stack", "--help"])

    assert "  rollback " in result.output


@pytest.mark.parametrize(
    "arguments", ["--help", "list --help", "retry --help", "tree --help", "ui --help", "wait --help"]
)
def test_help_loads_no_client(arguments: str) -> None:
    """It has to be there at once."""
    program = (
        "import sys, click.testing\nfrom hearth.cli.stack_commands import stack_group\n"
        f"click.testing.CliRunner().invoke(stack_group.stack, {arguments.split()!r})\n"
        "print(sorted({'aiohttp', 'kopf', 'kubernetes', 'pydantic', 'rich', 'yaml'} & sys.modules.keys()))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_without_a_cluster_it_says_what_to_pass() -> None:
    """As one line, with the exit code of an error."""
    runner = click.testing.CliRunner()
    result = runner.invoke(stack_group.stack, ["retry", "shop", "--kubeconfig", "/nowhere"])

    assert result.exit_code == 1
    assert result.output == "error: no kubeconfig at /nowhere; pass one with --kubeconfig\n"


@pytest.mark.parametrize(
    ("words", "offered"),
    [(["unp"], "unpause"), (["wait", "shop", "--ti"], "--timeout")],
    ids=["subcommand", "option"],
)
def test_kubectl_completes(words: list[str], offered: str) -> None:
    """In its own protocol; the names of Stacks are offered on a real server."""
    program = [*stack_command.find_program("kubectl_complete-stack"), *words]

    done = subprocess.run(program, capture_output=True, text=True, check=True)

    first, *_, last = done.stdout.splitlines()
    assert first.partition("\t")[0] == offered
    assert last == ":4"
