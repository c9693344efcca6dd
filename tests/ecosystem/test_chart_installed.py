"""The chart on a real API server: installed, upgraded and removed by Helm, with the operator under exactly its rights.

Also with the real controllers of cert-manager, which fill the Secret of the webhook.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import go_programs
import pytest
import yaml
from go_programs import Program

from support import console_blocks, repository
from support.ecosystem import kinds, programs
from support.ecosystem.kubectl import Kubectl
from support.ecosystem.release import CRDS, NAMESPACE, Release

EVERYTHING = {
    "image": {"repository": "registry.example/hearth", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 3,
    "settings": {"tenancy": "strict", "shards": 4, "maxBackoff": "1m", "defaultServiceAccount": "deployer"},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    "extraVolumes": [{"name": "profile", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "profile", "mountPath": "/profile"}],
    "podLabels": {"team": "platform"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
    "priorityClassName": "system-cluster-critical",
    "serviceAccount": {"annotations": {"team": "platform"}},
    "webhook": {"certificates": "certManager", "failurePolicy": "Fail", "timeoutSeconds": 10},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
}
"""Values that render each template, and each part of them."""
WRONG = kinds.make_stack(
    "wrong", {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "${c.d}"}}}}
)
OBSERVED = 'jsonpath={.status.conditions[?(@.type=="Ready")].observedGeneration}=2'
"""Of the Certificate with another address; Ready may be False then."""
PROGRAM = Program(name="cert-manager", module=programs.MODULES / "certmanager", package=".")
"""A program of our own around the library: its command is no module that the proxy has."""
MONITORING = ("servicemonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com")


def read_crds() -> str:
    """Those of cert-manager and of the Prometheus Operator, as one YAML stream."""
    folder = go_programs.download(repository.TESTS / "ecosystem" / "go" / "crds") / "deploy" / "crds"
    texts = [path.read_text() for path in sorted(folder.glob("cert-manager.io_*.yaml"))]
    manifests = gzip.decompress((repository.DATA / "kube-prometheus.yaml.gz").read_bytes()).decode()
    # Not parsed: the text has a `=` that PyYAML rejects.
    texts += [each for each in manifests.split("\n---\n") if any(f"  name: {name}\n" in each for name in MONITORING)]
    return "\n---\n".join(texts)


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default values", "all that can be set"])
def test_the_api_server_takes_every_object(release: Release, values: dict[str, Any]) -> None:
    kubectl = release.kubectl
    kubectl.call("apply", "--server-side", "-f", "-", stdin=read_crds())
    kubectl.run("create", "namespace", NAMESPACE)
    file = release.folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))

    said = kubectl.apply(release.helm.render(f"--values={file}"), "--dry-run=server")

    assert said.count("serverside-applied (server dry run)") == len(said.splitlines())
    assert ("certificate.cert-manager.io/hearth-webhook" in said) is bool(values)


def test_an_installation_lives_from_install_to_uninstall(release: Release) -> None:
    assert "STATUS: deployed" in release.install()
    release.start()
    user = make_user(release, "shop")
    user.apply([read_readme_stack()])
    user.wait("stack/shop", "jsonpath={.status.phase}=CreateComplete")
    before = find_written(user)

    release.upgrade("--set=replicas=3", "--set=settings.maxBackoff=1m")
    assert "--max-backoff=1m" in release.find_arguments()
    (deployment,) = release.kubectl.get("deployment", "hearth")
    assert deployment["status"]["readyReplicas"] == 3
    release.start()
    user.wait("stack/shop", "condition=Ready")
    assert find_written(user) == before

    said = release.uninstall()
    assert all(each in said for each in CRDS)
    assert release.kubectl.get("deployment,service,serviceaccount", "-l=app.kubernetes.io/name=hearth") == []
    configurations = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
    assert release.kubectl.get(configurations, "-l=app.kubernetes.io/name=hearth") == []
    assert find_written(user) == before, "a Stack without an operator is neither deleted nor terminating"

    release.install()
    release.start()
    user.wait("stack/shop", "condition=Ready")
    assert find_written(user) == before
    user.call("delete", "stack", "shop", "--timeout=60s")
    assert user.get("deployment,configmap", "-l=hearth.dev/stack-uid") == []


def test_the_story_of_the_readme_needs_no_more_than_the_rights_of_the_chart(release: Release) -> None:
    release.install()
    release.start()
    release.let_webhook_be_called()
    user = make_user(release, "shop")
    stack = read_readme_stack()
    user.apply([stack])
    user.wait("stack/shop", "jsonpath={.status.phase}=CreateComplete")

    patch(user, {"parameters": {"greeting": "welcome"}})
    user.wait("stack/shop", "jsonpath={.status.phase}=UpdateComplete")
    patch(user, {"rollback": {"toRevision": 0}})
    user.wait("stack/shop", "jsonpath={.status.phase}=RollbackComplete")
    user.call("annotate", "stack", "shop", "hearth.dev/check=1")
    user.wait("stack/shop", "jsonpath={.status.phase}=CheckComplete")
    patch(user, {"suspended": True})
    user.wait("stack/shop", "jsonpath={.status.phase}=SuspendComplete")
    patch(user, {"suspended": False})
    user.wait("stack/shop", "jsonpath={.status.phase}=ResumeComplete")

    stack["spec"]["template"]["outputs"]["name"]["value"] = "${webb.metadata.name}"
    refused = user.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump(stack))
    assert "did you mean 'web'?" in refused.stderr
    assert release.operator is not None
    assert [line for line in release.operator.read_events() if line["level"] == "error"] == []


def test_an_installation_becomes_strict_and_sharded(release: Release) -> None:
    release.install()
    release.start()
    user = make_user(release, "shop")
    user.call("create", "serviceaccount", "deployer")
    user.call("create", "rolebinding", "deployer", "--clusterrole=edit", "--serviceaccount=shop:deployer")
    user.apply([{**read_readme_stack()}])
    user.wait("stack/shop", "jsonpath={.status.phase}=CreateComplete")
    before = find_written(user)

    values = ("tenancy=strict", "defaultServiceAccount=deployer", "shards=2")
    release.upgrade("--set=replicas=1", *(f"--set=settings.{each}" for each in values))
    assert release.kubectl.get("deployment/hearth") == []
    (workload,) = release.kubectl.get("statefulset")
    assert workload["status"]["readyReplicas"] == 2
    first, second = release.start("--shard=0"), release.start_beside("--shard=1", "--webhook-address=127.0.0.1:0")
    patch(user, {"parameters": {"greeting": "welcome"}})
    user.wait("stack/shop", "jsonpath={.status.phase}=UpdateComplete")

    assert [each.read_metric("hearth_leader") for each in (first, second)] == [1, 1]
    assert set(find_written(user)) == set(before)
    assert second.stop() == 0


def make_user(release: Release, namespace: str) -> Kubectl:
    """A user with a fresh namespace."""
    release.kubectl.run("delete", "namespace", namespace, "--ignore-not-found")
    release.kubectl.call("create", "namespace", namespace)
    return Kubectl(kubeconfig=release.kubeconfig, namespace=namespace)


def read_readme_stack() -> dict[str, Any]:
    """The Stack that the README shows."""
    stack: dict[str, Any] = yaml.safe_load(
        console_blocks.read_files((repository.ROOT / "README.md").read_text())["shop.yaml"]
    )
    return stack


def patch(user: Kubectl, spec: dict[str, Any]) -> None:
    """Change the spec of that Stack."""
    user.call("patch", "stack", "shop", "--type=merge", f"-p={json.dumps({'spec': spec})}")


def find_written(user: Kubectl) -> dict[str, str]:
    """The generation of the Stack, and the resource version of each object that only Hearth writes."""
    stack, *children = user.get("stack/shop"), *user.get("configmap", "-l=hearth.dev/stack-uid")
    deployments = user.get("deployment", "-l=hearth.dev/stack-uid")
    assert (len(children), len(deployments)) == (1, 1)
    assert "deletionTimestamp" not in stack[0]["metadata"]
    return {
        "stack": str(stack[0]["metadata"]["generation"]),
        **{each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in children},
        # A Deployment has a status, which other clients write.
        **{each["metadata"]["name"]: str(each["metadata"]["generation"]) for each in deployments},
    }


@contextlib.contextmanager
def run_cert_manager(kubeconfig: Path, log: Path) -> Iterator[None]:
    """Run its controllers until the end of the block. Its CustomResourceDefinitions must be installed."""
    program = go_programs.build_go_program(PROGRAM)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program], env=os.environ | {"KUBECONFIG": str(kubeconfig)}, stdout=output, stderr=output
        )
        try:
            yield
            assert process.poll() is None, log.read_text()[-3000:]
        finally:
            process.kill()
            process.wait()


def test_the_webhook_has_a_certificate_of_cert_manager(release: Release) -> None:
    release.kubectl.call("apply", "--server-side", "-f", "-", stdin=read_crds())
    with run_cert_manager(release.kubeconfig, release.folder / "cert-manager.log"):
        release.install("--set=webhook.certificates=certManager")
        # The API server reaches no Service here, but this machine.
        patch = {"spec": {"ipAddresses": ["127.0.0.1"]}}
        release.kubectl.call("patch", "certificate", "hearth-webhook", "--type=merge", f"-p={json.dumps(patch)}")
        # Whether that is a second certificate depends on whether the first one was issued before.
        release.kubectl.wait("certificate/hearth-webhook", OBSERVED)
        release.kubectl.wait("certificate/hearth-webhook", "condition=Ready")
        (before,) = release.kubectl.get("secret", "hearth-webhook")
        release.start()
        release.let_webhook_be_called()

        user = Kubectl(kubeconfig=release.kubeconfig)
        refused = user.run("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(WRONG))

    assert "denied the request" in refused.stderr
    assert "the name 'c' is not defined" in refused.stderr
    (secret,) = release.kubectl.get("secret", "hearth-webhook")
    assert secret == before
    assert "cert-manager.io/certificate-name" in secret["metadata"]["annotations"]
    for kind in ("validatingwebhookconfiguration", "mutatingwebhookconfiguration"):
        (found,) = release.kubectl.get(kind, "hearth-webhook")
        assert {each["clientConfig"]["caBundle"] for each in found["webhooks"]} == {secret["data"]["ca.crt"]}
    assert secret["metadata"]["namespace"] == NAMESPACE
