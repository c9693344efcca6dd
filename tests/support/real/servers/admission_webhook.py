"""An admission webhook on the loopback interface that can allow, deny, hang, fail or be unreachable.

The writes come from the tests.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from aiohttp import web

from hearth.model.child import Object
from support import repository
from support.real.real_user import RealUser

CERTIFICATE = repository.DATA / "loopback.pem"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

PATIENCE = 60.0
"""Maximum seconds until the server uses a new configuration."""

Verdict: TypeAlias = Literal["allow", "deny", "hang", "fail"]


@dataclass(slots=True, eq=False)
class Webhook:
    """Its behavior, and the number of reviews."""

    port: int = 0
    verdict: Verdict = "allow"
    why: str = "not on a Friday"
    asked: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one review."""
        self.asked += 1
        review = await request.json()
        if self.verdict == "hang":
            await self.released.wait()
        if self.verdict == "fail":
            return web.Response(status=500, text="broken")
        response: Object = {"uid": review["request"]["uid"], "allowed": self.verdict != "deny"}
        if self.verdict == "deny":
            response["status"] = {"message": self.why}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})

    def make_configuration(self, name: str, *, namespace: str) -> Object:
        """The configuration that makes the server call the webhook before each write of a ConfigMap in that namespace,
        with a timeout of one second.
        """
        found = re.search("-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----", CERTIFICATE.read_text(), re.DOTALL)
        assert found is not None
        client = {
            "url": f"https://127.0.0.1:{self.port}/",
            "caBundle": base64.b64encode(found.group().encode()).decode(),
        }
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }
        webhook = {
            "name": "guard.testing.hearth.dev",
            "clientConfig": client,
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [webhook],
        }


async def wait_asked(webhook: Webhook, user: RealUser) -> None:
    """Wait until the server uses the configuration."""
    path = f"/api/v1/namespaces/{user.namespace}/configmaps"
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "asked-"}}
    async with asyncio.timeout(PATIENCE):
        while not webhook.asked:
            await user.connection.request("POST", path, query={"dryRun": "All"}, body=manifest)


@contextlib.asynccontextmanager
async def run_webhook() -> AsyncIterator[Webhook]:
    """Run a webhook on a free port of this machine."""
    webhook = Webhook()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    runner = web.ServerRunner(web.Server(webhook.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    webhook.port = runner.addresses[0][1]
    try:
        yield webhook
    finally:
        webhook.released.set()
        await runner.cleanup()
