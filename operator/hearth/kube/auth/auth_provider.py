"""Logging in by an `auth-provider` of a kubeconfig (`oidc`, `gcp`), which exec plugins have replaced: by the official client library.

That library takes half a second and 50 MiB to import, so that only those pay for it who still need it. Blocks.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from hearth.kube.auth.exec_plugin import LoginResult


def log_in(paths: Sequence[str], context: str) -> LoginResult:
    """The token that the provider gives, renewed where it has ended. Raises whatever the library does."""
    kube_config: Any = importlib.import_module("kubernetes.config.kube_config")
    merged = kube_config.KubeConfigMerger(os.pathsep.join(paths)).config
    # It writes what is given inline to files, private keys among them.
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
    """Takes what the loader sets; everything is read off the loader itself."""

    def __init__(self) -> None:
        self.api_key: dict[str, str] = {}
