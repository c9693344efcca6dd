"""Notifications of the operator on a real API server: once for each change, also after a restart."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import hmac
import time
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from hearth.kube.auth.credentials import CredentialSource
from hearth.runtime import KubeRuntime
from support.ports.silent_ports import SilentObserver
from support.real import real_world
from support.real.real_user import RealUser
from support.real.real_world import InProcess
from support.real.servers import stub_server
from support.real.servers.stub_server import StubServer
from support.stories import stack_manifests

TIMEOUT = 60.0
"""Seconds, on a machine that is busy with other tests."""
KEY = base64.b64encode(b"k" * 32).decode()
PASSWORD = "open-sesame-4711"


async def accept(_request: web.BaseRequest) -> web.Response:
    return web.Response(status=204)


def make_operator(namespace: str, source: CredentialSource, folder: Path) -> InProcess:
    settings = dataclasses.replace(real_world.make_settings(namespace), notification_dir=str(folder))
    return InProcess(KubeRuntime(settings, source, SilentObserver()))


async def wait_notified(stub: StubServer, number: int) -> list[tuple[str, str, str]]:
    """Subject, type and reason of each notification, once there are that many."""
    async with asyncio.timeout(TIMEOUT):
        while len(stub.bodies) < number:  # noqa: ASYNC110 -- another program's state has no event
            await asyncio.sleep(0.05)
    events: list[dict[str, Any]] = [orjson.loads(each) for each in stub.bodies]
    return [(each["subject"], each["type"], each["data"]["reason"]) for each in events]


async def test_each_change_is_notified_once_and_signed(
    user: RealUser, source: CredentialSource, namespace: str, tmp_path: Path
) -> None:
    async with stub_server.run_stub(accept) as stub:
        (tmp_path / "url").write_text(f"{stub.url}/hook")
        (tmp_path / "key").write_text(f"whsec_{KEY}")
        operator = make_operator(namespace, source, tmp_path)
        await operator.start()
        config = {
            "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"Not a key!": "${parameters.password}"}}
        }
        template = {
            "parameters": {"password": {"type": "string", "sensitive": True}},
            "resources": {"config": config},
        }
        spec = {"template": template, "parameters": {"password": PASSWORD}, "retry": {"limit": 1}}
        await user.create(stack_manifests.make_stack(spec, namespace=namespace))
        first = await wait_notified(stub, 1)
        await operator.kill()

        again = make_operator(namespace, source, tmp_path)
        await again.start()
        await user.create(stack_manifests.make_stack(spec, namespace=namespace, name="later"))
        both = await wait_notified(stub, 2)
        await again.kill()

    assert [each[:2] for each in both] == [
        (f"{namespace}/shop", "dev.hearth.stack.failed"),
        (f"{namespace}/later", "dev.hearth.stack.failed"),
    ]
    assert both[:1] == first
    assert PASSWORD not in str(stub.bodies)
    for request, body in zip(stub.requests, stub.bodies, strict=True):
        signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + body
        digest = hmac.digest(base64.b64decode(KEY), signed, hashlib.sha256)
        assert request.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        assert abs(time.time() - int(request.headers["webhook-timestamp"])) < TIMEOUT
