"""The Python packages of the image: wheels of the lock file, with its hashes, and Hearth itself.

The library `kubernetes`, and what only it needs, are left out: Hearth imports it for kubeconfigs of an old kind alone, no
pod has one, and it is half of the size.
"""

from __future__ import annotations

import email.parser
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

from image_debian import Impossible
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = {
    "amd64": [f"{each}_x86_64" for each in ("manylinux_2_36", "manylinux_2_28", "manylinux_2_17", "manylinux2014")],
    "arm64": [f"{each}_aarch64" for each in ("manylinux_2_36", "manylinux_2_28", "manylinux_2_17", "manylinux2014")],
}
"""Of wheels that run on Debian 12."""
LEFT_OUT = "kubernetes"
PLACE = Path("usr/local/lib/python3.11/dist-packages")


def list_names(left_out: str | None = LEFT_OUT) -> list[str]:
    """The packages that Hearth needs at run time, directly or not, as they are installed here from the lock file.

    left_out: the one of its dependencies that is not counted.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[str] = set()
    waiting = [text for text in project["dependencies"] if not left_out or not text.startswith(left_out)]
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            waiting += importlib.metadata.requires(name) or []
    return sorted(found)


def select_locked(names: list[str]) -> str:
    """The lines of the lock file for these packages, with their hashes."""
    lines = (ROOT / "requirements.lock").read_text().replace(" \\\n", " ").splitlines()
    by_name = {str(canonicalize_name(re.split(r"==|\[", line)[0])): line for line in lines if "==" in line}
    if missing := [name for name in names if name not in by_name]:
        raise Impossible(f"requirements.lock lacks {', '.join(missing)}: make it again, as its own head says")
    return "".join(f"{by_name[name]}\n" for name in names)


def fetch(architecture: str, folder: Path, left_out: str | None = LEFT_OUT) -> list[Path]:
    """Download the wheels for that architecture; pip checks the hashes.

    folder: keeps those of the lock file. left_out: as in `list_names`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    locked = folder / "requirements.txt"
    text = select_locked(list_names(left_out))
    if not locked.exists() or locked.read_text() != text:
        for stale in folder.glob("*"):
            stale.unlink()
        platforms = [f"--platform={each}" for each in PLATFORMS[architecture]]
        requirements = folder / "wanted.txt"
        requirements.write_text(text)
        arguments = ["download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", f"--dest={folder}"]
        run_pip(*arguments, "--implementation=cp", "--python-version=3.11", *platforms, f"--requirement={requirements}")
        requirements.rename(locked)
    return sorted(folder.glob("*.whl"))


def build_own(folder: Path) -> Path:
    """The wheel of Hearth; the same bytes for the same sources."""
    run_pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(ROOT))
    (wheel,) = folder.glob("hearth-*.whl")
    return wheel


def unpack(wheels: list[Path], root: Path) -> None:
    """Their modules; scripts are left out, as nothing in the image could type their names."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                name = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", entry.filename)
                if ".data/" not in name and not entry.is_dir():
                    target = root / PLACE / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(entry))


def read_metadata(wheel: Path) -> Message:
    """Name, version and license of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each)]
        return email.parser.HeaderParser().parsestr(archive.read(name).decode())


def find_license(metadata: Message) -> str:
    """The license that a package states: as an expression, in words, or by a classifier."""
    stated = metadata.get("License-Expression") or metadata.get("License") or ""
    classifiers = [each.split(" :: ")[-1] for each in metadata.get_all("Classifier") or () if "License ::" in each]
    # Some put the whole text there.
    return stated if stated and "\n" not in stated and len(stated) < 100 else " OR ".join(classifiers) or "not stated"


def run_pip(*arguments: str) -> None:
    """Run pip. Raises Impossible with its message."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": "315532800"}
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise Impossible(f"pip {arguments[0]} failed: {done.stderr.strip()[-2000:]}")
