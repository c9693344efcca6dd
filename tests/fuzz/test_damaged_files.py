"""Damaged files: every command that reads one ends with a result or an error that says where; never with a traceback."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click.testing
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.cli import main
from support.units import damaged_files, fuzzing
from support.units.damaged_files import COMMANDS, KUBECONFIG, STACK

QUICK = settings(fuzzing.QUICK, max_examples=4)
LONG = settings(fuzzing.LONG, max_examples=300)
ROWS = [pytest.param(text, command, id=f"{' '.join(command)} {at}") for at, (text, command) in enumerate(COMMANDS)]


def check(command: tuple[str, ...], content: bytes) -> None:
    """Run a command on a file."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig, named = Path(folder) / "kubeconfig", Path(folder) / "file.stacktest.yaml"
        kubeconfig.write_text(yaml.safe_dump(KUBECONFIG))
        (Path(folder) / "other.yaml").write_text(STACK)
        named.write_bytes(content)
        filled = [each.replace("FOLDER", folder).replace("KUBECONFIG", str(kubeconfig)) for each in command]
        result = click.testing.CliRunner().invoke(main.main, [*filled, str(named)])
    assert isinstance(result.exception, SystemExit | None), (command, content)
    assert result.exit_code in (0, 1, 2)
    assert "Usage:" not in result.output
    assert result.exit_code == 0 or result.output, "an error without a word"


@pytest.mark.parametrize(("text", "command"), ROWS)
@QUICK
@given(data=st.data())
def test_a_damaged_file_ends_no_command_with_a_traceback(
    text: str, command: tuple[str, ...], data: st.DataObject
) -> None:
    check(command, data.draw(damaged_files.damaged_files(text)))


@pytest.mark.soak
@pytest.mark.parametrize(("text", "command"), ROWS)
@LONG
@given(data=st.data())
def test_a_damaged_file_ends_no_command_with_a_traceback_at_length(
    text: str, command: tuple[str, ...], data: st.DataObject
) -> None:
    check(command, data.draw(damaged_files.damaged_files(text)))
