"""Requests of one user."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from hearth.cli.stack_access.session import NotInstalled, Session
from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.well_known_kinds import STACK
from support.real.servers import stub_server
from support.real.servers.stub_server import says

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: admin}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: admin, user: {{token: some-token}}}}]
"""
STACKS = "GET /apis/hearth.dev/v1alpha1/namespaces/shop/stacks"
NO_KIND = {
    "kind": "Status",
    "code": 404,
    "reason": "NotFound",
    "message": "the server could not find it",
    "details": {},
}
NO_OBJECT = {**NO_KIND, "message": 'stacks.hearth.dev "web" not found', "details": {"name": "web", "kind": "stacks"}}


@pytest.mark.parametrize("body", [b"404 page not found\n", orjson.dumps(NO_KIND)], ids=["no group", "no kind"])
async def test_a_cluster_without_the_kinds_is_named_with_the_command(tmp_path: Path, body: bytes) -> None:
    """For lists, and for a Stack that is looked for."""
    answers = {path: says(body, code=404) for path in (STACKS, f"{STACKS}/web")}
    async with stub_server.run_stub(stub_server.routes(answers)) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(KUBECONFIG.format(url=server.url))
        source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
        async with Connection(source) as connection:
            session = Session(connection)
            with pytest.raises(NotInstalled, match="hearth crds") as listed:
                await session.list(STACK, "shop")
            with pytest.raises(NotInstalled) as found:
                await session.find(STACK, "shop", "web")

    assert str(listed.value) == str(found.value)
    assert "does not serve stacks.hearth.dev" in str(found.value)


async def test_a_missing_object_is_none(tmp_path: Path) -> None:
    """Its name is in the answer."""
    answers = {f"{STACKS}/web": says(orjson.dumps(NO_OBJECT), code=404)}
    async with stub_server.run_stub(stub_server.routes(answers)) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(KUBECONFIG.format(url=server.url))
        source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
        async with Connection(source) as connection:
            assert await Session(connection).find(STACK, "shop", "web") is None
            with pytest.raises(errors.ApiStatusError):
                await Session(connection).get(STACK, "shop", "web")
