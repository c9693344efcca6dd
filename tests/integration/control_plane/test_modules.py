"""The Go modules of the tests compile packages that they share only once."""

from __future__ import annotations

import re
from pathlib import Path

import binaries
import places
import progress
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


def test_the_makefile_and_the_support_page_list_the_versions_of_kubernetes_that_have_a_module() -> None:
    pinned = sorted(binaries.read_kubernetes(each.parent) for each in places.HERE.glob("kubernetes*/go.mod"))
    tested = re.search(r"^VERSIONS \?= (.*)$", (repository.ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    listed = re.findall(r"^\| (v\S+) \|", (repository.DOCS / "support.md").read_text(), flags=re.MULTILINE)

    assert tested is not None
    assert [f"v{each}" for each in tested[1].split()] == [each.rpartition(".")[0] for each in pinned]
    assert listed == pinned


def test_an_unknown_version_of_kubernetes_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(binaries.VARIABLE, "1.1")

    with pytest.raises(progress.Impossible, match=r"HEARTH_KUBERNETES=1\.1: unknown version; the tests have v1\."):
        binaries.pinned_kubernetes()
