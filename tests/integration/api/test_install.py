"""A real API server accepts the installation manifests in one `kubectl apply -k`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import repository
from support.real import user_shell


@pytest.mark.parametrize(
    ("folder", "workload"),
    [
        pytest.param("install", "deployment.apps", id="one works"),
        pytest.param("shards", "statefulset.apps", id="shards"),
    ],
)
def test_the_installation_is_accepted(kubeconfig: Path, folder: str, workload: str) -> None:
    """A dry run of all manifests at once. Only the namespace is really created, because the dry run needs it."""
    said = user_shell.run_kubectl(kubeconfig, "create", "namespace", "hearth-system")
    assert said.returncode == 0 or "AlreadyExists" in said.stderr, said.stderr

    done = user_shell.run_kubectl(
        *(kubeconfig, "apply", "--server-side", "--force-conflicts", "--dry-run=server"),
        *("-k", str(repository.MANIFESTS / folder)),
    )

    assert done.returncode == 0, done.stderr
    assert f"{workload}/hearth serverside-applied" in done.stdout
