"""cert-manager fills the Secret of the webhook: its real controllers, the chart, and the operator under its rights."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import go_programs
import yaml
from go_programs import Program

from support.ecosystem import crds, kinds, programs
from support.ecosystem.kubectl import Kubectl
from support.ecosystem.release import NAMESPACE, Release

WRONG = kinds.make_stack(
    "wrong", {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "${c.d}"}}}}
)

OBSERVED = 'jsonpath={.status.conditions[?(@.type=="Ready")].observedGeneration}=2'
"""Of the Certificate with another address; Ready may be False then."""
PROGRAM = Program(name="cert-manager", module=programs.MODULES / "certmanager", package=".")
"""A program of our own around the library: its command is no module that the proxy has."""


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
    """Helm waits for the Certificate; the API server trusts it by what the operator writes, which leaves the Secret alone."""
    release.kubectl.call("apply", "--server-side", "-f", "-", stdin=crds.read())
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
