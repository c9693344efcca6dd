"""Counts foreign phrases in the text that people read: pages, API descriptions, messages and help.

`python -m support.checks.voice` in `tests` prints the figures of all places, docstrings and tests included.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from support import repository

PHRASES: Final = {
    re.compile(each["phrase"]): str(each["instead"])
    for each in yaml.safe_load((repository.ROOT / "tests/unit/foreign_phrases.yaml").read_text())
}
FIGURES: Final = repository.DOCS / "performance.md"
"""Page with tables of measurements, which have short labels."""
SENTENCE_WORDS: Final = 3
"""Minimum number of words of a literal in code that counts as a sentence for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The prose of one page."""

    name: str
    text: str

    @property
    def words(self) -> int:
        """Their number."""
        return len(self.text.split())

    def find_hits(self) -> Iterator[str]:
        """Yield each foreign phrase with its neighbors and the words to write instead."""
        for pattern, instead in PHRASES.items():
            for match in pattern.finditer(self.text):
                excerpt = " ".join(self.text[max(0, match.start() - 60) : match.end() + 60].split())
                yield f"{self.name}: …{excerpt}… ({match[0]!r}; write: {instead})"


def read_markdown(path: Path) -> Page:
    """Return the prose of a page, without its code and its links' targets."""
    text = re.sub(r"\A---\n.*?\n---\n|```.*?```|<!--.*?-->", " ", path.read_text(), flags=re.DOTALL)
    return Page(name=str(path.relative_to(repository.ROOT)), text=clean(text))


def read_descriptions(path: Path) -> Page:
    """Return all descriptions of a CustomResourceDefinition, as `kubectl explain` shows them."""
    return Page(name=str(path.relative_to(repository.ROOT)), text=clean("\n".join(find_descriptions(yaml.safe_load(path.read_text())))))  # fmt: skip


def find_descriptions(node: object) -> Iterator[str]:
    """Yield the descriptions in a schema, at any depth."""
    if isinstance(node, dict):
        if isinstance(text := node.get("description"), str):
            yield text
        for value in node.values():
            yield from find_descriptions(value)
    elif isinstance(node, list):
        for value in node:
            yield from find_descriptions(value)


def read_code(folder: Path) -> tuple[Page, Page]:
    """Return the docstrings and comments of a folder, and its literals that read like sentences."""
    docs: list[str] = []
    messages: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text()
        tree = ast.parse(source)
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if id(node) in documented:
                docs.append(node.value)
            elif node.value.count(" ") >= SENTENCE_WORDS - 1:
                messages.append(node.value)
        docs += re.findall(r"#\s+(.+)", source)
    name = str(folder.relative_to(repository.ROOT))
    return (
        Page(name=f"{name}: docstrings", text=clean("\n".join(docs))),
        Page(name=f"{name}: messages", text=clean("\n".join(messages))),
    )


def clean(text: str) -> str:
    """Return a text without code spans and links' targets."""
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "X", text))


def find_published() -> Iterator[Page]:
    """Yield the pages that users read: README, docs, API descriptions, and the messages and help of each package."""
    yield read_markdown(repository.ROOT / "README.md")
    yield from map(read_markdown, sorted(set(repository.DOCS.rglob("*.md")) - {FIGURES}))
    yield from map(read_descriptions, sorted((repository.ROOT / "crds").glob("*.yaml")))
    for folder in sorted(path for path in (repository.ROOT / "operator/hearth").iterdir() if path.is_dir()):
        yield read_code(folder)[1]


def main() -> int:
    """Print the hits per 1,000 words of each place."""
    places = {
        "published": list(find_published()),
        "docstrings": [read_code(repository.ROOT / "operator")[0]],
        "tests": [read_code(repository.ROOT / "tests")[0]],
    }
    for place, pages in places.items():
        words, hits = sum(page.words for page in pages), sum(len(list(page.find_hits())) for page in pages)
        sys.stdout.write(f"{place:12} {words:7} words {hits:5} hits {1000 * hits / words:5.1f} per 1,000\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
