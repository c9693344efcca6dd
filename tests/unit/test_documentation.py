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
from support import console_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference")]
FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:\| )?(?P<line>(?:kubectl stack|hearth) [a-z].*)$")
PLACEHOLDER = re.compile(r"…|\.\.\.|\[|<")
"""What stands for something else in a line, so that it is not a command yet."""


@pytest.mark.parametrize("name", sorted(reference.PAGES))
def test_generated_pages_are_fresh(name: str) -> None:
    """`make reference` writes them again."""
    assert (reference.FOLDER / name).read_text() == reference.PAGES[name]()


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    """Each link leads somewhere, and each page is in the menu."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "reference" / "api.html").is_file()


def find_commands(page: str) -> list[str]:
    """Return the lines of all blocks that call our own programs."""
    lines = [line for block in FENCE.findall(page) for line in block.replace("\\\n", " ").splitlines()]
    found = [COMMAND.match(line.strip()) for line in lines]
    return [each["line"] for each in found if each is not None and not PLACEHOLDER.search(each["line"])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_pages_exist(page: Path) -> None:
    """With the options that the page gives them."""
    wrong = [(line, problem) for line in find_commands(page.read_text()) if (problem := find_problem(line))]

    assert wrong == []


def find_problem(line: str) -> str:
    """Return why the command line is wrong; "" if it is not."""
    words = shlex.split(re.split(r"\s[|>&]|;", line)[0], comments=True)
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
    """An option that is not there, and a command that is not there."""
    page = (
        "```\n$ kubectl stack tree shop --nope\n$ kubectl stack plant shop | cat\n$ kubectl stack tree shop -w\n```\n"
    )

    problems = [find_problem(line) for line in find_commands(page)]

    assert [bool(problem) for problem in problems] == [True, True, False]


def test_a_page_shows_files_commands_and_outputs() -> None:
    """As the test of the tutorial reads them."""
    page = '```yaml title="a.yaml"\na: 1\n```\n\n```console\n$ true\n$ cat a  # exits 1\ncat: …\n```\n'

    assert console_blocks.read_files(page) == {"a.yaml": "a: 1\n"}
    assert [(each.text, each.code, each.output) for each in console_blocks.read_commands(page)] == [
        ("true", 0, ()),
        ("cat a", 1, ("cat: …",)),
    ]


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
    """Other lines may stand between them."""
    assert console_blocks.find_missing(lines, "first\na b c\nsecond\n") == missing


def test_fragments_of_the_changelog_have_a_type() -> None:
    """The types that the tool knows."""
    types = {
        each["directory"] for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    }
    fragments = [path.name for path in (ROOT / "docs" / "changelog.d").glob("*.md")]

    assert fragments
    assert [name for name in fragments if name.split(".")[1] not in types] == []
