"""The documentation pages: their links, and the modules that they mention."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hearth.engine.writes import step_execution
from support import repository

PAGES = [
    repository.ROOT / "README.md",
    *(repository.TESTS / each for each in ("README.md", "stories/README.md", "stories/COVERAGE.md")),
    *sorted(repository.DOCS.rglob("*.md")),
]
CODE = repository.OPERATOR / "hearth"
DECISIONS = repository.DOCS / "decisions"
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
LISTED = re.compile(
    r"^\| (?P<number>\d+) \| \[(?P<title>.+)\]\((?P<name>[\w-]+\.md)\) \| (?:accepted|superseded)[^|]* \| \d{4}-\d\d-\d\d \|$",
    re.MULTILINE,
)
"""A line of the index of decisions."""
ATTACKS = (
    repository.TESTS / "integration" / "threats",
    repository.TESTS / "integration" / "cli",
    repository.TESTS / "unit" / "cli" / "page",
)
"""The folders of the tests that docs/security.md names."""
MODULE = re.compile(r"`(?P<path>[a-z_]+(?:/[a-z0-9_]+)+\.(?:py|yaml)|test_[a-z0-9_]+\.py)`")
"""Matches a module, or a data file next to modules. A name without a folder is a user's file."""


def find_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(repository.ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.finditer(page.read_text()) if "://" not in link["path"]]
    targets = [(page.parent / link["path"] if link["path"] else page, link["anchor"]) for link in links]

    assert [str(target) for target, _ in targets if not target.exists()] == []
    assert [(target.name, anchor) for target, anchor in targets if anchor and anchor not in find_anchors(target)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(repository.ROOT).as_posix())
def test_modules_that_a_page_names_exist(page: Path) -> None:
    folders = (CODE, repository.ROOT, repository.TESTS, *ATTACKS)
    named = {found["path"] for found in MODULE.finditer(page.read_text())}

    assert sorted(path for path in named if not any((folder / path).exists() for folder in folders)) == []


@pytest.mark.parametrize("name", ["architecture.md", "glossary.md"])
def test_the_map_names_modules(name: str) -> None:
    """Otherwise, the other test would always pass."""
    assert len({found["path"] for found in MODULE.finditer((repository.DOCS / name).read_text())}) > 20


def test_decisions_are_numbered_once() -> None:
    """The number in the title equals the number of the file and is unique."""
    records = sorted(DECISIONS.glob("[0-9]*.md"))
    numbers = [int(record.name[:4]) for record in records]

    assert [record.name for record in records if not record.read_text().startswith(f"# {int(record.name[:4])}. ")] == []
    assert sorted(set(numbers)) == numbers


def test_the_index_of_decisions_has_each_of_them_once() -> None:
    listed = LISTED.findall((DECISIONS / "index.md").read_text())
    titles = {path.name: path.read_text().splitlines()[0] for path in DECISIONS.glob("[0-9]*.md")}

    assert {name: f"# {number}. {title}" for number, title, name in listed} == titles
    assert len(listed) == len(titles)


def test_users_find_every_reason_of_a_failed_write() -> None:
    page = (repository.DOCS / "status.md").read_text()

    assert [reason for reason in step_execution.REASONS.values() if f"`{reason}`" not in page] == []
