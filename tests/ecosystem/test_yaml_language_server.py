"""The YAML language server of VS Code and Neovim, with the schemas and the example of the page about editors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import console_blocks, repository
from support.ecosystem import programs
from support.real.language_client import CURSOR, LanguageClient

pytestmark = pytest.mark.ecosystem
EXAMPLE = console_blocks.read_files((repository.DOCS / "editor.md").read_text())["shop.yaml"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the schemas of all kinds."""
    made = tmp_path_factory.mktemp("editor")
    subprocess.run([sys.executable, "-m", "hearth", "schema", "--directory", str(made / "schemas")], check=True)
    return made


@pytest.fixture(scope="module")
def editor(folder: Path) -> Iterator[LanguageClient]:
    """An editor whose files are in that folder."""
    with LanguageClient(folder=folder, server=(programs.install_yaml_language_server(), "--stdio")) as session:
        yield session


def write_in_spec(line: str) -> str:
    """Return the example with another line at the beginning of its spec."""
    return EXAMPLE.replace("spec:\n", f"spec:\n  {line}\n")


def test_the_example_of_the_page_has_no_finding(editor: LanguageClient, folder: Path) -> None:
    uri = (folder / "shop.yaml").as_uri()

    editor.write(uri, EXAMPLE)

    assert editor.wait_diagnostics(uri) == []


def test_unknown_fields_and_wrong_values_are_underlined(editor: LanguageClient, folder: Path) -> None:
    uri = (folder / "wrong.yaml").as_uri()

    editor.write(uri, write_in_spec("rollbak: {onFailure: true}\n  paused: 5"))

    found = {each["range"]["start"]["line"]: each["message"] for each in editor.wait_diagnostics(uri)}
    line = EXAMPLE.splitlines().index("spec:")
    assert found == {line + 1: "Property rollbak is not allowed.", line + 2: 'Incorrect type. Expected "boolean".'}


def test_fields_are_completed_and_explained(editor: LanguageClient, folder: Path) -> None:
    fields = editor.complete((folder / "completed.yaml").as_uri(), write_in_spec(CURSOR))
    hover = editor.ask_at("hover", (folder / "hover.yaml").as_uri(), write_in_spec(f"pau{CURSOR}sed: true"))

    assert {"rollback", "paused", "parameters"} <= set(fields)
    assert "neither writes nor deletes children" in hover["contents"]["value"]
