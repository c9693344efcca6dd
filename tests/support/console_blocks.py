"""Commands in a page of the documentation, and the outputs that it shows for them.

A block ```` ```console ```` holds commands after `$ `, each followed by lines of its output, where `…` stands for any
text. A comment `# exits 1` states another exit code than 0. A block with a title is a file.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s+# exits (?P<code>\d+)$")
LIMIT_SECONDS = 180
"""More than any timeout that a command of the pages states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a page."""

    text: str
    code: int
    output: tuple[str, ...]
    """Lines that its output has, in this order, with `…` for any text."""


def read_files(page: str) -> dict[str, str]:
    """Return the content of each file that a page shows, by its name."""
    return {found["title"]: found["text"] for found in BLOCK.finditer(page) if found["title"]}


def read_commands(page: str) -> list[Command]:
    """Return the commands of a page, in their order."""
    commands: list[Command] = []
    for block in BLOCK.finditer(page):
        if block["kind"] == "console":
            for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                first, *lines = part.rstrip("\n").split("\n")
                exits = EXIT.search(first)
                code = int(exits["code"]) if exits else 0
                commands.append(Command(text=EXIT.sub("", first), code=code, output=tuple(lines)))
    return commands


def run(command: Command, *, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command in a shell. Returns why it did not do what the page says; "" if it did."""
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    if done.returncode != command.code:
        return f"$ {command.text}\nexit code {done.returncode}, expected {command.code}:\n{done.stdout}"
    missing = find_missing(command.output, done.stdout)
    return f"$ {command.text}\nno line like {missing!r} in:\n{done.stdout}" if missing is not None else ""


def find_missing(lines: tuple[str, ...], output: str) -> str | None:
    """Return the first line that the output does not have after those before it."""
    rest = iter(output.split("\n"))
    for line in lines:
        pattern = re.compile(r"\s*".join(".*".join(map(re.escape, word.split("…"))) for word in line.split()) + r"\s*")
        if line != "…" and not any(pattern.fullmatch(each.strip()) for each in rest):
            return line
    return None
