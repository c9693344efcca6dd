"""Installs Hearth's manifests on a control plane, except the process itself.

CRDs and rights come from the checkout of the operator: this one, or the one in `HEARTH_THREATS_CHECKOUT`. Imports
nothing of it.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
from pathlib import Path

import binaries
import yaml

from support.threats.api import Api, Object, find_path

VARIABLE = "HEARTH_THREATS_CHECKOUT"
ACCOUNT = "/api/v1/namespaces/hearth-system/serviceaccounts/hearth/token"
DAY = 86_400
USUAL = "install"
RIGHTS = (
    *("Namespace", "CustomResourceDefinition", "ServiceAccount"),
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
)
"""Kinds of an installation without its process, in the order of creation."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader written in C reads the CRDs in a tenth of the time."""


def find_root() -> Path:
    """The checkout of the operator that runs."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]).resolve()
    spec = importlib.util.find_spec("hearth")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).resolve().parents[2]


def connect(kubeconfig: Path) -> Api:
    import kubernetes.config

    client = kubernetes.config.new_client_from_config(config_file=str(kubeconfig))
    return Api(pool=client.rest_client.pool_manager, server=client.configuration.host)


def install(api: Api, variant: str = USUAL) -> None:
    """Install exactly the CRDs, namespace, ServiceAccount and rights of the manifests. variant: their folder.

    Applies like `kubectl apply --server-side --force-conflicts`, which would take longer than many tests.
    """
    for manifest in read_manifests(find_root()) if variant == USUAL else render(find_root(), variant):
        api.apply(manifest).expect()


@functools.cache
def render(root: Path, variant: str) -> tuple[Object, ...]:
    """The same objects of another variant, as kustomize renders them."""
    command = [str(binaries.ensure() / "kubectl"), "kustomize", str(root / "manifests" / variant)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [manifest for manifest in yaml.load_all(text, Loader=LOADER) if manifest["kind"] in RIGHTS]
    return tuple(sorted(found, key=lambda manifest: RIGHTS.index(manifest["kind"])))


@functools.cache
def read_manifests(root: Path) -> tuple[Object, ...]:
    """The objects of an installation, except the operator's process, in the order of creation."""
    install, crds = root / "manifests" / "install", root / "crds"
    listed = yaml.safe_load((crds / "Kustomization").read_text())["resources"]
    files = [install / "namespace.yaml", install / "rbac.yaml", *(crds / name for name in listed)]
    return tuple(manifest for file in files for manifest in yaml.load_all(file.read_text(), Loader=LOADER) if manifest)


def is_installed(api: Api) -> bool:
    """Whether the kinds are served."""
    return api.send("GET", find_path("Stack")).is_accepted


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
