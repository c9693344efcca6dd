"""Login with the program that a kubeconfig specifies (`client.authentication.k8s.io`), as in kubectl.

Blocks until the program ends. Must not know how its response is used.
"""

from __future__ import annotations

import base64
import datetime
import sys
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson

from hearth.kube.auth import program as program_module
from hearth.kube.auth.kubeconfig import InvalidKubeconfig, KubeconfigContext, KubeconfigEntry
from hearth.model import value_class

CONFIG_EXTENSION = "client.authentication.k8s.io/exec"
"""The cluster extension that is passed to the program."""
CLUSTER_KEYS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
"""The cluster fields that a program receives on request."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class LoginResult:
    """The result of a login."""

    token: str | None = field(default=None, repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Seconds since the epoch."""


def log_in(stated: Mapping[str, Any], context: KubeconfigContext, *, environ: Mapping[str, str]) -> LoginResult:
    """Run the program and return its response. stated: the user's `exec` entry. Raises InvalidKubeconfig."""
    command = stated["command"]
    # As in kubectl: a name without a slash is searched in PATH, another is relative to the kubeconfig.
    program = str(context.user.folder / command) if "/" in command else command
    is_interactive: bool = stated.get("interactiveMode") != "Never" and sys.stdin is not None and sys.stdin.isatty()
    variables = {each["name"]: each["value"] for each in stated.get("env") or ()}
    request = describe(stated, context, is_interactive=is_interactive)
    try:
        done = program_module.run(
            [program, *(stated.get("args") or ())],
            environ={**environ, **variables, "KUBERNETES_EXEC_INFO": request.decode()},
            is_interactive=is_interactive,
        )
    except program_module.Stopped as error:
        raise InvalidKubeconfig(f"its exec plugin {command!r} {error}") from error
    except OSError as error:
        hint = stated.get("installHint") or "install it, or set its full path"
        raise InvalidKubeconfig(f"its exec plugin {command!r} cannot be run: {error}; {hint}") from error
    if done.code:
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} exited with code {done.code}: {program_module.describe(done.complaint)}"
        )
    return read_answer(done.answer, command=command, api_version=stated.get("apiVersion"))


def describe(stated: Mapping[str, Any], context: KubeconfigContext, *, is_interactive: bool) -> bytes:
    """Return the JSON input of the program."""
    spec: dict[str, Any] = {"interactive": is_interactive}
    if stated.get("provideClusterInfo"):
        spec["cluster"] = describe_cluster(context.cluster)
    return orjson.dumps({"apiVersion": stated.get("apiVersion"), "kind": "ExecCredential", "spec": spec})


def describe_cluster(cluster: KubeconfigEntry) -> dict[str, Any]:
    """Return the cluster data for a program that requests it."""
    shared = {key: cluster.content[key] for key in CLUSTER_KEYS if key in cluster.content}
    authority = cluster.read("certificate-authority")
    if authority is not None:
        shared["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.content.get("extensions") or ():
        if extension["name"] == CONFIG_EXTENSION:
            shared["config"] = extension["extension"]
    return shared


def read_answer(answer: bytes, *, command: str, api_version: str | None) -> LoginResult:
    """Parse the program's response. Raises InvalidKubeconfig."""
    try:
        found = orjson.loads(answer)
        status = found.get("status") or {}
    except (ValueError, AttributeError) as error:
        # The message does not repeat the response, which may be half a token.
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} gave {len(answer)} bytes that are not an ExecCredential"
        ) from error
    if found.get("apiVersion") != api_version:
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} answers in {found.get('apiVersion')}, but the kubeconfig requires {api_version}"
        )
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not status.get("token") and not (certificate and key):
        raise InvalidKubeconfig(f"its exec plugin {command!r} gave neither a token nor a certificate with its key")
    ends = status.get("expirationTimestamp")
    return LoginResult(
        token=status.get("token"),
        certificate=certificate.encode() if certificate else None,
        key=key.encode() if key else None,
        expires_at=datetime.datetime.fromisoformat(ends).timestamp() if ends else None,
    )
