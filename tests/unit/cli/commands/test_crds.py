"""`hearth crds`, and the committed file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click.testing
import pytest
import yaml

from hearth.cli import main
from hearth.cli.commands import crds
from support import repository
from support.server import fake_kinds

FOLDER = repository.ROOT / "crds"


@pytest.mark.parametrize("definition", fake_kinds.make_crds(), ids=lambda definition: definition["metadata"]["name"])
def test_the_committed_files_are_what_the_models_say(definition: dict[str, Any], tmp_path: Path) -> None:
    name = f"{definition['metadata']['name']}.yaml"
    result = click.testing.CliRunner().invoke(main.main, ["crds", "--directory", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert (FOLDER / name).read_text() == (tmp_path / name).read_text(), "crds/ is stale; write it again: make crds"


def test_the_file_holds_the_definition_without_loss() -> None:
    assert list(yaml.safe_load_all(crds.write_all())) == list(fake_kinds.make_crds())
    assert "&id" not in crds.write_all()


def test_crds_prints_the_file() -> None:
    result = click.testing.CliRunner().invoke(main.main, ["crds"])

    assert result.exit_code == 0
    assert result.stdout == crds.write_all()
