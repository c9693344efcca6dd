"""`hearth page` as a separate process, requests of browsers to it, and its requests in the audit log."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import urllib3
import yaml

from support import free_port
from support.real import stack_command
from support.threats.api import Api
from support.threats.audit_log import AuditLog
from support.threats.world import READ, Rule, ThreatWorld

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


def make_token(threats: ThreatWorld, account: Api) -> tuple[str, str]:
    """The user name and a token of a ServiceAccount."""
    namespace, name = account.account.split("/")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3_600}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = threats.api.send("POST", path, body=body).expect()
    return f"system:serviceaccount:{namespace}:{name}", answer["status"]["token"]


def find_server(kubeconfig: Path, authority: Path) -> str:
    """The URL of the API server; its certificates are written to the file."""
    (cluster,) = yaml.safe_load(kubeconfig.read_text())["clusters"]
    content = cluster["cluster"]
    if "certificate-authority-data" in content:
        authority.write_bytes(base64.b64decode(content["certificate-authority-data"]))
    else:
        authority.write_bytes((kubeconfig.parent / content["certificate-authority"]).read_bytes())
    return str(content["server"])


@contextlib.contextmanager
def run_page(
    threats: ThreatWorld, folder: Path, *options: str, url: str = ORIGIN, port: int = 0
) -> Iterator[PageProcess]:
    """The page on the test's API server. Its environment has neither a kubeconfig nor a home folder.

    folder: for its files; options: further flags; url: where browsers reach it; port: where it serves, 0 for a free one.
    """
    port, http = port or free_port.find_free_port(), free_port.find_free_port()
    authority, log = folder / "ca.crt", folder / "page.log"
    server = find_server(threats.kubeconfig, authority)
    command = [*stack_command.find_program("hearth"), "page", f"--url={url}", "--plain-http", f"--server={server}"]
    command += [
        f"--certificate-authority={authority}",
        f"--address=127.0.0.1:{port}",
        f"--http-address=127.0.0.1:{http}",
        *options,
    ]
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV")}
    with log.open("wb") as opened:
        process = subprocess.Popen(command, stderr=opened, stdout=opened, env={**kept, "HOME": str(folder)})
    made = PageProcess(process, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{http}", log)
    try:
        threats.wait_for(made.is_ready, what="the page serves")
        yield made
    finally:
        process.kill()
        process.wait(10)


def list_audited(log: AuditLog) -> tuple[list[tuple[str, int]], set[str]]:
    """User and code of each write of the page, and the users whose tokens it checked."""
    events = [event for event in log.read() if event["stage"] == "ResponseComplete"]
    writes = [
        (event["user"]["username"], event["responseStatus"]["code"])
        for event in events
        if event["verb"] == "patch" and event["requestURI"].partition("?")[2].startswith("fieldManager=kubectl-stack")
    ]
    return writes, {event["user"]["username"] for event in events if "selfsubjectreviews" in event["requestURI"]}
