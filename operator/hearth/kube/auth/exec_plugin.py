"""Runs the exec plugin of a kubeconfig (`client.authentication.k8s.io`), like kubectl.

Limits the plugin's time and output. Blocks until the plugin exits or is killed.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

import orjson

from hearth.kube.auth.kubeconfig import InvalidKubeconfig, KubeconfigContext, KubeconfigEntry
from hearth.model import limits, value_class

CONFIG_EXTENSION = "client.authentication.k8s.io/exec"
"""The cluster extension that is passed to the program."""
CLUSTER_KEYS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
"""The cluster fields that a program receives on request."""
PIECE = 64 * 1024
COMPLAINT_LENGTH = 200
"""Maximum characters of a program's error output in a message."""
SECRETS = re.compile(r"(?i)(?:(?:token|secret|password|key|bearer)\S*\s*[=:]?\s+\S+|\S+=\S+|[\w+/=.~-]{24,})")
"""Possible secrets: a word after one that announces a secret, an assignment, or a long word without spaces."""


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
    # Like kubectl: search a name without a slash in PATH; other paths are relative to the kubeconfig.
    program = str(context.user.folder / command) if "/" in command else command
    is_interactive: bool = stated.get("interactiveMode") != "Never" and sys.stdin is not None and sys.stdin.isatty()
    variables = {each["name"]: each["value"] for each in stated.get("env") or ()}
    request = describe(stated, context, is_interactive=is_interactive)
    try:
        done = run_program(
            [program, *(stated.get("args") or ())],
            environ={**environ, **variables, "KUBERNETES_EXEC_INFO": request.decode()},
            is_interactive=is_interactive,
        )
    except Stopped as error:
        raise InvalidKubeconfig(f"its exec plugin {command!r} {error}") from error
    except OSError as error:
        hint = stated.get("installHint") or "install it, or set its full path"
        raise InvalidKubeconfig(f"its exec plugin {command!r} cannot be run: {error}; {hint}") from error
    if done.code:
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} exited with code {done.code}: {describe_complaint(done.complaint)}"
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
        # Do not repeat the response in the message, because it may contain part of a token.
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} gave {len(answer)} bytes that are not an ExecCredential"
        ) from error
    if found.get("apiVersion") != api_version:
        raise InvalidKubeconfig(
            f"its exec plugin {command!r} answered with {found.get('apiVersion')}, but the kubeconfig requires "
            f"{api_version}"
        )
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not status.get("token") and not (certificate and key):
        raise InvalidKubeconfig(f"its exec plugin {command!r} returned neither a token nor a certificate with its key")
    ends = status.get("expirationTimestamp")
    return LoginResult(
        token=status.get("token"),
        certificate=certificate.encode() if certificate else None,
        key=key.encode() if key else None,
        expires_at=datetime.datetime.fromisoformat(ends).timestamp() if ends else None,
    )


class Stopped(Exception):
    """Error for a program that was killed; the message continues after the program's name."""


@value_class.dataclass(frozen=True, slots=True)
class Done:
    """A program that ended."""

    code: int
    answer: bytes = field(repr=False)
    complaint: bytes = field(repr=False)


def run_program(
    command: Sequence[str], *, environ: Mapping[str, str], is_interactive: bool, seconds: float = limits.PLUGIN_SECONDS
) -> Done:
    """Run the program and return its output. Raises Stopped, or OSError if it cannot start.

    is_interactive: whether it communicates with the user at the terminal, without a time limit; seconds: the time limit
    otherwise.
    """
    with subprocess.Popen(
        command,
        stdin=None if is_interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if is_interactive else subprocess.PIPE,
        env=environ,
        # With its own process group, the program's children end with it. At a terminal, it must stay in the group that
        # may read from the terminal.
        start_new_session=not is_interactive,
    ) as process:
        try:
            answer, complaint = read_output(process, seconds=None if is_interactive else seconds)
        except subprocess.TimeoutExpired as error:
            kill_program(process, has_group=not is_interactive)
            raise Stopped(
                f"did not end within {seconds:g} seconds and was killed; run it manually to see why"
            ) from error
        except BaseException:
            kill_program(process, has_group=not is_interactive)
            raise
    return Done(process.returncode, answer, complaint)


def read_output(process: subprocess.Popen[bytes], *, seconds: float | None) -> tuple[bytes, bytes]:
    """Read all output until the program ends. Raises Stopped or TimeoutExpired."""
    until = None if seconds is None else time.monotonic() + seconds
    pipes = [pipe.fileno() for pipe in (process.stdout, process.stderr) if pipe is not None]
    written = {pipe: bytearray() for pipe in pipes}
    open_pipes = set(pipes)
    while open_pipes:
        for pipe in wait_readable(open_pipes, until):
            piece = os.read(pipe, PIECE)
            written[pipe] += piece
            if not piece:
                open_pipes.discard(pipe)
        if sum(map(len, written.values())) > limits.PLUGIN_BYTES:
            raise Stopped(f"wrote more than {limits.PLUGIN_BYTES} bytes and was killed; it must write one credential")
    process.wait(find_left(until))
    answer, *complaint = (bytes(each) for each in written.values())
    return answer, complaint[0] if complaint else b""


def wait_readable(pipes: Collection[int], until: float | None) -> Sequence[int]:
    """Return the pipes that are readable or closed. Raises TimeoutExpired."""
    ready, _, _ = select.select(pipes, (), (), find_left(until))
    if not ready:
        raise subprocess.TimeoutExpired((), 0.0)
    return ready


def find_left(until: float | None) -> float | None:
    """Return the seconds until this moment, or None if there is no limit."""
    return None if until is None else max(0.0, until - time.monotonic())


def kill_program(process: subprocess.Popen[bytes], *, has_group: bool) -> None:
    """Kill the program and the processes that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if has_group:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def describe_complaint(complaint: bytes) -> str:
    """Return the last line of a program's error output, without possible secrets."""
    lines = complaint[-PIECE:].decode(errors="replace").strip().splitlines()
    if not lines:
        return "it wrote no output"
    said = "".join(character if character.isprintable() else " " for character in lines[-1].strip())
    shown = SECRETS.sub("(hidden)", said)
    return shown if len(shown) <= COMPLAINT_LENGTH else f"{shown[: COMPLAINT_LENGTH - 1]}…"
