"""The tutorial as a new user follows it: every command on a real API server, with the outputs that the page shows."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support import console_blocks
from support.real import stack_command
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "tutorial.md"
PROGRAM = ROOT / "tests" / "control_plane" / "controlplane.py"


@pytest.fixture
def environment(kubeconfig: Path, namespace: str, tmp_path: Path) -> dict[str, str]:
    """A user's shell: kubectl with its plugin, in the namespace of the test."""
    config = yaml.safe_load(kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    programs = tmp_path / "bin"
    programs.mkdir()
    built = subprocess.run([sys.executable, str(PROGRAM), "build"], check=True, capture_output=True, text=True)
    (programs / "kubectl").symlink_to(Path(built.stdout.strip()) / "kubectl")
    plugin = programs / stack_command.SCRIPT
    plugin.write_text(f'#!/bin/sh\nexec {shlex.join(stack_command.find_program())} "$@"\n')
    plugin.chmod(0o755)
    return os.environ | {"KUBECONFIG": str(own), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


async def test_every_command_does_what_the_page_says(
    workers: Crew, user: RealUser, environment: dict[str, str], tmp_path: Path
) -> None:
    """In the order of the page, each with its exit code and its output."""
    assert user.namespace
    page = PAGE.read_text()
    folder = tmp_path / "clone"
    folder.mkdir()
    for name, text in console_blocks.read_files(page).items():
        (folder / name).write_text(text)
    await workers.hire()

    commands = console_blocks.read_commands(page)

    assert len(commands) > 20
    for command in commands:
        problem = await asyncio.to_thread(console_blocks.run, command, folder=folder, environment=environment)
        assert problem == ""
