"""Damaged files on a real API server: `kubectl stack diff` ends with a preview or an error, never with a traceback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click.testing
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hearth.cli import main
from support.real.real_user import RealUser
from support.units import damaged_files
from support.units.damaged_files import DEFINITION, REFERENCES, STACK

FEW = settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("text", [STACK, DEFINITION, REFERENCES], ids=["stack", "definition", "references"])
async def test_a_damaged_file_ends_no_diff_with_a_traceback(
    user: RealUser, kubeconfig: Path, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "damaged.yaml"
    options = ["stack", "--kubeconfig", str(kubeconfig), "-n", user.namespace, "diff", "-f", str(file)]

    @FEW
    @given(content=damaged_files.damaged_files(text.replace("namespace: prod, ", "")))
    def check(content: bytes) -> None:
        file.write_bytes(content)
        result = click.testing.CliRunner().invoke(main.main, options)
        assert isinstance(result.exception, SystemExit | None), content
        assert result.exit_code in (0, 1, 2)
        assert result.output

    await asyncio.to_thread(check)
