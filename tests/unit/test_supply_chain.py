"""What stands between a forged package and the operator, and where generated files go."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import click.testing
import pytest
import structlog

from hearth.cli import main
from hearth.serve import logs
from hearth.serve.metrics import Metrics
from support.units.restored_logging import restored_logging

ROOT = Path(__file__).resolve().parents[2]
LOCKED = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[^ ]+( ; [^\\]+)?( --hash=sha256:[0-9a-f]{64})+")
LABELS = {"code", "condition", "kind", "le", "limit", "phase", "reason", "result", "state", "verb", "where"}
"""Of our metrics: nothing of them is a name that a tenant chooses."""


def test_every_locked_package_has_hashes() -> None:
    """With one hash in the file pip demands one of every package; none may come from anywhere else."""
    text = (ROOT / "requirements.lock").read_text().replace(" \\\n   ", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]

    assert len(lines) > 30
    assert [line for line in lines if not LOCKED.fullmatch(line)] == []
    assert "--no-build-isolation" in (ROOT / "Makefile").read_text()


def test_definitions_are_written_under_fixed_names(tmp_path: Path) -> None:
    """Nothing in a model decides where they go."""
    result = click.testing.CliRunner().invoke(main.main, ["crds", "--directory", str(tmp_path)])

    assert result.exit_code == 0
    assert {each.name for each in tmp_path.rglob("*")} == {
        "stacks.hearth.dev.yaml",
        "healthmarks.hearth.dev.yaml",
        "resourcegroups.hearth.dev.yaml",
        "stacksnapshots.hearth.dev.yaml",
        "stacktemplates.hearth.dev.yaml",
        "stackdefinitions.hearth.dev.yaml",
    }


@pytest.mark.parametrize("value", ["a\nb", 'a" level="x', "a\u2028b", "a\x1b[31m", "a\r", "{}\n{}", "a=b c=d", "a\x00"])
def test_a_value_is_no_line_of_the_log(value: str) -> None:
    """Names and messages of tenants stay one field of one line, in both formats."""
    for format_ in ("json", "text"):
        stream = io.StringIO()
        with restored_logging():
            logs.configure(format_=format_, level="info", stream=stream)
            structlog.get_logger("hearth").info("step failed", message=value)
        (line,) = stream.getvalue().splitlines()
        assert line.isprintable()
        if format_ == "json":
            assert json.loads(line)["message"] == value


def test_no_metric_has_a_label_for_what_tenants_name() -> None:
    """Kinds, phases, codes and reasons alone: as many series as there are of these."""
    metrics = Metrics()
    metrics.sample(cached_objects=dict, cached_bytes=dict, stacks=dict, writes=dict)
    text = metrics.render().decode()
    declared = {label for _, names in find_label_names(metrics) for label in names}

    assert {label for label in declared if label not in LABELS} == set()
    assert "hearth_build_info" in text


def find_label_names(metrics: Metrics) -> list[tuple[str, tuple[str, ...]]]:
    """The labels of each metric of ours, by its name."""
    collectors = {id(each): each for each in vars(metrics).values() if hasattr(each, "_labelnames")}
    assert len(collectors) > 5
    return [(each._name, tuple(each._labelnames)) for each in collectors.values()]
