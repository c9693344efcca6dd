"""Logging in by the program that a kubeconfig names (`client.authentication.k8s.io`), as kubectl does.

Blocks for as long as the program takes. Must not know what is done with its answer.
"""

from __future__ import annotations

import base64
import datetime
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from hearth.kube.auth import program as program_module
from hearth.kube.auth.kubeconfig import InvalidKubeconfig, KubeconfigContext, KubeconfigEntry

CONFIG_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a cluster that is meant for the program."""
CLUSTER_KEYS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
"""What a program that asks for it is told of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginResult:
    """What proves who we are."""

    token: str | None = field(default=None, repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Seconds since the epoch."""


def log_in(stated: Mapping[str, Any], context: KubeconfigContext, *, environ: Mapping[str, str]) -> LoginResult:
    """What the program answers. stated: the entry `exec` of the context's user. Raises Unusable."""
    command = stated["command"]
    # As kubectl: one without a slash is looked for in PATH, another is relative to the kubeconfig.
    program = str(context.user.folder / command) if "/" in command else command
    is_interactive: bool = stated.get("interactiveMode") != "Never" and sys.stdin is not None and sys.stdin.isatty()
    variables = {each["name"]: each["value"] for each in stated.get("env") or ()}
    asked = describe(stated, context, is_interactive=is_interactive)
    try:
        done = program_module.run(
            [program, *(stated.get("args") or ())],
            environ={**environ, **variables, "KUBERNETES_EXEC_INFO": asked.decode()},
            is_interactive=is_interactive,
        )
    except program_module.Stopped as error:
        raise InvalidKubeconfig(f"its exec plugin {command!r} {error}") from error
    except OSError as error:
        hint = stated.get("installHint") or "install it, or state where it is"
        raise InvalidKubeconfig(f"its exec plugin {command!r} cannot be run: {error}; {hint}") from error
    if done.code:
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} ended with {done.code}: {program_module.describe(done.complaint)}"
        )
    return read_answer(done.answer, command=command, api_version=stated.get("apiVersion"))


def describe(stated: Mapping[str, Any], context: KubeconfigContext, *, is_interactive: bool) -> bytes:
    """What the program is told, as JSON."""
    spec: dict[str, Any] = {"interactive": is_interactive}
    if stated.get("provideClusterInfo"):
        spec["cluster"] = describe_cluster(context.cluster)
    return orjson.dumps({"apiVersion": stated.get("apiVersion"), "kind": "ExecCredential", "spec": spec})


def describe_cluster(cluster: KubeconfigEntry) -> dict[str, Any]:
    """What the program is told of the cluster where it asks for that."""
    told = {key: cluster.content[key] for key in CLUSTER_KEYS if key in cluster.content}
    authority = cluster.read("certificate-authority")
    if authority is not None:
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.content.get("extensions") or ():
        if extension["name"] == CONFIG_EXTENSION:
            told["config"] = extension["extension"]
    return told


def read_answer(answer: bytes, *, command: str, api_version: str | None) -> LoginResult:
    """What the program has said. Raises Unusable."""
    try:
        found = orjson.loads(answer)
        status = found.get("status") or {}
    except (ValueError, AttributeError) as error:
        # What it says is not repeated: it may be half a token.
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} gave {len(answer)} bytes that are no ExecCredential"
        ) from error
    if found.get("apiVersion") != api_version:
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} answers in {found.get('apiVersion')}, and the kubeconfig states {api_version}"
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
