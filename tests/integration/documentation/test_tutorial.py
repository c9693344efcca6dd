"""The tutorial as a new user follows it: every command on a real API server, with the outputs that the page shows."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support import console_blocks
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "tutorial.md"


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
