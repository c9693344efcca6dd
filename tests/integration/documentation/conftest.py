"""A user's shell for the commands of the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.real import user_shell


@pytest.fixture
def environment(kubeconfig: Path, namespace: str, tmp_path: Path) -> dict[str, str]:
    """A user's shell: kubectl with its plugin and hearth, in the namespace of the test."""
    return user_shell.make_environment(kubeconfig, namespace, tmp_path)
