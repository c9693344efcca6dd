"""The commands `hearth` and `kubectl stack`: subcommands, lazy imports, and option names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import click.testing
import pytest

import hearth
from hearth.cli import main
from hearth.cli.stack_commands import stack_group
from support.real import stack_command


def execute(*program: str) -> str:
    """The output of a program that succeeds."""
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout


def test_help_lists_every_subcommand_with_its_line() -> None:
    result = click.testing.CliRunner().invoke(main.main, ["--help"])

    assert result.exit_code == 0
    for name, entry in main.COMMANDS.items():
        assert f"  {name} " in result.stdout
        assert entry.summary in result.stdout


@pytest.mark.parametrize("arguments", [["version"], ["--version"]], ids=" ".join)
def test_the_version_is_printed_in_both_ways(arguments: list[str]) -> None:
    result = click.testing.CliRunner().invoke(main.main, arguments)

    assert result.stdout.split()[-1] == hearth.__version__


def test_an_unknown_subcommand_is_named() -> None:
    result = click.testing.CliRunner().invoke(main.main, ["rnu"])

    assert result.exit_code == 2
    assert "No such command 'rnu'" in result.output


@pytest.mark.parametrize("arguments", ["--help", "version"])
def test_asking_for_little_loads_little(arguments: str) -> None:
    program = (
        "import sys, click.testing\nfrom hearth.cli import main\n"
        f"click.testing.CliRunner().invoke(main.main, ['{arguments}'])\n"
        "print(sorted({'aiohttp', 'kopf', 'kubernetes', 'pydantic', 'pygls'} & sys.modules.keys()))"
    )

    assert execute(sys.executable, "-c", program).strip() == "[]"


def test_the_operator_loads_nothing_that_it_has_no_use_for() -> None:
    program = (
        "import contextlib, gc, sys\nfrom hearth import __main__\n"
        "with contextlib.suppress(AttributeError): __main__.run(None)\n"
        "print(sorted({'cryptography', 'jsonschema', 'kopf', 'kubernetes', 'pydantic', 'rich'} & sys.modules.keys()))\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 10_000)\n"
        "from hearth.handlers import callbacks, kopf_supervisor\n"
        "handlers = callbacks.HandlerCallbacks(on_kinds=None)\n"
        "with contextlib.suppress(RuntimeError): kopf_supervisor.make_run(None, handlers)().send(None)\n"
        "print(sorted({'cryptography', 'kopf', 'kubernetes', 'pydantic', 'rich'} & sys.modules.keys()))"
    )

    written = execute(sys.executable, "-c", program)

    assert written.splitlines() == ["[]", "True True", "['kopf']"]


def test_the_package_can_be_run_as_a_module() -> None:
    assert execute(sys.executable, "-m", "hearth", "version").strip() == hearth.__version__


# ---------------------------------------------------------------- `kubectl stack`


def test_every_subcommand_has_help_with_examples() -> None:
    for name in stack_group.COMMANDS:
        result = click.testing.CliRunner().invoke(stack_group.stack, [name, "--help"])

        assert result.exit_code == 0, result.output
        assert "Examples:\n  kubectl stack " in result.output, name


def test_it_is_also_a_subcommand_of_hearth() -> None:
    result = click.testing.CliRunner().invoke(main.main, ["stack", "--help"])

    assert "  rollback " in result.output


@pytest.mark.parametrize(
    "arguments", ["--help", "list --help", "retry --help", "tree --help", "ui --help", "wait --help"]
)
def test_help_loads_no_client(arguments: str) -> None:
    program = (
        "import sys, click.testing\nfrom hearth.cli.stack_commands import stack_group\n"
        f"click.testing.CliRunner().invoke(stack_group.stack, {arguments.split()!r})\n"
        "print(sorted({'aiohttp', 'kopf', 'kubernetes', 'pydantic', 'rich', 'yaml'} & sys.modules.keys()))"
    )

    assert execute(sys.executable, "-c", program).strip() == "[]"


def test_without_a_cluster_it_says_what_to_pass() -> None:
    runner = click.testing.CliRunner()
    result = runner.invoke(stack_group.stack, ["retry", "shop", "--kubeconfig", "/nowhere"])

    assert result.exit_code == 1
    assert result.output == "error: no kubeconfig at /nowhere; pass one with --kubeconfig\n"


@pytest.mark.parametrize(
    ("words", "offered"), [(["unp"], "unpause"), (["wait", "shop", "--ti"], "--timeout")], ids=["subcommand", "option"]
)
def test_kubectl_completes(words: list[str], offered: str) -> None:
    program = [*stack_command.find_program("kubectl_complete-stack"), *words]

    written = execute(*program)

    first, *_, last = written.splitlines()
    assert first.partition("\t")[0] == offered
    assert last == ":4"


# ---------------------------------------------------------------- options that take one of some words

AS_KUBERNETES_WRITES_THEM = {"Normal", "Warning"}


def find_choices(group: click.Command, context: click.Context) -> Iterator[tuple[str, click.Choice[str]]]:
    """Every option with a choice of words, with its place."""
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from find_choices(command, click.Context(command, parent=context, info_name=name))
    for option in group.params:
        if isinstance(option.type, click.Choice):
            yield f"{context.command_path} {option.opts[-1]}", option.type


CHOICES = dict(
    [each for name, root in (("hearth", main.main), ("stack", stack_group.stack)) for each in find_choices(root, click.Context(root, info_name=name, **root.context_settings))]
)  # fmt: skip


@pytest.mark.parametrize("place", CHOICES)
def test_a_word_is_taken_in_any_case_and_shown_as_it_is_documented(place: str) -> None:
    choice = CHOICES[place]
    shown = list(choice.choices)

    assert all(type(word) is str and (word == word.lower() or word in AS_KUBERNETES_WRITES_THEM) for word in shown)
    for word in shown:
        taken = [choice.convert(each, None, None) for each in (word, word.upper(), word.lower(), word.title())]
        assert taken == [word] * 4


def test_every_command_was_looked_at() -> None:
    assert {"hearth run --tenancy", "stack diff --tenancy"} <= set(CHOICES)
