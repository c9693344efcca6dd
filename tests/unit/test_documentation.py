"""The documentation as a whole: generated pages, the site, and the commands that pages show."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from documentation import reference
from hearth.cli import main as cli
from hearth.cli.stack_commands import stack_group
from support import console_blocks, repository

PAGES = [
    repository.ROOT / "README.md",
    *sorted(path for path in repository.DOCS.rglob("*.md") if path.parent.name != "reference"),
]
FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:\| )?(?P<line>(?:kubectl stack|hearth) [a-z].*)$")
PLACEHOLDER = re.compile(r"…|\.\.\.|\[|<")
"""A placeholder; a line with one is not a complete command."""


@pytest.mark.parametrize("name", sorted(reference.PAGES))
def test_generated_pages_are_fresh(name: str) -> None:
    """`make reference` updates them."""
    assert (reference.FOLDER / name).read_text() == reference.PAGES[name]()


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]

    done = subprocess.run(command, cwd=repository.ROOT, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "reference" / "api.html").is_file()


def find_commands(page: str) -> list[str]:
    """Return the lines of all blocks that call our own programs."""
    lines = [line for block in FENCE.findall(page) for line in block.replace("\\\n", " ").splitlines()]
    found = [COMMAND.match(line.strip()) for line in lines]
    return [each["line"] for each in found if each is not None and not PLACEHOLDER.search(each["line"])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(repository.ROOT).as_posix())
def test_commands_of_pages_exist(page: Path) -> None:
    wrong = [(line, problem) for line in find_commands(page.read_text()) if (problem := find_problem(line))]

    assert wrong == []


def find_problem(line: str) -> str:
    """Return why the command line is wrong; "" if it is not."""
    words = shlex.split(re.split(r"\s[|>&]|;", line)[0], comments=True)
    command: click.Command
    command, rest = (stack_group.stack, words[2:]) if words[0] == "kubectl" else (cli.main, words[1:])
    try:
        context = click.Context(command, info_name=words[0], **command.context_settings)
        while isinstance(command, click.Group) and rest:
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            context, command = click.Context(found, info_name=name, parent=context, **found.context_settings), found
        command.make_parser(context).parse_args(list(rest))
    except click.UsageError as error:
        return error.format_message()
    return ""


def test_wrong_commands_are_found() -> None:
    page = (
        "```\n$ kubectl stack tree shop --nope\n$ kubectl stack plant shop | cat\n$ kubectl stack tree shop -w\n```\n"
    )

    problems = [find_problem(line) for line in find_commands(page)]

    assert [bool(problem) for problem in problems] == [True, True, False]


LANGUAGES = {"console", "hcl", "json", "lua", "mermaid", "python", "text", "yaml"}
PROGRAM = r"(?:\$ )?(?:kubectl|hearth|helm|make|docker|kind|pip|python|\.venv/bin/\w+) "
SHELL = re.compile(rf"^ *{PROGRAM}", re.MULTILINE)
INDENTED = re.compile(rf"\n\n {{4,}}{PROGRAM}.*|\n(?![ \-*\d]).*\n\n {{4,}}\S.*")
"""A command in an indented block, unless the block is part of a list."""


def test_each_command_block_runs_or_says_why_not() -> None:
    pages = {page.relative_to(repository.ROOT).as_posix(): page.read_text() for page in PAGES}
    silent = {name: find_silent_blocks(text) + find_silent_lines(text) for name, text in pages.items()}

    assert {name: found for name, found in silent.items() if found} == {}


def find_silent_blocks(text: str) -> list[str]:
    """Return blocks whose commands neither run nor have a reason."""
    blocks = console_blocks.read_blocks(text)
    unknown = [block.text for block in blocks if block.kind not in LANGUAGES]
    hidden = [block.text for block in blocks if block.kind == "text" and SHELL.search(block.text)]
    empty = [block.text for block in blocks if block.kind == "console" and not block.text.startswith("$ ")]
    return unknown + hidden + empty


def find_silent_lines(text: str) -> list[str]:
    """Return commands in indented blocks, which have no language."""
    rest = console_blocks.BLOCK.sub("", text)
    return INDENTED.findall(rest)


def test_a_command_that_would_not_run_is_found() -> None:
    silent = ["```\n$ make test\n```\n", "```text\nkubectl get pods\n```\n", "```console\nmake test\n```\n"]

    assert [len(find_silent_blocks(each)) for each in silent] == [1, 1, 1]
    assert len(find_silent_lines("Run this:\n\n    make test\n")) == 1
    reason = "<!-- not run: it takes minutes -->\n```console\n$ make test\n```\n"
    assert find_silent_blocks(reason) == []
    assert console_blocks.read_commands(reason) == []


def test_a_page_shows_files_commands_and_outputs() -> None:
    page = '```yaml title="a.yaml"\na: 1\n```\n\n```console\n$ true\n$ cat a  # exits 1\ncat: …\n```\n'

    assert console_blocks.read_files(page) == {"a.yaml": "a: 1\n"}
    assert [(each.text, each.code, each.output) for each in console_blocks.read_commands(page)] == [
        ("true", 0, ()),
        ("cat a", 1, ("cat: …",)),
    ]


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("shop-web  ready  3m12s", "shop-web  ready  9s"),
        ("pod/shop-web-7c8db4cbc7-l72cs: x", "pod/shop-web-6c9f7d5b8-x2x4q: x"),
        ("job/shop-job-bmwcdr6g: x", "job/shop-job-0a1b2c3d: x"),
    ],
    ids=["age", "pod", "generated name"],
)
def test_what_varies_from_run_to_run_is_left_open(line: str, output: str) -> None:
    assert console_blocks.find_missing((line,), output) is None
    assert console_blocks.find_missing((line,), output.replace("shop", "other")) == line


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (("a … c",), None),
        (("a  b c", "second"), None),
        (("second", "a b c"), "a b c"),
        (("third",), "third"),
    ],
    ids=["any text", "in order", "out of order", "missing"],
)
def test_an_output_has_the_lines_of_the_page(lines: tuple[str, ...], missing: str | None) -> None:
    assert console_blocks.find_missing(lines, "first\na b c\nsecond\n") == missing


def test_fragments_of_the_changelog_have_a_type() -> None:
    types = {
        each["directory"]
        for each in tomllib.loads((repository.ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    }
    fragments = [path.name for path in (repository.DOCS / "changelog.d").glob("*.md")]

    assert [name for name in fragments if name.split(".")[1] not in types] == []
