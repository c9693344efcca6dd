"""The Go modules of the tests compile packages that they share only once."""

from __future__ import annotations

import re
from pathlib import Path

import places
import pytest

from support import repository

KUBERNETES = places.HERE / "kubernetes"
SHARING = [
    *(places.HERE / name for name in ("coredns", "kwok")),
    *(repository.TESTS / "ecosystem" / "go" / name for name in ("certmanager", "flux", "helm")),
]
CLIENT = ("github.com/fxamacker/cbor", "golang.org/x/", "google.golang.org/protobuf", "k8s.io/")
"""Prefixes of modules around the Kubernetes client, the largest shared package. A package whose dependencies differ is
compiled again.
"""
PACKAGE = re.compile(r"^\t(?:\S+ (?:v\S+ )?=> )?(\S+) (v\S+)", re.MULTILINE)


def read_versions(module: Path) -> dict[str, str]:
    """Versions by module path, after replacement."""
    return dict(PACKAGE.findall((module / "go.mod").read_text()))


@pytest.mark.parametrize("module", SHARING, ids=lambda module: module.name)
def test_the_client_and_its_dependencies_have_the_versions_of_kubernetes(module: Path) -> None:
    kubernetes = read_versions(KUBERNETES)
    versions = read_versions(module)
    shared = {path for path in versions.keys() & kubernetes.keys() if path.startswith(CLIENT)}
    assert "k8s.io/client-go" in shared
    assert {path: versions[path] for path in shared} == {path: kubernetes[path] for path in shared}
