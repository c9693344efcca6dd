"""The bundle for the Operator Lifecycle Manager (OLM), from the chart's metadata and the objects that the chart creates.

The chart's objects are read from `manifests/install`, which has the same ones as YAML; a test compares the two. A bundle can
contain neither admission policies nor webhook configurations of our own, so an installation by OLM has no webhook.
Source: https://olm.operatorframework.io/docs/tasks/creating-operator-manifests.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Object: TypeAlias = dict[str, Any]

PACKAGE = "hearth"
CHANNEL = "alpha"
CAPABILITIES = "Seamless Upgrades"
CATEGORIES = "Integration & Delivery"
WEBHOOK_FLAG, WEBHOOK_PORT = "--webhook-address=", "webhook"
INSTALL_MODES = {"OwnNamespace": False, "SingleNamespace": False, "MultiNamespace": False, "AllNamespaces": True}
PREFIX = "operators.operatorframework.io.bundle"
LABELS = {
    f"{PREFIX}.mediatype.v1": "registry+v1",
    f"{PREFIX}.manifests.v1": "manifests/",
    f"{PREFIX}.metadata.v1": "metadata/",
    f"{PREFIX}.package.v1": PACKAGE,
    f"{PREFIX}.channels.v1": CHANNEL,
    f"{PREFIX}.channel.default.v1": CHANNEL,
}


def make_bundle(root: Path, image: str) -> dict[str, str]:
    """The files of the bundle by path. root: the checkout. image: with its digest."""
    chart = yaml.safe_load((root / "manifests/chart/Chart.yaml").read_text())
    installed = read_objects((root / "manifests/install").glob("*.yaml"))
    crds = read_objects((root / "crds").glob("*.yaml"))
    (example,) = read_objects([root / "manifests/examples/guestbook.yaml"])
    user_roles = read_objects((root / "manifests/rbac").glob("*.yaml"))
    budgets = [drop_namespace(each) for each in installed if each["kind"] == "PodDisruptionBudget"]
    version = make_cluster_service_version(chart, installed, crds, example, image)
    documents = {
        f"manifests/{PACKAGE}.clusterserviceversion.yaml": version,
        "metadata/annotations.yaml": {"annotations": LABELS},
    }
    for each in [*crds, *user_roles, *budgets]:
        documents[f"manifests/{each['metadata']['name']}.{each['kind'].lower()}.yaml"] = each
    files = {
        name: yaml.safe_dump(each, sort_keys=False, width=120, allow_unicode=True) for name, each in documents.items()
    }
    return {**files, "bundle.Dockerfile": make_containerfile()}


def read_objects(paths: Iterable[Path]) -> list[Object]:
    """The objects in these files, without kustomizations."""
    documents = [each for path in sorted(paths) for each in yaml.safe_load_all(path.read_text()) if each]
    return [each for each in documents if each["kind"] != "Kustomization"]


def drop_namespace(source: Object) -> Object:
    """The object without its namespace, which OLM chooses."""
    metadata = {key: value for key, value in source["metadata"].items() if key != "namespace"}
    return {**source, "metadata": metadata}


def make_cluster_service_version(
    chart: Object, installed: list[Object], crds: list[Object], example: Object, image: str
) -> Object:
    """The ClusterServiceVersion. installed: the objects of an installation. example: a Stack."""
    version = chart["version"]
    metadata = {
        "name": f"{PACKAGE}.v{version}",
        "annotations": {
            "alm-examples": json.dumps([example]),
            "capabilities": CAPABILITIES,
            "categories": CATEGORIES,
            "containerImage": image,
            "description": chart["description"],
        },
    }
    spec = {
        "displayName": "Hearth",
        "description": f"{chart['description']}\n\nDocumentation: {chart['home']}/docs",
        "version": version,
        "minKubeVersion": find_least_kubernetes(chart),
        "maturity": CHANNEL,
        "keywords": chart["keywords"],
        "provider": {"name": chart["maintainers"][0]["name"], "url": chart["home"]},
        "maintainers": chart["maintainers"],
        "links": [{"name": "Documentation", "url": f"{chart['home']}/docs"}],
        "installModes": [{"type": name, "supported": is_supported} for name, is_supported in INSTALL_MODES.items()],
        "customresourcedefinitions": {"owned": [describe_kind(each) for each in crds]},
        "relatedImages": [{"name": PACKAGE, "image": image}],
        "install": {
            "strategy": "deployment",
            "spec": {
                "deployments": [make_deployment(each, image) for each in installed if each["kind"] == "Deployment"],
                **make_permissions(installed),
            },
        },
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": metadata,
        "spec": spec,
    }


def find_least_kubernetes(chart: Object) -> str:
    """The oldest version of Kubernetes that the chart accepts: 1.30.0."""
    found = re.fullmatch(r">=(\d+\.\d+\.\d+)-0", chart["kubeVersion"])
    if found is None:
        raise ValueError(f"kubeVersion of the chart is {chart['kubeVersion']!r}, expected the form '>=1.30.0-0'")
    return found[1]


def describe_kind(crd: Object) -> Object:
    """A CRD as catalogs describe it: OLM, and Artifact Hub in the chart."""
    (version,) = crd["spec"]["versions"]
    kind = crd["spec"]["names"]["kind"]
    description = " ".join(version["schema"]["openAPIV3Schema"]["description"].split())
    return {
        "name": crd["metadata"]["name"],
        "version": version["name"],
        "kind": kind,
        "displayName": re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind),
        "description": description.partition(". ")[0].removesuffix(".") + ".",
    }


def make_deployment(deployment: Object, image: str) -> Object:
    """The Deployment without the webhook."""
    spec = copy.deepcopy(deployment["spec"])
    (container,) = spec["template"]["spec"]["containers"]
    container["image"] = image
    container["args"] = [each for each in container["args"] if not each.startswith(WEBHOOK_FLAG)]
    container["ports"] = [each for each in container["ports"] if each["name"] != WEBHOOK_PORT]
    return {"name": deployment["metadata"]["name"], "label": deployment["metadata"]["labels"], "spec": spec}


def make_permissions(installed: list[Object]) -> Object:
    """The rules of the roles that bindings give to the operator. An aggregated role has no rules of its own here."""
    account = next(each["metadata"]["name"] for each in installed if each["kind"] == "ServiceAccount")
    roles = {(each["kind"], each["metadata"]["name"]): each.get("rules", []) for each in installed}
    rules: dict[str, list[Object]] = {"RoleBinding": [], "ClusterRoleBinding": []}
    for each in installed:
        if each["kind"] in rules:
            rules[each["kind"]] += roles[each["roleRef"]["kind"], each["roleRef"]["name"]]
    return {
        "permissions": [{"serviceAccountName": account, "rules": rules["RoleBinding"]}],
        "clusterPermissions": [{"serviceAccountName": account, "rules": rules["ClusterRoleBinding"]}],
    }


def make_containerfile() -> str:
    """The file that builds the image of the bundle."""
    labels = "".join(f"LABEL {key}={value}\n" for key, value in LABELS.items())
    return f"FROM scratch\n{labels}COPY manifests /manifests/\nCOPY metadata /metadata/\n"
