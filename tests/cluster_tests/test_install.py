"""The manifests of the installation are what a real API server takes, as one `kubectl apply -k`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "cluster" / "controlplane.py"


def test_the_installation_is_accepted(kubeconfig: Path) -> None:
    """All of it, in one go, on a cluster that has never seen it; nothing is left behind."""
    arguments = ["apply", "--kubeconfig", str(kubeconfig), "--server-side", "--force-conflicts", "--dry-run=server"]
    command = [sys.executable, str(PROGRAM), "kubectl", *arguments, "-k", str(ROOT / "manifests" / "install")]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "deployment.apps/hearth serverside-applied" in done.stdout
