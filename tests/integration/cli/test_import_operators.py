"""Imports of manifests that another tool has installed, on a real API server: kept objects, and the order of
deletion.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click.testing
import played_operators
import pytest
import yaml

from hearth.cli import main
from hearth.model.kinds import Kind
from support.ecosystem.kubectl import Kubectl
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories import stack_manifests

GROUP = "sso.example.com"
OPTIONS = ("--tenancy=trusted",)
LOOK = 0.2
BUNDLE = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %(plural)s.sso.example.com}
spec:
  group: sso.example.com
  scope: Namespaced
  names: {kind: %(kind)s, plural: %(plural)s}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sso-operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sso-operator}
rules: [{apiGroups: [sso.example.com], resources: [%(plural)s, %(plural)s/finalizers], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sso-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sso-operator}
subjects: [{kind: ServiceAccount, name: sso-operator}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: sso-operator}
spec:
  selector: {matchLabels: {app: sso-operator}}
  template:
    metadata: {labels: {app: sso-operator}}
    spec:
      serviceAccountName: sso-operator
      containers: [{name: op, image: sso-operator}]
---
apiVersion: sso.example.com/v1
kind: %(kind)s
metadata: {name: main}
spec: {displayName: main}
"""


def import_text(text: str, namespace: str, *arguments: str) -> tuple[str, str]:
    """Return the Stack and the report that `hearth import` writes."""
    command = ["import", "-", "--namespace", namespace, *arguments]
    made = click.testing.CliRunner().invoke(main.main, command, input=text)
    assert made.exit_code == 0, made.stderr
    return made.stdout, made.stderr


@contextlib.asynccontextmanager
async def played(finalizer: played_operators.Finalizer, user: RealUser) -> AsyncIterator[None]:
    """Play a controller until the end of the block."""

    async def play() -> None:
        while True:
            await finalizer.work(user.connection)
            await asyncio.sleep(LOOK)

    playing = asyncio.create_task(play())
    try:
        yield
    finally:
        playing.cancel()
        for fault in await asyncio.gather(playing, return_exceptions=True):
            assert isinstance(fault, asyncio.CancelledError), repr(fault)


async def test_a_controller_removes_its_finalizer_before_it_goes(
    workers: Crew, user: RealUser, kubeconfig: Path
) -> None:
    suffix = user.namespace.removeprefix("test-")
    kind = Kind(group=GROUP, version="v1", name=f"Realm{suffix}", plural=f"realm{suffix}s", namespaced=True)
    text, _ = import_text(BUNDLE % {"kind": kind.name, "plural": kind.plural}, user.namespace, "--name", "sso")
    kubectl = Kubectl(kubeconfig=kubeconfig, namespace=user.namespace)
    await workers.hire(*OPTIONS)
    operator = played_operators.Finalizer(
        kind=kind,
        namespace=user.namespace,
        workload=f"/apis/apps/v1/namespaces/{user.namespace}/deployments/sso-operator",
        account=f"{user.namespace}:sso-operator",
    )

    async with played(operator, user):
        await asyncio.to_thread(kubectl.call, "create", "-f", "-", stdin=text)
        await asyncio.to_thread(kubectl.wait, "stack/sso", "condition=Ready")
        held = f"jsonpath={{.metadata.finalizers[0]}}={operator.name}"
        await asyncio.to_thread(kubectl.wait, f"{kind.plural}.{GROUP}/main", held)
        await asyncio.to_thread(kubectl.call, "delete", "stack/sso", "--timeout=60s")

    assert (
        await asyncio.to_thread(
            kubectl.get, *(f"{each}/sso-operator" for each in ("deployment", "role", "rolebinding", "serviceaccount"))
        )
        == []
    )


async def test_what_helm_keeps_stays_when_the_stack_goes(workers: Crew, user: RealUser, kubeconfig: Path) -> None:
    keep = {"annotations": {"helm.sh/resource-policy": "keep"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", **keep}, "spec": spec}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
    text, said = import_text(yaml.safe_dump_all([claim, config]), user.namespace, "--name", "shop")
    assert "PersistentVolumeClaim data is kept when the Stack is deleted: helm.sh/resource-policy: keep" in said
    kubectl = Kubectl(kubeconfig=kubeconfig, namespace=user.namespace)
    await workers.hire()
    await asyncio.to_thread(kubectl.call, "create", "-f", "-", stdin=text)
    await asyncio.to_thread(kubectl.wait, "configmap/settings", "create")
    await asyncio.to_thread(kubectl.wait, "pvc/data", "create")

    await asyncio.to_thread(kubectl.call, "delete", "stack/shop", "--timeout=60s")

    (kept,) = await asyncio.to_thread(kubectl.get, "pvc/data")
    assert "deletionTimestamp" not in kept["metadata"]
    assert await asyncio.to_thread(kubectl.get, "configmap/settings") == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """A ConfigMap with a sensitive value, and the user that reads and imports it."""

    kubectl: Kubectl

    def read(self) -> Any:
        """Its UID and data."""
        (found,) = self.kubectl.get("configmap/masked-config")
        return found["metadata"]["uid"], found["data"]

    def give(self, value: str) -> None:
        """Set the parameter that the import created."""
        patch = {"spec": {"parameters": {"configConfigYaml": value}}}
        self.kubectl.call("patch", "stack/again", "--type=merge", f"-p={json.dumps(patch)}")

    def wait_refused(self, *parts: str) -> None:
        """Wait until the Stack reports this refusal."""
        message = "jsonpath={.status.conditions[?(@.type=='Ready')].message}"
        found = ""
        for _ in range(300):
            found = self.kubectl.call("get", "stack/again", f"-o={message}")
            if all(part in found for part in parts):
                return
            time.sleep(LOOK)
        pytest.fail(found)


DATA = {"config.yaml": "slaPeriod: 12h\npassword: ${params.password}\n", "plain": "x"}
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "masked-config"}, "data": DATA}
PASSWORD = {"type": "string", "sensitive": True}


async def test_a_withheld_value_is_never_overwritten(workers: Crew, user: RealUser, kubeconfig: Path) -> None:
    kubectl = Kubectl(kubeconfig=kubeconfig, namespace=user.namespace)
    kubectl_stack = StackCommand(kubeconfig=kubeconfig, namespace=user.namespace)
    masked = Masked(kubectl=kubectl)
    await workers.hire()
    template = {"parameters": {"password": PASSWORD}, "resources": {"config": {"manifest": MANIFEST}}}
    spec = {"deletionPolicy": "Abandon", "template": template, "parameters": {"password": "correct-horse"}}
    await user.create(stack_manifests.make_stack(spec, name="masked", namespace=user.namespace))
    await kubectl_stack.expect("wait", "masked", "--timeout", "60s")
    before = await asyncio.to_thread(masked.read)

    exported = await kubectl_stack.run("export", "masked")
    assert "configmap/masked-config: data[config.yaml] is sensitive and left out" in exported.stderr
    assert "(sensitive)" not in exported.stdout
    await asyncio.to_thread(kubectl.call, "delete", "stack/masked", "--timeout=60s")
    await asyncio.to_thread(kubectl.call, "apply", "-f", "-", stdin=exported.stdout)
    assert await asyncio.to_thread(masked.read) == before

    text, said = import_text(exported.stdout, user.namespace, "--adopt", "--name", "again")
    assert "the parameter configConfigYaml has no value yet: set it with spec.parametersFrom" in said
    await asyncio.to_thread(kubectl.call, "create", "-f", "-", stdin=text)
    await asyncio.to_thread(masked.wait_refused, "spec.parameters.configConfigYaml", "is missing")
    for mask in ("(sensitive)", "password: (sensitive)\n"):
        await asyncio.to_thread(masked.give, mask)
        await asyncio.to_thread(
            masked.wait_refused, "spec.parameters.configConfigYaml: contains the placeholder that people see"
        )
        assert await asyncio.to_thread(masked.read) == before

    await asyncio.to_thread(masked.give, before[1]["config.yaml"])
    await kubectl_stack.expect("wait", "again", "--timeout", "60s")
    assert await asyncio.to_thread(masked.read) == before
