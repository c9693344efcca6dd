"""Programs that check Hearth's reports and shipped files, from pinned Go modules and from the npm registry."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import go_programs
import locks
import places
import progress
from go_programs import Program

from hearth.model.child import Object
from support import repository

MODULES, NPM = repository.TESTS / "ecosystem" / "go", repository.TESTS / "ecosystem" / "npm"
KSTATUS = Program(name="kstatus", module=MODULES / "kstatus", package=".")
"""A small program of our own around the library."""
PROMTOOL = Program(
    name="promtool",
    module=MODULES / "prometheus",
    package="github.com/prometheus/prometheus/cmd/promtool",
    # The clients of some twenty clouds take longer to compile than all the rest.
    unneeded=("plugins.go",),
)
OPERATOR_VERIFY = Program(
    name="operator-verify", module=MODULES / "olm", package="github.com/operator-framework/api/cmd/operator-verify"
)
KREW = Program(name="krew", module=MODULES / "krew", package="sigs.k8s.io/krew/cmd/krew")
FLUX = Program(name="kustomize-controller", module=MODULES / "flux", package="github.com/fluxcd/kustomize-controller")


def ask_kstatus(objects: Sequence[Object]) -> list[str]:
    """Return the kstatus of each object: Current, InProgress, Failed …"""
    done = subprocess.run(
        [go_programs.build_go_program(KSTATUS)],
        input=json.dumps(list(objects)),
        capture_output=True,
        text=True,
        check=True,
    )
    return [found["status"] for found in json.loads(done.stdout)]


def find_bundle_errors(folder: Path) -> list[str]:
    """Return the errors that the validator of OLM finds in the manifests of a bundle."""
    program = str(go_programs.build_go_program(OPERATOR_VERIFY))
    command = [program, "manifests", "--operatorhub_validate", "--object_validate", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # It succeeds even if it finds errors.
    return [line for line in done.stderr.splitlines() if "level=warning" not in line]


def install_by_krew(manifest: Path, archive: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Install a kubectl plugin from a local archive. home: krew's own folder."""
    return subprocess.run(
        [go_programs.build_go_program(KREW), "install", f"--manifest={manifest}", f"--archive={archive}"],
        env={**os.environ, "KREW_ROOT": str(home), "KREW_NO_UPGRADE_CHECK": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def run_promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [go_programs.build_go_program(PROMTOOL), *arguments], capture_output=True, text=True, check=False
    )


def install_yaml_language_server() -> Path:
    """Return the language server of editors for YAML, with the versions and hashes in package-lock.json."""
    digest = hashlib.sha256((NPM / "package-lock.json").read_bytes()).hexdigest()
    folder = places.cache() / "npm" / digest[:16]
    with locks.only_one(folder.with_suffix(".lock"), when_waiting=lambda: progress.say("another installation runs")):
        if not folder.is_dir():
            install_packages(folder)
    return folder / "node_modules" / ".bin" / "yaml-language-server"


def install_packages(folder: Path) -> None:
    """Install the npm packages of package-lock.json; an interruption leaves no folder."""
    if shutil.which("npm") is None:
        raise progress.Impossible(
            "the tests of editors need Node.js and npm; install them as root: apt-get install npm"
        )
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        copy = shutil.copytree(NPM, Path(beside, "packages"))
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise progress.Impossible(
                f"npm could not install the packages of {NPM}/package.json:\n{done.stderr[-2000:]}"
            )
        copy.rename(folder)
