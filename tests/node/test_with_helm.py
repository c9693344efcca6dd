"""Hearth as Helm installs it, on a node without another Hearth: upgrades under load, shards, other clusters, removal.

The tests are steps of one release, in the order of this file. Its name puts it behind `test_uninstallation`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import node_images
import pytest

import hearth
from support import repository
from support.ecosystem import helm, kinds
from support.ecosystem.helm import CHART, Helm
from support.node import node_cluster
from support.node.node_cluster import INSTALLED_IN, NodeCluster, NodeUser

pytestmark = pytest.mark.alone
Object = dict[str, Any]
PODS = ("pods", "--selector=app.kubernetes.io/name=hearth")
VALUES = (f"--set=image.repository={node_images.REGISTRY}/hearth", "--set=settings.definitionGroups=platform.example")
CONFIG: Object = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": "s"}}}
OF_EACH_NAMESPACE = ("ConfigMap kube-root-ca.crt", "ServiceAccount default")
INSTANCES = 50
LIMIT_MIB = 1024
"""Memory limit in the chart."""


class Release:
    """The release `hearth` of the chart."""

    def __init__(self, node: NodeCluster, program: Helm) -> None:
        self.node = node
        self.helm = program

    def call(self, action: str, *arguments: str, timeout: str = "3m") -> None:
        """Install or upgrade it, and wait."""
        words = ("hearth", str(CHART), f"--namespace={INSTALLED_IN}", "--wait", f"--timeout={timeout}", *arguments)
        done = self.helm.run(action, *words)
        assert done.returncode == 0, done.stderr

    def upgrade(self, *arguments: str, timeout: str = "3m") -> None:
        """Upgrade it with further values."""
        self.call("upgrade", "--reset-then-reuse-values", *arguments, timeout=timeout)

    def read_peaks(self) -> dict[str, int]:
        """Peak memory of each Pod's processes in MiB."""
        return {
            pod["metadata"]["name"]: sum(node_cluster.read_peak(pid) for pid in self.node.find_processes(pod)) >> 10
            for pod in self.node.kubectl.get(*PODS)
        }


@pytest.fixture(scope="module")
def release(node: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """The installed release; removed at the end even if a test failed."""
    if node.kubectl.get("crd", "stacks.hearth.dev"):
        pytest.fail("Hearth is installed already: run `kubectl delete -k manifests/install` on the node")
    home = tmp_path_factory.mktemp("helm")
    made = Release(node, Helm(program=helm.build(), home=home, kubeconfig=node.home.kubeconfig))
    made.call("install", "--create-namespace", *VALUES)
    yield made
    made.helm.run("uninstall", "hearth", f"--namespace={INSTALLED_IN}")


@pytest.fixture(scope="module")
def tenant(node: NodeCluster, release: Release) -> NodeUser:
    """A user with a separate namespace, for all tests."""
    return node.make_user()


def converge(user: NodeUser, name: str) -> None:
    """Create a Stack, and wait until it is ready."""
    user.kubectl.apply([kinds.make_stack(name, {"config": CONFIG})])
    user.kubectl.wait(f"stack/{name}", "condition=Ready")


def make_definition(size: str) -> Object:
    """A kind whose instances have two objects each."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": size, "title": "${params.title}"}}
    other = config | {"data": {"of": "${config.metadata.name}", "size": "${config.data.size}"}}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackDefinition",
        "metadata": {"name": "papers.platform.example"},
        "spec": {
            "group": "platform.example",
            "names": {"kind": "Paper", "plural": "papers"},
            "versions": [{"name": "v1alpha1"}],
            "template": {
                "parameters": {"title": {"type": "string"}},
                "resources": {"config": {"manifest": config}, "other": {"manifest": other}},
            },
            "rollout": {"maxUnavailable": 10},
        },
    }


def count_sizes(user: NodeUser, size: str) -> int:
    """The ConfigMaps with that size."""
    return sum((each.get("data") or {}).get("size") == size for each in user.kubectl.get("configmaps"))


def test_an_upgrade_in_the_middle_of_a_rollout_of_fifty_instances(release: Release, tenant: NodeUser) -> None:
    tenant.kubectl.apply([make_definition("s")])
    tenant.kubectl.wait("stackdefinition/papers.platform.example", "condition=Ready")
    papers = [
        {"apiVersion": "platform.example/v1alpha1", "kind": "Paper", "metadata": {"name": f"paper-{number}"}}
        | {"spec": {"title": str(number)}}
        for number in range(INSTANCES)
    ]
    tenant.kubectl.apply(papers)
    node_cluster.wait_until("all instances", lambda: count_sizes(tenant, "s") == 2 * INSTANCES)

    tenant.kubectl.apply([make_definition("l")])
    node_cluster.wait_until("the first instances", lambda: count_sizes(tenant, "l") > 0)
    release.upgrade("--set=settings.maxBackoff=1m")
    assert count_sizes(tenant, "l") > 0
    tenant.stack("rollout", "status", "papers", "--timeout=3m")

    assert count_sizes(tenant, "l") == 2 * INSTANCES
    peaks = release.read_peaks()
    assert all(0 < each < LIMIT_MIB // 4 for each in peaks.values()), peaks
    tenant.kubectl.call("delete", "papers", "--all", "--timeout=180s")
    tenant.kubectl.call("delete", "stackdefinition", "papers.platform.example", "--timeout=60s")


def test_a_failed_upgrade_leaves_the_old_pods_and_can_be_rolled_back(release: Release, tenant: NodeUser) -> None:
    arguments = ("upgrade", "hearth", str(CHART), f"--namespace={INSTALLED_IN}", "--wait", "--timeout=15s")
    failed = release.helm.run(*arguments, "--reset-then-reuse-values", "--set=image.tag=none")
    assert failed.returncode != 0
    converge(tenant, "meanwhile")

    release.helm.call("rollback", "hearth", f"--namespace={INSTALLED_IN}", "--wait", "--timeout=3m")

    converge(tenant, "afterwards")
    (deployment,) = release.node.kubectl.get("deployment", "hearth")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == f"{node_images.REGISTRY}/hearth:{hearth.__version__}"


def test_shards_divide_the_stacks_and_disturb_none(release: Release, tenant: NodeUser) -> None:
    for number in range(4):
        converge(tenant, f"before-{number}")
    before = find_versions(tenant)

    release.upgrade("--set=settings.shards=2", "--set=replicas=1")

    assert len(release.node.kubectl.get(*PODS)) == 2
    for number in range(4):
        converge(tenant, f"after-{number}")
    assert {name: version for name, version in find_versions(tenant).items() if name in before} == before


def find_versions(user: NodeUser) -> dict[str, str]:
    """The resource version of each object that Hearth wrote."""
    found = user.kubectl.get("configmaps", "--selector=hearth.dev/stack-uid")
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}


def test_a_stack_has_its_objects_in_another_cluster(
    node: NodeCluster, release: Release, tenant: NodeUser
) -> None:  # fmt: skip
    """The other cluster is the node's own API server, addressed as the Service `kubernetes`."""
    release.upgrade("--set=settings.otherClusters=true", "--set=settings.shards=null", "--set=replicas=1")
    text = json.loads(node.home.kubeconfig.read_text())
    text["clusters"][0]["cluster"]["server"] = "https://kubernetes.default.svc"
    encoded = base64.b64encode(json.dumps(text).encode()).decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "east"}, "data": {"value": encoded}}
    stack = kinds.make_stack("remote", {"config": CONFIG}, kubeConfig={"secretRef": {"name": "east"}})

    tenant.kubectl.apply([secret, stack])

    tenant.kubectl.wait("stack/remote", "condition=Ready")
    assert tenant.kubectl.get("configmap", "remote-config") != []
    tenant.kubectl.call("delete", "stack", "remote", "--timeout=120s")
    assert tenant.kubectl.get("configmap", "remote-config") == []
    peaks = release.read_peaks()
    assert all(0 < each < LIMIT_MIB // 2 for each in peaks.values()), peaks


def test_the_logs_have_no_error(release: Release) -> None:
    log = release.node.kubectl.call("logs", "--selector=app.kubernetes.io/name=hearth", "--tail=-1", "--prefix=false")

    assert [line for line in log.splitlines() if '"level": "error"' in line or '"level": "critical"' in line] == []


def test_uninstalled_it_leaves_the_crds_and_no_lease(node: NodeCluster, release: Release, tenant: NodeUser) -> None:
    node.kubectl.call("delete", "namespace", tenant.namespace, "--timeout=180s")
    release.helm.call("uninstall", "hearth", f"--namespace={INSTALLED_IN}", "--wait", "--timeout=3m")
    # The garbage collector deletes the Lease with the Pod that held it.
    node_cluster.wait_until("the end of the Pods", lambda: node.kubectl.get(*PODS) == [])
    node_cluster.wait_until("the end of the Lease", lambda: node.kubectl.get("leases") == [])
    crds = [str(path) for path in sorted((repository.ROOT / "crds").glob("*.hearth.dev.yaml"))]
    node.kubectl.call("delete", *(f"--filename={path}" for path in crds), "--timeout=60s")

    listed = node.kubectl.call("api-resources", "--verbs=list", "--output=name").split()
    assert [kind for kind in listed if kind.endswith((".hearth.dev", ".platform.example"))] == []
    columns = "custom-columns=:kind,:metadata.namespace,:metadata.name"
    wanted = ",".join(kind for kind in listed if not kind.startswith(("events", "endpoints")))
    found = node.kubectl.call("get", wanted, "--all-namespaces", "--no-headers", f"--output={columns}").splitlines()
    left = {line.split()[0] + " " + line.split()[2] for line in found if "hearth" in line}
    # Helm does not delete the namespace that it created, and a later release reads the keys in it.
    assert left == {"Namespace hearth-system", "Secret hearth-hash-key", "Secret hearth-webhook", *OF_EACH_NAMESPACE}
