"""The wheel as a user installs it: in an empty virtual environment, with its dependencies from the package index."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import hearth

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path) -> str:
    """The output of a command. Raises AssertionError with both outputs if it fails."""
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by `make dist`'s command."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder)
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """With its data files, and without tests."""
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")} == {"hearth"}
    assert "hearth/plan/health/health_rules.yaml" in names


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Both programs, as pipx would install them."""
    venv.create(tmp_path / "empty", with_pip=True)
    programs = tmp_path / "empty" / "bin"
    run(programs / "pip", "install", "--quiet", "--disable-pip-version-check", wheel)

    described = json.loads(run(programs / "hearth", "version", "--json"))

    assert (described["version"], described["apiVersion"]) == (hearth.__version__, "hearth.dev/v1alpha1")
    assert "kubectl stack" in run(programs / "kubectl-stack", "--help")
    assert "stacks.hearth.dev" in run(programs / "hearth", "crds")
