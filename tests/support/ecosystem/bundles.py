"""Imports a bundle of manifests and runs it as a Stack, simulating the components that a bare control plane lacks.

Simulated operators report on their custom resources and hold them with finalizers, injectors fill in certificates, and
clouds provide volumes and addresses.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import import_world
from import_world import World
from played_operators import Finalizer

from hearth.kube.client.connection import Connection
from hearth.kube.webhook import certificates
from hearth.model import errors, object_fields
from hearth.model.kinds import Kind
from hearth.template.text import kubectl_yaml
from support import free_port

LOOK = 0.25
INJECTED = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
API_PORT = "4433"
"""The port of an aggregated API in the files; each test uses another one."""
SERVED = "v1beta1.usage.example.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """One file as a Stack."""

    stack: Any
    said: str
    """The output of the import."""

    @property
    def resources(self) -> dict[str, Any]:
        found: dict[str, Any] = self.stack["spec"]["template"]["resources"]
        return found

    def write(self) -> str:
        return kubectl_yaml.write(self.stack)


async def import_bundle(text: str, *, namespace: str) -> Bundle:
    """Run `hearth import`."""
    command = ("-m", "hearth", "import", "-", "--name", "bundle", "--namespace", namespace)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, said = await process.communicate(text.encode())
    assert process.returncode == 0, said.decode()
    (document,) = kubectl_yaml.parse_documents(output.decode())
    return Bundle(stack=document.value, said=said.decode())


def find_finalizers(bundle: Bundle) -> Iterator[Finalizer]:
    """Yield a played controller for each custom resource that the import orders after a workload."""
    definitions = {
        (spec["group"], spec["names"]["kind"]): spec
        for spec in (each["manifest"].get("spec") for each in bundle.resources.values())
        if isinstance(spec, dict) and "names" in spec
    }
    for resource in bundle.resources.values():
        manifest = resource["manifest"]
        group, _, version = manifest["apiVersion"].rpartition("/")
        spec = definitions.get((group, manifest["kind"]))
        if spec is None:
            continue
        kind = Kind(group=group, version=version, name=manifest["kind"], plural=spec["names"]["plural"], namespaced=spec["scope"] == "Namespaced")  # fmt: skip
        own = bundle.stack["metadata"]["namespace"]
        for workload in (bundle.resources[each]["manifest"] for each in find_required(bundle, resource)):
            if workload["apiVersion"] == "apps/v1":
                where = workload["metadata"].get("namespace", own)
                yield Finalizer(
                    kind=kind,
                    namespace=manifest["metadata"].get("namespace", own) if kind.namespaced else "",
                    workload=f"/apis/apps/v1/namespaces/{where}/{workload['kind'].lower()}s/{workload['metadata']['name']}",
                    account=f"{where}:{workload['spec']['template']['spec']['serviceAccountName']}",
                    name=f"{workload['metadata']['name']}.played.example.com/cleanup",
                )


def find_required(bundle: Bundle, resource: Any) -> list[str]:
    """Return the names of all resources that a resource waits for, directly or indirectly."""
    found: dict[str, None] = {}
    pending = list(resource.get("dependsOn", ()))
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = None
            pending += bundle.resources[name].get("dependsOn", ())
    return sorted(found)


@contextlib.asynccontextmanager
async def played(connection: Connection, bundle: Bundle) -> AsyncIterator[None]:
    """Simulate all required components within the block."""
    world = World(connection)
    finalizers = list(find_finalizers(bundle))

    async def play() -> None:
        while True:
            for each in finalizers:
                await each.work(connection)
            for resource in bundle.resources.values():
                await inject(connection, resource["manifest"])
            await asyncio.sleep(LOOK)

    async with import_world.provided(world, bundle.stack, namespace=bundle.stack["metadata"]["namespace"]):
        balancing = [
            asyncio.create_task(import_world.give_addresses(world, each, ())) for each in find_namespaces(bundle)
        ]
        playing = asyncio.create_task(play())
        try:
            yield
        finally:
            for task in (playing, *balancing):
                task.cancel()
            for fault in await asyncio.gather(playing, *balancing, return_exceptions=True):
                assert isinstance(fault, asyncio.CancelledError), repr(fault)


def find_namespaces(bundle: Bundle) -> set[str]:
    """Return the namespaces of its objects, except the Stack's namespace."""
    stated = (object_fields.text(each["manifest"], "metadata", "namespace") for each in bundle.resources.values())
    return {each for each in stated if each and each != bundle.stack["metadata"]["namespace"]}


async def inject(connection: Connection, manifest: Any) -> None:
    """Fill in the certificate of a webhook that has none, as an injector, or the Job of a chart, does."""
    if manifest["kind"] not in INJECTED:
        return
    plural = f"{manifest['kind'].lower()}s"
    path = f"/apis/admissionregistration.k8s.io/v1/{plural}/{manifest['metadata']['name']}"
    with contextlib.suppress(errors.ApiStatusError):
        found = await connection.request("GET", path)
        hooks = found["webhooks"]
        if all("caBundle" in each["clientConfig"] for each in hooks):
            return
        for each in hooks:
            each["clientConfig"]["caBundle"] = CERTIFICATE
        await connection.request("PUT", path, body=found)


def issue(host: str) -> certificates.CertificateSet:
    """Return a new certificate."""
    return certificates.renew(certificates.CertificateSet(), hosts=(host,), now=datetime.now(UTC))


CERTIFICATE = base64.b64encode(issue("played.example.com").authorities).decode()


@contextlib.contextmanager
def aggregated_api() -> Iterator[int]:
    """Serve the discovery of an API at a port of this machine, until the end of the block."""
    served = issue("localhost")
    with tempfile.NamedTemporaryFile() as file:
        file.write(served.key + served.certificate)
        file.flush()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file.name)
    server = ThreadingHTTPServer(("127.0.0.1", free_port.find_free_port()), Discovery)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()


class Discovery(BaseHTTPRequestHandler):
    """Answers the API server's discovery of an aggregated API without kinds."""

    def do_GET(self) -> None:
        """Answer any path."""
        body = json.dumps(
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": "usage.example.com/v1beta1",
                "resources": [],
            }
        )
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Write nothing."""
