"""The repository uses one word per concept: words that docs/glossary.md replaced do not come back."""

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from support import repository

LIST = pathlib.Path(__file__).with_name("retired_words.yaml")
RETIRED: Mapping[str, Mapping[str, str]] = yaml.safe_load(LIST.read_text())
SUFFIXES = {".py", ".md", ".yaml", ".toml"}
WRITTEN = ("operator", "tests", "docs", "crds", "manifests", "README.md", "Makefile", "pyproject.toml")
"""Places without retired prose or names."""
QUOTED = (LIST, pathlib.Path(__file__))
"""The files that quote retired words."""


def find_files(places: tuple[str, ...]) -> Iterator[pathlib.Path]:
    """Find the text files in these folders, and these files."""
    for place in places:
        path = repository.ROOT / place
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in found if each.is_file() and (each.suffix in SUFFIXES or each == path))


def find_retired(text: str, words: Mapping[str, str], *, flags: int = 0) -> Iterator[tuple[int, str, str]]:
    """Find the line, the word and its replacement for each retired word in a text."""
    listed = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(words, key=len, reverse=True))
    for match in re.finditer(rf"(?<![\w-])(?:{listed})(?![\w-])", text, flags):
        word = " ".join(match[0].split())
        yield text.count("\n", 0, match.start()) + 1, word, words.get(word) or words[word.lower()]


def describe_retired(kind: str, *, flags: int = 0) -> list[str]:
    """Describe each use of a retired word: file, line, word and replacement."""
    return [
        f"{path.relative_to(repository.ROOT)}:{line}: {word!r}; write {replacement}"
        for path in find_files(WRITTEN)
        if path not in QUOTED
        for line, word, replacement in find_retired(path.read_text(encoding="utf-8"), RETIRED[kind], flags=flags)
    ]


def test_no_retired_word_is_in_prose() -> None:
    assert describe_retired("prose", flags=re.IGNORECASE) == []


def test_no_retired_name_is_used() -> None:
    assert describe_retired("names") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\nWhoever asks", [(2, "Whoever", RETIRED["prose"]["whoever"])], id="with its line, in any case"),
        pytest.param("it is\n    to be", [(1, "is to be", RETIRED["prose"]["is to be"])], id="across lines"),
        pytest.param("a retold story", [], id="not within a word"),
    ],
)
def test_retired_words_are_found(text: str, expected: list[Any]) -> None:
    assert list(find_retired(text, RETIRED["prose"], flags=re.IGNORECASE)) == expected
