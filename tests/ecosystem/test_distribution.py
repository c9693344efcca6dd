"""The wheel as a user installs it: in an empty virtual environment, with its dependencies from the package index."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import hearth
from support import repository


def run(*command: str | Path) -> str:
    """The output of a command. Raises AssertionError with both outputs if it fails."""
    done = subprocess.run(
        [*map(str, command)], cwd=repository.ROOT, capture_output=True, text=True, check=False, timeout=600
    )
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
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")} == {"hearth"}
    assert "hearth/plan/health/health_rules.yaml" in names
    papers = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert papers == {"LICENSE", "SECURITY.md"}


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    programs = tmp_path / "empty" / "bin"
    run(programs / "pip", "install", "--quiet", "--disable-pip-version-check", wheel)

    described = json.loads(run(programs / "hearth", "version", "--json"))

    assert (described["version"], described["apiVersion"]) == (hearth.__version__, "hearth.dev/v1alpha1")
    assert "kubectl stack" in run(programs / "kubectl-stack", "--help")
    assert "stacks.hearth.dev" in run(programs / "hearth", "crds")


def find_newest() -> Path:
    """The newest Python on this machine that the package supports; by default, the Python of the tests."""
    classifiers = tomllib.loads((repository.ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = [each.rpartition(" ")[2] for each in classifiers if re.fullmatch(r".*:: 3\.\d+", each)]
    for version in sorted(versions, key=lambda each: int(each.partition(".")[2]), reverse=True):
        folders = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin"))
        on_path = shutil.which(f"python{version}")
        found: list[Path] = [*([Path(on_path)] if on_path else ()), *(each / "python" for each in folders)]
        if (working := next(filter(is_working, found), None)) is not None:
            return working
    return Path(sys.executable)


def is_working(python: Path) -> bool:
    """Whether a program is Python; one that only chooses among several may know none of that version."""
    return subprocess.run([str(python), "-c", ""], capture_output=True, check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("find_python", [lambda: Path(sys.executable), find_newest], ids=["oldest", "newest"])
def test_the_command_is_one_file(tmp_path: Path, find_python: Callable[[], Path]) -> None:
    python = find_python()
    if python == Path(sys.executable):
        run("make", "dist")
    else:
        run("make", f"PYTHON={python}", f"VENV={tmp_path / 'environment'}", "dist")
    program = tmp_path / "kubectl-stack"
    shutil.copy(repository.ROOT / "dist" / "kubectl-stack", program)
    stack = tmp_path / "stack.yaml"
    shutil.copy(repository.EXAMPLES / "guestbook.yaml", stack)

    done = subprocess.run(
        [str(python), "-I", str(program), "lint", "-f", str(stack)],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (done.returncode, done.stdout) == (0, "1 Stack: no mistake\n"), done.stderr
