"""The command itself: what it lists, and that nothing is loaded unasked."""

from __future__ import annotations

import subprocess
import sys

import click.testing
import pytest

import hearth
from hearth.cli import main


def test_help_lists_every_subcommand_with_its_line() -> None:
    """Without a word of documentation at hand."""
    result = click.testing.CliRunner().invoke(main.main, ["--help"])

    assert result.exit_code == 0
    for name, entry in main.COMMANDS.items():
        assert f"  {name} " in result.stdout
        assert entry.summary in result.stdout


@pytest.mark.parametrize("arguments", [["version"], ["--version"]], ids=" ".join)
def test_the_version_is_printed_in_both_ways(arguments: list[str]) -> None:
    """People try either."""
    result = click.testing.CliRunner().invoke(main.main, arguments)

    assert result.stdout.split()[-1] == hearth.__version__


def test_an_unknown_subcommand_is_named() -> None:
    """And it is a usage error."""
    result = click.testing.CliRunner().invoke(main.main, ["rnu"])

    assert result.exit_code == 2
    assert "No such command 'rnu'" in result.output


@pytest.mark.parametrize("arguments", ["--help", "version"])
def test_asking_for_little_loads_little(arguments: str) -> None:
    """The operator's libraries take a second to import, which `--help` must not."""
    program = (
        "import sys, click.testing\nfrom hearth.cli import main\n"
        f"click.testing.CliRunner().invoke(main.main, ['{arguments}'])\n"
        "print(sorted({'aiohttp', 'kopf', 'kubernetes', 'pydantic'} & sys.modules.keys()))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_operator_loads_nothing_that_it_has_no_use_for() -> None:
    """Nor does kopf, later and in its own thread: it would take as long, and as much memory, as all the rest."""
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

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["[]", "True True", "['kopf']"]


def test_the_package_can_be_run_as_a_module() -> None:
    """`python -m hearth` is `hearth`."""
    done = subprocess.run([sys.executable, "-m", "hearth", "version"], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == hearth.__version__
