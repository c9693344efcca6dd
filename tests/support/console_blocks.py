"""Commands in a page of the documentation, and the outputs that it shows for them.

A block ```` ```console ```` holds commands after `$ `, each followed by lines of its output, where `…` matches any
text. Ages and generated parts of names match any others. A comment `# exits 1` sets an exit code other than 0. A block
with a title is a file. `<!-- not run: reason -->` before a block is invisible on the rendered page and says why its
commands cannot run in a test. Nothing else is hidden: a page shows everything it needs.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"""
    (?:^[ ]*<!--\ not\ run:\ (?P<reason>[^>]+?)\ -->\n\s*)?
    ^(?P<indent>[ ]*)```(?P<kind>\w*)(?:\ title="(?P<title>[^"]+)")?\n(?P<text>.*?)^(?P=indent)```$
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
EXIT = re.compile(r"\s+# exits (?P<code>\d+)$")
ANY = "…"
"""Placeholder for any text."""
AGE = r"(?<![\w.-])(?:\d+[smhd])+(?![\w.])"
POD = r"-[a-z0-9]{8,10}-[a-z0-9]{5}\b"
"""The end of a pod's name."""
GENERATED = r"-[a-z0-9]{8}\b"
"""The end of a name that Hearth generated. In pages, it contains a digit, so that no word is mistaken for it."""
HASH = r"(?<=hash )[\w-]{8}"
"""A hash of a sensitive value."""
VARYING = {ANY: ".*", AGE: AGE, POD: POD, r"-(?=[a-z]*\d)[a-z0-9]{8}\b": GENERATED, HASH: HASH}
"""Varying parts of a page, and their patterns in the output."""
SPLIT = re.compile("|".join(f"(?P<v{number}>{each})" for number, each in enumerate(VARYING)))
LIMIT_SECONDS = 180
"""Longer than any timeout in the commands of the pages."""
NAMESPACE = re.compile(r"\bprod\b|(?<= in )default(?=  )|(?<=deleted from )default(?= namespace)")
"""The namespace that pages use in commands or outputs; each test replaces it with its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page that is no file."""

    kind: str
    text: str
    reason: str
    """Why the commands do not run in a test; "" if they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    text: str
    code: int
    output: tuple[str, ...]
    """Lines that the output must contain, in this order, with `…` for any text."""


def read_files(page: str) -> dict[str, str]:
    """Return the content of each file that a page shows, by its name."""
    return {found["title"]: textwrap.dedent(found["text"]) for found in BLOCK.finditer(page) if found["title"]}


def read_blocks(page: str) -> list[Block]:
    """Return the blocks that a reader sees, without files."""
    found = [each for each in BLOCK.finditer(page) if not each["title"]]
    return [Block(kind=each["kind"], text=textwrap.dedent(each["text"]), reason=each["reason"] or "") for each in found]


def read_commands(page: str) -> list[Command]:
    """Return the commands of a page that run in a test, in their order."""
    texts = [
        textwrap.dedent(found["text"])
        for found in BLOCK.finditer(page)
        if found["kind"] == "console" and not found["reason"]
    ]
    return [command for text in texts for command in split_commands(text)]


def split_commands(text: str) -> list[Command]:
    commands = []
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        first, *lines = part.rstrip("\n").split("\n")
        exits = EXIT.search(first)
        code = int(exits["code"]) if exits else 0
        commands.append(Command(text=EXIT.sub("", first), code=code, output=tuple(lines)))
    return commands


def move(command: Command, *, namespace: str) -> Command:
    """Return the command in that namespace instead of the one that the page names."""
    lines = tuple(NAMESPACE.sub(namespace, line) for line in command.output)
    return Command(text=NAMESPACE.sub(namespace, command.text), code=command.code, output=lines)


def run(command: Command, *, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command in a shell. Returns the difference from the page, or ""."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.text],
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
    """Return the first expected line that the output lacks. Lines must be in order, except in a list of Events."""
    found = output.split("\n")
    # kubectl sorts Events by seconds, so Events of the same second have no fixed order.
    is_sorted = not found[0].startswith("LAST SEEN")
    rest = iter(found)
    for line in lines:
        pattern = make_pattern(line)
        if line != "…" and not any(pattern.fullmatch(each.strip()) for each in (rest if is_sorted else found)):
            return line
    return None


def make_pattern(line: str) -> re.Pattern[str]:
    """Return a pattern for lines like that one, with any column widths and any varying parts."""
    text, end, varying = "", 0, tuple(VARYING.values())
    for found in SPLIT.finditer(line):
        text += escape(line[end : found.start()]) + varying[int((found.lastgroup or "v0")[1:])]
        end = found.end()
    return re.compile(r"\s*" + text + escape(line[end:]) + r"\s*")


def escape(text: str) -> str:
    """Return a pattern for that text, with any width of its spaces."""
    return r"\s*".join(map(re.escape, re.split(r"\s+", text)))
