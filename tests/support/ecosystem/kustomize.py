"""The kustomizations of `manifests/`, and objects with what only one of two installers adds left out."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import binaries
import yaml

ROOT = Path(__file__).resolve().parents[3]
Object: TypeAlias = dict[str, Any]
ADDED = frozenset(
    {
        *("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"),
        *("hearth.dev/set", "helm.sh/resource-policy"),
    }
)
"""Labels and annotations of charts."""


def render(variant: str) -> list[Object]:
    """The objects of one of them."""
    command = [str(binaries.ensure() / "kubectl"), "kustomize", str(ROOT / "manifests" / variant)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def index(objects: Iterable[Object]) -> dict[str, Object]:
    """By kind and name each object, without what a chart adds; a namespace is no part of a chart."""
    return {
        f"{each['kind']}/{each['metadata']['name']}": simplify(each) for each in objects if each["kind"] != "Namespace"
    }


def simplify(given: Object) -> Object:
    """A copy without the labels of charts, without the image, and with the arguments in order."""
    simple: Object = strip(copy.deepcopy(given))
    for container in simple.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        container["args"] = [container["args"][0], *sorted(container["args"][1:])]
        for name in ("image", "imagePullPolicy"):
            container.pop(name, None)
    return simple


def strip(value: Any) -> Any:
    """The value without what charts add, and without annotations and labels where none are left."""
    if isinstance(value, list):
        return [strip(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: strip(each) for name, each in value.items() if name not in ADDED}
    return {name: each for name, each in kept.items() if each or name not in ("annotations", "labels")}
