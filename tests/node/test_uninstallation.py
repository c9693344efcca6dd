"""An uninstalled Hearth leaves nothing. The last module of this installation; `test_with_helm` has its own."""

from __future__ import annotations

import pytest

from support import repository
from support.ecosystem.release import CRDS
from support.node import node_cluster
from support.node.node_cluster import NodeCluster

pytestmark = pytest.mark.alone
NAMES = "custom-columns=:kind,:metadata.namespace,:metadata.name"


def test_uninstalled_it_leaves_nothing(node: NodeCluster, installed: float) -> None:
    """No object of any kind remains: deleting the Namespace deletes the Lease as well."""
    names = [each["metadata"]["name"] for each in node.kubectl.get("namespaces")]
    # The operator removes the finalizers of Stacks, so delete the Stacks first.
    if tests := [name for name in names if name.startswith(node_cluster.PREFIX)]:
        node.kubectl.call("delete", "namespace", *tests, "--timeout=180s")

    node.kubectl.call("delete", "-k", str(repository.MANIFESTS / "install"), "--timeout=180s")

    kinds = node.kubectl.call("api-resources", "--verbs=list", "--output=name").split()
    assert [kind for kind in kinds if kind.endswith(".hearth.dev")] == []
    listed = [kind for kind in kinds if not kind.startswith(("events", "endpoints"))]
    found = node.kubectl.call("get", ",".join(listed), "--all-namespaces", "--no-headers", f"--output={NAMES}")
    assert [line for line in found.splitlines() if "hearth" in line] == []
    assert len(CRDS) > 0
