"""Runs a command on a kind cluster: `kind_cluster.py -- COMMAND`, with KUBECONFIG set for the command.

An existing cluster of that name is used and kept; a cluster that this call created is deleted at the end. Needs Docker
and kind, both the user's own, and the standard library.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import command
import places
import progress

NAME = "hearth"


def main() -> int:
    """Run the command on the cluster; return its exit code."""
    try:
        _check_tools()
        return _run(sys.argv[1:])
    except progress.Impossible as error:
        progress.say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def _check_tools() -> None:
    instead = "`make run` needs neither Docker nor kind"
    engine = shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False)
    if not engine:
        raise progress.Impossible(f"kind needs Docker, and there is no `docker` on PATH: install it; {instead}")
    if engine.returncode != 0:
        raise progress.Impossible(
            f"kind needs Docker, and `docker info` finds no engine that answers: start it; {instead}"
        )
    if shutil.which("kind") is None:
        raise progress.Impossible(f"there is no `kind` on PATH: install it (kind.sigs.k8s.io); {instead}")


def _run(words: list[str]) -> int:
    home = places.Home("kind")
    home.folder.mkdir(parents=True, exist_ok=True)
    existed = NAME in _kind("get", "clusters").split()
    try:
        if existed:
            progress.say(f"the kind cluster {NAME} is already up")
            home.kubeconfig.write_text(_kind("get", "kubeconfig", f"--name={NAME}"))
        else:
            with progress.step(f"creating the kind cluster {NAME}"):
                _kind("create", "cluster", f"--name={NAME}", f"--kubeconfig={home.kubeconfig}", "--wait=180s")
        return command.run(words, kubeconfig=home.kubeconfig)
    finally:
        if not existed:
            _kind("delete", "cluster", f"--name={NAME}", f"--kubeconfig={home.kubeconfig}")


def _kind(*words: str) -> str:
    outcome = subprocess.run(["kind", *words], capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise progress.Impossible(f"`kind {' '.join(words[:2])}` failed: {outcome.stderr.strip()}")
    return outcome.stdout


if __name__ == "__main__":
    sys.exit(main())
