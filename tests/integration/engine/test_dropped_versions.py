"""A version is removed from a CustomResourceDefinition, on a real API server: only actual changes are reported."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories import stack_manifests

OBJECTS = 5
QUIET_SECONDS = 5
"""Time for a watch that the API server ended to restart and list all objects."""
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def make_definition(group: str, *versions: str) -> dict[str, Any]:
    served = [{"name": each, "served": True, "storage": each == "v1", "schema": SCHEMA} for each in versions]
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": served}
    metadata = {"name": f"things.{group}"}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kind, "metadata": metadata, "spec": spec}


async def test_objects_of_a_kind_that_loses_a_version_did_not_vanish(
    workers: Crew, user: RealUser, environment: dict[str, str], kubectl_stack: StackCommand, namespace: str
) -> None:
    await workers.hire()
    group = f"{namespace}.example.com"
    await call("kubectl apply -f -", environment, make_definition(group, "v1alpha1", "v1"))
    await call(f"kubectl wait crd/things.{group} --for=condition=Established --timeout=60s", environment)
    thing = {"manifest": {"apiVersion": f"{group}/v1", "kind": "Thing", "spec": {"size": 1}}, "readyWhen": ["true"]}
    template = {"resources": {f"t{number}": thing for number in range(OBJECTS)}}
    body = stack_manifests.make_stack({"template": template}, namespace=namespace)
    await user.create(body)
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    show = f"kubectl get things.{group} -o jsonpath='{{.items[*].metadata.uid}} {{.items[*].metadata.resourceVersion}}'"
    before = await call(show, environment)
    assert len(before.split()) == 2 * OBJECTS

    await call("kubectl apply -f -", environment, make_definition(group, "v1"))
    await asyncio.sleep(QUIET_SECONDS)

    assert await call(show, environment) == before
    events = await call("kubectl get events -o jsonpath='{.items[*].message}'", environment)
    assert "again" not in events
    assert "did not exist" not in events
    await call(f"kubectl delete stack shop --timeout=60s && kubectl delete crd things.{group}", environment)


async def call(command: str, environment: dict[str, str], stdin: object = None) -> str:
    """The output of a command in a user's shell. Raises CalledProcessError."""
    text = json.dumps(stdin) if stdin is not None else None
    done = await asyncio.to_thread(
        subprocess.run, ["bash", "-c", command], input=text, capture_output=True, text=True, check=True, env=environment
    )
    return str(done.stdout)
