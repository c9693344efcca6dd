"""Login with an `auth-provider` of a kubeconfig (`oidc`, `gcp`), the predecessor of exec plugins.

Uses the official client library. Its import takes half a second and 50 MiB, so it happens only when needed. Blocks.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from hearth.kube.auth.exec_plugin import LoginResult


def log_in(paths: Sequence[str], context: str) -> LoginResult:
    """Return the provider's token, renewed if expired. Raises any error of the library."""
    kube_config: Any = importlib.import_module("kubernetes.config.kube_config")
    merged = kube_config.KubeConfigMerger(os.pathsep.join(paths)).config
    # The library writes inline data to files, including private keys.
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        loader = kube_config.KubeConfigLoader(
            config_dict=merged, active_context=context, config_base_path=None, temp_file_path=folder
        )
        loader.load_and_set(Sink())
    found = vars(loader)
    token, expiry = found.get("token"), found.get("expiry")
    return LoginResult(
        token=token.removeprefix("Bearer ") if token else None, expires_at=expiry.timestamp() if expiry else None
    )


class Sink:
    """Receiver of the loader's values; they are read directly from the loader."""

    def __init__(self) -> None:
        self.api_key: dict[str, str] = {}
