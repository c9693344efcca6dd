"""Records the objects of this version on a real API server: play the scenario, wait, and save the stored objects.

    controlplane.py with -- env PYTHONPATH=operator:tests python -m support.recordings.record [folder of a scenario]

A released version is recorded once and never again.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

import hearth
from hearth.cli.commands import crds
from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import names
from hearth.model.child import Object
from support.real import real_user
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.recordings import recordings
from support.stories.world import Address

API = f"{names.GROUP}/{names.VERSION}"
PATHS = {
    "Stack": f"/apis/{API}/namespaces/{{}}/stacks",
    "ResourceGroup": f"/apis/{API}/namespaces/{{}}/resourcegroups",
    "HealthMark": f"/apis/{API}/namespaces/{{}}/healthmarks",
    "StackSnapshot": f"/apis/{API}/namespaces/{{}}/stacksnapshots",
    "ControllerRevision": "/apis/apps/v1/namespaces/{}/controllerrevisions",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}
VERSIONS = {
    **dict.fromkeys(("ControllerRevision", "Deployment", "StatefulSet"), "apps/v1"),
    **dict.fromkeys(("ConfigMap", "Secret", "PersistentVolumeClaim"), "v1"),
    "Job": "batch/v1",
}
OF_KUBERNETES = "kube-root-ca.crt"
AT_REST = 5.0
"""Seconds without writes after the last step."""


async def main(kubeconfig: str, place: Path) -> None:
    """Write the folder of this version. place: of the scenario."""
    source = credentials.find_source(kubeconfig=kubeconfig, context=None, environ={})
    async with Connection(source) as connection:
        user = RealUser(connection, recordings.NAMESPACE)
        await real_user.install_all(user)
        await user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": recordings.NAMESPACE}})
        world = RealWorld(user, source)
        await world.start_controller()
        for step in recordings.list_steps(place):
            await play(user, step)
        await asyncio.sleep(AT_REST)
        await world.kill_controller()
        write(place, await dump(connection))


async def play(user: RealUser, step: Mapping[str, Any]) -> None:
    """Create or patch an object, and wait."""
    raw, expected = step["object"], step.get("expect")
    metadata = {**raw["metadata"], "namespace": user.namespace}
    address = Address(
        api_version=raw.get("apiVersion", API), kind=raw["kind"], namespace=user.namespace, name=metadata["name"]
    )
    if "patch" in raw:
        await user.patch(address, raw["patch"])
    elif "by" in step:
        await user.create({**raw, "metadata": metadata}, by=step["by"])
    else:
        await user.create({"apiVersion": API, **raw, "metadata": metadata})
    if expected is None:
        return
    async with asyncio.timeout(120):
        while not recordings.is_reached(await user.find(address), expected):  # noqa: ASYNC110 -- a program by hand
            await asyncio.sleep(0.2)
    print(f"{expected['kind']} {expected['name']}: {expected.get('phase', expected.get('condition'))}")


async def dump(connection: Connection) -> list[Object]:
    """Return all objects of the namespace that belong to Hearth."""
    found: list[Object] = []
    for kind, path in PATHS.items():
        page = await connection.request("GET", path.format(recordings.NAMESPACE))
        found += [
            {"apiVersion": VERSIONS.get(kind, API), "kind": kind, **recordings.clean(raw)}
            for raw in page["items"]
            if raw["metadata"]["name"] != OF_KUBERNETES and not is_of_set(kind, raw)
        ]
    return found


def is_of_set(kind: str, raw: Object) -> bool:
    """Return whether it is a revision of a StatefulSet."""
    return kind == "ControllerRevision" and names.LABEL_STACK_UID not in (raw["metadata"].get("labels") or {})


def write(place: Path, objects: list[Object]) -> None:
    """Write the files of this version."""
    folder = place / f"v{hearth.__version__}"
    folder.mkdir(exist_ok=True)
    text = yaml.dump_all(objects, Dumper=crds.CrdDumper, sort_keys=False, width=120, allow_unicode=True)
    (folder / "objects.yaml").write_text(text)
    if place == recordings.FOLDER:
        (folder / "crds.yaml").write_text(crds.write_all())
    print(f"{len(objects)} objects in {folder}")


if __name__ == "__main__":
    folders = [Path(each) for each in sys.argv[1:]] or [recordings.FOLDER]
    sys.exit(asyncio.run(main(os.environ["HEARTH_TEST_KUBECONFIG"], folders[0])))
