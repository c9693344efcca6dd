"""A browser, its driver and the rules of axe-core for the tests of the page. Run as a program, it installs missing
parts.

The browser comes from Debian's packages, axe-core from the npm registry, pinned by the hash of its package. If
installation is impossible, the message has the next step: tests without a browser must not look like passed tests.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import locks
import places
import progress

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver", "npm": "npm"}
"""The Debian package of each program."""
AXE_VERSION = "4.14.1"
AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
AXE_FILE = "package/axe.min.js"
ADVICE = "install them as root: apt-get install chromium chromium-driver npm; then run `make browser`"


@dataclass(frozen=True, slots=True)
class BrowserPrograms:
    browser: str
    driver: str
    axe: Path


def find() -> BrowserPrograms:
    """Find the installed programs. Raises Impossible, with the next step."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        raise progress.Impossible(f"the tests of the page need the programs chromium and chromedriver: {ADVICE}")
    if not axe_file().is_file():
        raise progress.Impossible(f"the tests of the page need axe-core at {axe_file()}: run `make browser`")
    return BrowserPrograms(browser, driver, axe_file())


def ensure() -> BrowserPrograms:
    """Install missing programs."""
    with locks.only_one(
        places.cache() / "axe-core" / ".lock", when_waiting=lambda: progress.say("another installation runs: waiting")
    ):
        wanted = ["chromium", "chromedriver", *(["npm"] if not axe_file().is_file() else [])]
        missing = [PACKAGES[program] for program in wanted if shutil.which(program) is None]
        if missing:
            install(missing)
        if not axe_file().is_file():
            fetch_axe()
    return find()


def install(packages: list[str]) -> None:
    """Install packages of Debian."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise progress.Impossible(f"the tests of the page need the packages {', '.join(packages)}: {ADVICE}")
    with progress.step(f"installing {', '.join(packages)}, once for this machine"):
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            run(["apt-get", "-qq", *command], DEBIAN_FRONTEND="noninteractive")


def axe_file() -> Path:
    """The path of the rules file."""
    return places.cache() / "axe-core" / AXE_VERSION / "axe.min.js"


def fetch_axe() -> None:
    """Fetch the package of axe-core, check its hash, and keep the one file that browsers load."""
    with tempfile.TemporaryDirectory() as folder:
        run(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder, f"axe-core@{AXE_VERSION}"])
        content = Path(folder, f"axe-core-{AXE_VERSION}.tgz").read_bytes()
    found = base64.b64encode(hashlib.sha512(content).digest()).decode()
    if found != AXE_SHA512:
        raise progress.Impossible(f"axe-core {AXE_VERSION} has the hash {found}, expected {AXE_SHA512}; do not use it")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        member = archive.extractfile(AXE_FILE)
        if member is None:
            raise progress.Impossible(f"axe-core {AXE_VERSION} has no {AXE_FILE}")
        target = axe_file()
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_suffix(".part")
        beside.write_bytes(member.read())
        beside.rename(target)


def run(command: list[str], **environment: str) -> None:
    """Run a command; its output matters only if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    if done.returncode != 0:
        raise progress.Impossible(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}\n{ADVICE}")


if __name__ == "__main__":
    try:
        ensure()
    except progress.Impossible as impossible:
        sys.exit(str(impossible))
