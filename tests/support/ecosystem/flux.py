"""Flux's kustomize-controller on a real API server, without its source-controller: artifacts come from this process.

The applied objects come from the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import http.server
import io
import json
import os
import subprocess
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import go_programs
import toolchain
import yaml

from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.child import Object
from support import free_port
from support.ecosystem import programs

MODULE = "github.com/fluxcd/kustomize-controller"
KUSTOMIZATIONS = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{}/kustomizations"
REPOSITORIES = "/apis/source.toolkit.fluxcd.io/v1/namespaces/{}/gitrepositories"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "app"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PATIENCE = 90.0
"""Seconds for any action of Flux, which polls every few seconds on a busy machine."""
SOURCES = {"GitRepository": "gitrepositories", "OCIRepository": "ocirepositories", "Bucket": "buckets"}
"""Kinds of the source-controller; all of them must be served."""


def make_source(kind: str, plural: str) -> Object:
    """Return a CustomResourceDefinition for that kind, reduced to storage: the test writes its status."""
    schema = {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.source.toolkit.fluxcd.io"},
        "spec": {
            "group": "source.toolkit.fluxcd.io",
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural},
            "versions": [version],
        },
    }


def read_definition() -> Object:
    """Return the CustomResourceDefinition of Kustomizations, from the module that the program is built from."""
    version = go_programs.read_pin(programs.FLUX.module, MODULE)
    go = toolchain.find_or_fetch((1, 26, 0))
    done = subprocess.run(
        [str(go), "mod", "download", "-json", f"{MODULE}@{version}"],
        cwd=programs.FLUX.module,
        env=os.environ | toolchain.ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(json.loads(done.stdout)["Dir"], "config", "crd", "bases")
    definition: Object = yaml.safe_load((folder / "kustomize.toolkit.fluxcd.io_kustomizations.yaml").read_text())
    return definition


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 -- the name of the base class
        """Log nothing."""


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; yields its address."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextlib.asynccontextmanager
async def run_controller(kubeconfig: Path, folder: Path) -> AsyncIterator[None]:
    """Run the controller until the end of the block; its log is in the folder."""
    program = await asyncio.to_thread(go_programs.build_go_program, programs.FLUX)
    health, metrics = free_port.find_free_port(), free_port.find_free_port()
    (folder / "tmp").mkdir()
    environment = {"KUBECONFIG": str(kubeconfig), "RUNTIME_NAMESPACE": "flux-system", "TMPDIR": str(folder / "tmp")}
    with (folder / "flux.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(str(program), f"--metrics-addr=127.0.0.1:{metrics}", f"--health-addr=127.0.0.1:{health}"),
            *("--watch-all-namespaces", "--log-level=info", "--requeue-dependency=2s"),
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
        )
    try:
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(is_ready, health):
                assert process.returncode is None, (folder / "flux.log").read_text()[-2000:]
                await asyncio.sleep(0.2)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            # Do not wait: a health check that waits for a Stack would block it for half a minute.
            process.kill()
        await process.wait()


def is_ready(port: int) -> bool:
    """Return whether the controller reports that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@dataclass(slots=True)
class Pipeline:
    """A repository and its Kustomization in one namespace."""

    connection: Connection
    namespace: str
    folder: Path
    url: str
    pushed: int = 0

    async def create(self, **spec: Any) -> None:
        """Create both; nothing is applied before the first push."""
        repository = {"interval": "1h", "url": "https://git.example.com/app"}
        await self._post(REPOSITORIES, "source.toolkit.fluxcd.io/v1", "GitRepository", repository)
        common = {"interval": "1h", "retryInterval": "2s", "timeout": "30s", "path": "./app", "prune": True}
        source = {"sourceRef": {"kind": "GitRepository", "name": NAME}, "targetNamespace": self.namespace}
        await self._post(
            KUSTOMIZATIONS, "kustomize.toolkit.fluxcd.io/v1", "Kustomization", {**common, **source, **spec}
        )

    async def _post(self, path: str, api_version: str, kind: str, spec: Object) -> None:
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": NAME}, "spec": spec}
        await self.connection.request("POST", path.format(self.namespace), body=body)

    async def push(self, *manifests: Object) -> str:
        """Publish the next revision; return its name."""
        self.pushed += 1
        archive = pack(yaml.safe_dump_all(manifests))
        (self.folder / f"{self.pushed}.tar.gz").write_bytes(archive)
        revision = f"main@sha1:{self.pushed:040x}"
        now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        artifact = {
            "path": f"{self.pushed}.tar.gz",
            "url": f"{self.url}/{self.pushed}.tar.gz",
            "revision": revision,
            "digest": f"sha256:{hashlib.sha256(archive).hexdigest()}",
            "size": len(archive),
            "lastUpdateTime": now,
        }
        ready = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": now}
        status = {"observedGeneration": 1, "artifact": artifact, "conditions": [ready]}
        await self.connection.request(
            "PATCH",
            f"{REPOSITORIES.format(self.namespace)}/{NAME}/status",
            body={"status": status},
            content_type=api_requests.MERGE_PATCH,
        )
        return revision

    async def wait_ready(self, revision: str, *, status: str) -> str:
        """Wait until the Kustomization has tried that revision; return reason and message of its Ready condition."""
        found: Object = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    path = f"{KUSTOMIZATIONS.format(self.namespace)}/{NAME}"
                    found = (await self.connection.request("GET", path)).get("status") or {}
                    ready = {each["type"]: each for each in found.get("conditions") or ()}.get("Ready", {})
                    if found.get("lastAttemptedRevision") == revision and ready.get("status") == status:
                        return f"{ready['reason']}: {ready['message']}"
                    await asyncio.sleep(0.3)
        except TimeoutError:
            raise AssertionError(f"Flux does not come to Ready={status} at {revision}: {found}") from None

    async def delete(self) -> None:
        """Delete the Kustomization, which also deletes the objects it applied."""
        await self.connection.request("DELETE", f"{KUSTOMIZATIONS.format(self.namespace)}/{NAME}")


def pack(text: str) -> bytes:
    """Return an archive with one file of manifests."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("app/manifests.yaml")
        info.size = len(text.encode())
        archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


async def install(connection: Connection) -> None:
    """Install both kinds and the namespace of Flux, and wait until they are served."""
    sources = [make_source(kind, plural) for kind, plural in SOURCES.items()]
    for body in (await asyncio.to_thread(read_definition), *sources):
        await create(connection, DEFINITIONS, body)
    await create(
        connection, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flux-system"}}
    )
    async with asyncio.timeout(PATIENCE):
        for path in (KUSTOMIZATIONS, *(f"/apis/source.toolkit.fluxcd.io/v1/{each}" for each in SOURCES.values())):
            while not await is_served(connection, path.format("default")):  # noqa: ASYNC110 -- a server has no event
                await asyncio.sleep(0.2)


async def create(connection: Connection, path: str, body: Object) -> None:
    """Create an object, unless it is there."""
    with contextlib.suppress(errors.ApiStatusError):
        await connection.request("POST", path, body=body)


async def is_served(connection: Connection, path: str) -> bool:
    """Return whether the server answers for a kind."""
    try:
        await connection.request("GET", path)
    except errors.ApiStatusError:
        return False
    return True
