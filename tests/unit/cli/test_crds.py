"""`hearth crds`, and the committed file."""

from __future__ import annotations

from pathlib import Path

import click.testing
import yaml

from hearth.cli import crds, main
from hearth.model import crd

FILE = Path(__file__).resolve().parents[3] / "crds" / "stacks.hearth.dev.yaml"


def test_the_committed_file_is_what_the_models_say() -> None:
    """Whoever installs from the repository gets what the code means."""
    assert FILE.read_text() == crds.write_all(), "crds/ is stale; write it anew: make crds"


def test_the_file_holds_the_definition_without_loss() -> None:
    """No anchor, no cut line, no changed type."""
    assert list(yaml.safe_load_all(crds.write_all())) == list(crd.make_crds())
    assert "&id" not in crds.write_all()


def test_crds_prints_the_file() -> None:
    """So that it can be piped into kubectl."""
    result = click.testing.CliRunner().invoke(main.main, ["crds"])

    assert result.exit_code == 0
    assert result.stdout == crds.write_all()
