"""Writes the outlines of our CustomResourceDefinitions that the operator compares with the installed ones.

The operator has the file, not the models: these would cost it tens of milliseconds and some megabytes at each start.
Run by `make crds`; a test compares the file with the models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hearth.kube.objects import installed_crds
from hearth.model.api import crd

PATH = Path(installed_crds.__file__).with_name(installed_crds.OUTLINES)
KEPT = ("properties", "items", "additionalProperties", "x-kubernetes-preserve-unknown-fields")


def make_text() -> str:
    """Return the required contents of the file."""
    return json.dumps([make_outline(each) for each in crd.make_crds()], indent=1) + "\n"


def make_outline(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the parts of a definition that the comparison reads."""
    version = definition["spec"]["versions"][0]
    schema = {"openAPIV3Schema": strip(version["schema"]["openAPIV3Schema"])}
    outline = {"subresources": {key: {} for key in version.get("subresources", ())}, "schema": schema}
    return {"metadata": {"name": definition["metadata"]["name"]}, "spec": {"versions": [outline]}}


def strip(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the structure of a schema."""
    found = {word: node[word] for word in KEPT if word in node}
    if "properties" in found:
        found["properties"] = {name: strip(inner) for name, inner in found["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(found.get(word), Mapping):
            found[word] = strip(found[word])
    return found


if __name__ == "__main__":
    PATH.write_text(make_text())
