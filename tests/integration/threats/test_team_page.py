"""`hearth page` with two users of different rights: RBAC decides what each of them sees, and the audit log names them."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from support import free_port
from support.real import stack_command
from support.threats.api import Api
from support.threats.audit_log import AuditLog
from support.threats.world import CONFIG_MAPS, READ, STACKS, Rule, ThreatWorld, make_config_map, make_stack

HOST = "hearth.example.com"
ORIGIN = f"https://{HOST}"
REVISIONS = Rule(group="apps", resources=("controllerrevisions",), verbs=READ)
SEEN_STACKS = Rule(group="hearth.dev", resources=("stacks",), verbs=READ)


@dataclasses.dataclass(slots=True)
class PageProcess:
    """One run of `hearth page`, without TLS, and requests of browsers to it."""

    process: subprocess.Popen[bytes]
    url: str
    health_url: str
    log: Path
    pool: urllib3.PoolManager = dataclasses.field(default_factory=urllib3.PoolManager)

    def send(self, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> Any:
        """One request. A POST comes from the page itself."""
        stated = {"Host": HOST, **({"Origin": ORIGIN} if method == "POST" else {}), **headers}
        options: dict[str, Any] = {"headers": stated, "redirect": False, "retries": False, "timeout": 60}
        if form is not None:
            options |= {"fields": form, "encode_multipart": False}
        return self.pool.request(method, self.url + path, **options)

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """The code and text of a page."""
        answer = self.send("GET", path, None, **headers)
        return answer.status, answer.data.decode()

    def pause(self, path: str, **headers: str) -> int:
        """Press the button and confirm; return the code."""
        _, text = self.get(f"{path}/confirm?action=pause", **headers)
        token = text.partition('name="action_token" value="')[2].partition('"')[0]
        answer = self.send("POST", f"{path}/act", {"action": "pause", "action_token": token}, **headers)
        return int(answer.status)

    def is_ready(self) -> bool:
        """Whether /readyz answers."""
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            return bool(self.pool.request("GET", f"{self.health_url}/readyz", retries=False).status == 200)
        return False


def find_server(kubeconfig: Path, authority: Path) -> str:
    """The URL of the API server; its certificates are written to the file."""
    (cluster,) = yaml.safe_load(kubeconfig.read_text())["clusters"]
    content = cluster["cluster"]
    if "certificate-authority-data" in content:
        authority.write_bytes(base64.b64decode(content["certificate-authority-data"]))
    else:
        authority.write_bytes((kubeconfig.parent / content["certificate-authority"]).read_bytes())
    return str(content["server"])


@pytest.fixture
def page(threats: ThreatWorld, tmp_path: Path) -> Iterator[PageProcess]:
    """The page on the test's API server. Its environment has neither a kubeconfig nor a home folder."""
    port, http = free_port.find_free_port(), free_port.find_free_port()
    authority, log = tmp_path / "ca.crt", tmp_path / "page.log"
    server = find_server(threats.kubeconfig, authority)
    command = [*stack_command.find_program("hearth"), "page", f"--url={ORIGIN}", "--plain-http", f"--server={server}"]
    command += [
        f"--certificate-authority={authority}",
        f"--address=127.0.0.1:{port}",
        f"--http-address=127.0.0.1:{http}",
    ]
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV")}
    with log.open("wb") as opened:
        process = subprocess.Popen(command, stderr=opened, stdout=opened, env={**kept, "HOME": str(tmp_path)})
    made = PageProcess(process, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{http}", log)
    try:
        threats.wait_for(made.is_ready, what="the page serves")
        yield made
    finally:
        process.kill()
        process.wait(10)


def make_token(threats: ThreatWorld, account: Api) -> tuple[str, str]:
    """The user name and a token of a ServiceAccount."""
    namespace, name = account.account.split("/")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3_600}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = threats.api.send("POST", path, body=body).expect()
    return f"system:serviceaccount:{namespace}:{name}", answer["status"]["token"]


def list_audited(log: AuditLog) -> tuple[list[tuple[str, int]], set[str]]:
    """User and code of each write of the page, and the users whose tokens it checked."""
    events = [event for event in log.read() if event["stage"] == "ResponseComplete"]
    writes = [
        (event["user"]["username"], event["responseStatus"]["code"])
        for event in events
        if event["verb"] == "patch" and event["requestURI"].partition("?")[2].startswith("fieldManager=kubectl-stack")
    ]
    return writes, {event["user"]["username"] for event in events if "selfsubjectreviews" in event["requestURI"]}


def test_each_user_sees_and_does_what_rbac_allows_under_their_own_name(threats: ThreatWorld, page: PageProcess) -> None:
    log = AuditLog(threats.audit_log)
    shops, stores = threats.tenant("shops"), threats.tenant("stores")
    anna, anna_token = make_token(threats, shops.make_account("anna", STACKS, REVISIONS, CONFIG_MAPS))
    ben, ben_token = make_token(threats, stores.make_account("ben", SEEN_STACKS))
    for tenant, name in ((shops, "shop"), (stores, "store")):
        threats.api.create(make_stack(tenant.namespace, name, {"a": make_config_map("a", {"k": "v"})}))
        threats.wait_phase(tenant.namespace, name, "CreateComplete")
    shop, store = f"/stacks/{shops.namespace}/shop", f"/stacks/{stores.namespace}/store"

    # Anna pastes her token, Ben comes through a proxy.
    signed_in = page.send("POST", "/sign-in", {"token": anna_token, "next": shop})
    assert (signed_in.status, signed_in.headers["Location"]) == (303, shop)
    as_anna = {"Cookie": signed_in.headers["Set-Cookie"].partition(";")[0]}
    as_ben = {"Authorization": f"Bearer {ben_token}"}

    own = page.get(f"/?namespace={shops.namespace}", **as_anna)
    assert (own[0], shop in own[1], anna in own[1]) == (200, True, True)
    assert page.get(shop, **as_anna)[0] == 200
    assert page.get(store, **as_ben)[0] == 200
    for headers, path in ((as_anna, store), (as_anna, f"/?namespace={stores.namespace}"), (as_anna, "/")):
        assert page.get(path, **headers)[0] == 403
    for path in (shop, f"/?namespace={shops.namespace}", "/"):
        code, text = page.get(path, **as_ben)
        assert (code, f"{shop}/" in text) == (403, False)

    assert page.pause(shop, **as_anna) == 200
    assert page.pause(store, **as_ben) == 403
    paused = [
        (threats.api.get("Stack", tenant.namespace, name) or {})["spec"].get("paused")
        for tenant, name in ((shops, "shop"), (stores, "store"))
    ]
    assert paused == [True, None]

    assert list_audited(log) == ([(anna, 200), (ben, 403)], {anna, ben})
    own_log = page.log.read_text()
    assert anna in own_log
    assert '"verb": "pause"' in own_log
    for secret in (anna_token, ben_token, as_anna["Cookie"].partition("=")[2]):
        assert secret not in own_log


def test_a_revoked_token_leads_to_the_sign_in_page(threats: ThreatWorld, page: PageProcess) -> None:
    shops = threats.tenant("shops")
    account = shops.make_account("anna", STACKS)
    _, token = make_token(threats, account)
    answer = page.send("POST", "/sign-in", {"token": token})
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    assert page.get(f"/?namespace={shops.namespace}", Cookie=cookie)[0] == 200

    threats.api.delete("ServiceAccount", *account.account.split("/"))

    # The API server remembers valid tokens for ten seconds.
    def find_refusal() -> str | None:
        code, text = page.get(f"/?namespace={shops.namespace}", Cookie=cookie)
        return text if code == 401 else None

    assert "has expired or was revoked" in threats.wait_for(find_refusal, what="the token is refused")
    page.process.send_signal(signal.SIGTERM)
    assert page.process.wait(30) == 0
