"""Hearth on a control plane as its manifests install it, but for the process itself.

Takes CRDs and rights from the checkout whose operator runs: this one, or that which `HEARTH_THREATS_CHECKOUT` names.
Imports nothing of it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from support.threats.api import Api, find_path

VARIABLE = "HEARTH_THREATS_CHECKOUT"
ACCOUNT = "/api/v1/namespaces/hearth-system/serviceaccounts/hearth/token"
DAY = 86_400
PROGRAM = Path(__file__).resolve().parents[2] / "control_plane" / "controlplane.py"


def find_root() -> Path:
    """The checkout of the operator that runs."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]).resolve()
    spec = importlib.util.find_spec("hearth")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).resolve().parents[2]


def connect(kubeconfig: Path) -> Api:
    """The administrator."""
    import kubernetes.config

    client = kubernetes.config.new_client_from_config(config_file=str(kubeconfig))
    return Api(pool=client.rest_client.pool_manager, server=client.configuration.host)


def install(kubeconfig: Path) -> None:
    """CRDs, namespace, ServiceAccount and rights, and nothing that is not in the manifests."""
    root = find_root()
    install = root / "manifests" / "install"
    files = ["-f", str(install / "namespace.yaml"), "-f", str(install / "rbac.yaml"), "-k", str(root / "crds")]
    for kind, file in zip(files[::2], files[1::2], strict=True):
        command = [sys.executable, str(PROGRAM), "kubectl", "apply", "--kubeconfig", str(kubeconfig)]
        done = subprocess.run(
            [*command, "--server-side", "--force-conflicts", kind, file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def is_installed(api: Api) -> bool:
    """Whether the kinds are served, and the aggregated role is filled in."""
    role = api.get("ClusterRole", "", "hearth-children") or {}
    return bool(role.get("rules")) and api.send("GET", find_path("Stack")).is_accepted


def write_operator_kubeconfig(api: Api, admin: Path, path: Path) -> Path:
    """A kubeconfig of the operator's own ServiceAccount."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": DAY}}
    token = api.send("POST", ACCOUNT, body=body).expect()["status"]["token"]
    content = yaml.safe_load(admin.read_text())
    content["users"] = [{"name": "hearth", "user": {"token": token}}]
    cluster = content["clusters"][0]["name"]
    content["contexts"] = [{"name": "hearth", "context": {"cluster": cluster, "user": "hearth"}}]
    content["current-context"] = "hearth"
    path.write_text(json.dumps(content))
    return path
