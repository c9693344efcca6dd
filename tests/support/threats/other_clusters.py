"""Kubeconfigs of tenants, and the home control plane as another cluster."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import yaml

from support.threats.api import Object
from support.threats.world import ThreatWorld


def find_home(kubeconfig: Path) -> Object:
    """The cluster of a kubeconfig, with its certificates within."""
    whole = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    if file := whole.get("certificate-authority"):
        whole["certificate-authority-data"] = base64.b64encode(Path(file).read_bytes()).decode()
    return {key: whole[key] for key in ("server", "certificate-authority-data")}


def write_kubeconfig(cluster: Object, user: Object, *, namespace: str = "") -> str:
    """A kubeconfig of one cluster and one user."""
    place = {"namespace": namespace} if namespace else {}
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", **place}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "c", "user": user}],
        }
    )


def write_own(threats: ThreatWorld, account: str, *, namespace: str) -> str:
    """A working kubeconfig for the home cluster, as a ServiceAccount `namespace/name`."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{account.replace('/', '/serviceaccounts/')}/token"
    token = threats.api.send("POST", path, body=request).expect()["status"]["token"]
    return write_kubeconfig(find_home(threats.kubeconfig), {"token": token}, namespace=namespace)
