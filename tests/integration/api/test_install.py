"""The manifests of the installation are what a real API server takes, as one `kubectl apply -k`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests" / "control_plane" / "controlplane.py"


@pytest.mark.parametrize(
    ("folder", "workload"),
    [
        pytest.param("install", "deployment.apps", id="one works"),
        pytest.param("shards", "statefulset.apps", id="shards"),
    ],
)
def test_the_installation_is_accepted(kubeconfig: Path, folder: str, workload: str) -> None:
    """All of it, in one go; but for the namespace, which a dry run of the rest needs, nothing is left behind."""
    said = kubectl(kubeconfig, "create", "namespace", "hearth-system")
    assert said.returncode == 0 or "AlreadyExists" in said.stderr, said.stderr

    done = kubectl(
        *(kubeconfig, "apply", "--server-side", "--force-conflicts", "--dry-run=server"),
        *("-k", str(ROOT / "manifests" / folder)),
    )

    assert done.returncode == 0, done.stderr
    assert f"{workload}/hearth serverside-applied" in done.stdout


def kubectl(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What kubectl says to that."""
    command = [sys.executable, str(PROGRAM), "kubectl", arguments[0], "--kubeconfig", str(kubeconfig), *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False)
