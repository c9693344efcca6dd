"""Hooks of mkdocs: files of the repository that pages link to become files of the site."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?P<path>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
FOLDER = "repository"
SHIM = "https://unpkg.com/iframe-worker/shim"
"""The script that the plugin `offline` loads."""
LATER = ("decisions/", "changelog")
"""Pages that a search shows after the guides."""
ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    """Add each file outside docs/ that a page links to."""
    docs = Path(config.docs_dir)
    found = {
        outside
        for page in files.documentation_pages()
        for link in LINK.finditer((docs / page.src_uri).read_text())
        if (outside := find_outside(page.src_uri, link["path"])) is not None
    }
    for path in sorted(found):
        files.append(File.generated(config, f"{FOLDER}/{path}.txt", content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Point links to files outside docs/ at their copies in the site, and adapt the page to the site."""
    if page.file.src_uri.startswith(LATER):
        page.meta["search"] = {"boost": 0.1}

    def replace(link: re.Match[str]) -> str:
        outside = find_outside(page.file.src_uri, link["path"])
        if outside is None:
            return link[0]
        up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)
        return f"]({up}{FOLDER}/{outside}.txt)"

    return unescape_tables(LINK.sub(replace, markdown))


def unescape_tables(markdown: str) -> str:
    """Return the page with plain bars in the code of its tables. Code hosts want a backslash there, which the site shows."""
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)


def find_outside(page: str, link: str) -> str | None:
    """Return the path from the root of the repository if a page's link leads out of docs/ to a file, otherwise None."""
    target = (ROOT / "docs" / page).parent / link
    resolved = target.resolve()
    if not resolved.is_file() or resolved.is_relative_to(ROOT / "docs"):
        return None
    return resolved.relative_to(ROOT).as_posix()


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Let the search of a page that was opened from a folder use our own script instead of one from the Internet."""
    up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)
    return output.replace(SHIM, f"{up}javascripts/local-worker.js")
