"""The demo as users run it, on a real API server, with and without a terminal; it must always finish."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import process_lock, repository

EXAMPLE = repository.EXAMPLES / "guestbook.yaml"
PATIENCE_SECONDS = 90
"""Ten times the longest time seen on a busy machine."""


@pytest.fixture(autouse=True)
def _logs_are_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo keeps the operator's log for users; no test reads it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture(autouse=True)
def _serves_definitions() -> Iterator[None]:
    """The demo's operator serves StackDefinitions for the whole cluster."""
    with process_lock.held(process_lock.DEFINERS, is_shared=True):
        yield


def command(kubeconfig: Path, namespace: str, *arguments: str, example: Path = EXAMPLE) -> list[str]:
    return [
        *(sys.executable, "-m", "hearth", "demo", "--kubeconfig", str(kubeconfig), "--example", str(example)),
        *("--namespace", namespace, "--namespaced", *arguments),
    ]


def find_operators(namespace: str) -> list[int]:
    """The operators that serve the namespace."""
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=True)
    lines = [line for line in listing.stdout.splitlines() if "hearth run" in line and namespace in line]
    return [int(line.split()[0]) for line in lines]


def test_without_a_terminal_it_tells_what_changes_and_ends(kubeconfig: Path, namespace: str) -> None:
    done = subprocess.run(command(kubeconfig, namespace), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "installing the CustomResourceDefinitions"
    assert any(line.endswith("frontend  deployment/guestbook-frontend  ready") for line in lines)
    assert any(line.endswith("stack/guestbook  CreateComplete  7/7") for line in lines)
    assert f"  url: http://guestbook-frontend-service.{namespace}.svc:80" in lines
    assert "\x1b" not in done.stdout
    assert find_operators(namespace) == []


def test_the_example_of_a_collection_converges(kubeconfig: Path, namespace: str) -> None:
    example = EXAMPLE.parent / "collection.yaml"
    done = subprocess.run(command(kubeconfig, namespace, example=example), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.endswith("servers  deployment[]  ready  2/2 members are ready") for line in lines)
    assert any(line.endswith("stack/sites  CreateComplete  5/5") for line in lines)


def test_not_ready_in_time_is_reported_with_the_reason(kubeconfig: Path, namespace: str, tmp_path: Path) -> None:
    stack = yaml.safe_load(EXAMPLE.read_text())
    stack["spec"]["template"]["resources"]["redisLeader"]["manifest"]["spec"]["template"]["metadata"]["labels"] |= {
        "test.hearth.dev/pod": "never-ready"
    }
    example = tmp_path / "example.yaml"
    example.write_text(yaml.safe_dump(stack))

    done = subprocess.run(
        command(kubeconfig, namespace, "--timeout", "4s", example=example), capture_output=True, text=True, check=False
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        "stack/guestbook is not Ready after 4 s: waits for redisLeader (deployment/guestbook-redis-leader)"
        in done.stderr
    )
    assert find_operators(namespace) == []


def test_a_mistake_is_reported_at_admission(kubeconfig: Path, namespace: str, tmp_path: Path) -> None:
    stack = yaml.safe_load(EXAMPLE.read_text())
    stack["spec"]["template"]["resources"]["frontend"]["dependsOn"] = ["nowhere"]
    example = tmp_path / "example.yaml"
    example.write_text(yaml.safe_dump(stack))

    done = subprocess.run(command(kubeconfig, namespace, example=example), capture_output=True, text=True, check=False)

    assert done.returncode == 1, done.stdout + done.stderr
    assert 'admission webhook "stacks.hearth.dev" denied the request' in done.stderr
    assert "there is no resource 'nowhere'" in done.stderr
    assert "Traceback" not in done.stderr
    kubectl = [
        sys.executable,
        str(repository.CONTROL_PLANE),
        "kubectl",
        "get",
        "--kubeconfig",
        str(kubeconfig),
        "--output=name",
    ]
    left = subprocess.run([*kubectl, "validatingwebhookconfigurations"], capture_output=True, text=True, check=True)
    assert namespace not in left.stdout


def read_until(terminal: int, text: bytes) -> bytes:
    """The output up to `text`."""
    shown = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        if not ready:
            pytest.fail(f"{text!r} did not come within {PATIENCE_SECONDS} s: {shown.decode(errors='replace')}")
        shown += os.read(terminal, 65536)
    return shown


@contextlib.contextmanager
def on_a_terminal(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The running program, and the terminal that it is shown on."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as program:
            os.close(theirs)
            yield program, ours
    finally:
        os.close(ours)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_on_a_terminal_it_stays_until_it_is_asked_to_end(
    kubeconfig: Path, namespace: str, number: signal.Signals
) -> None:
    with on_a_terminal(command(kubeconfig, namespace)) as (demo, terminal):
        shown = read_until(terminal, b"Ctrl-C stops it.")
        served = find_operators(namespace)
        demo.send_signal(number)
        read_until(terminal, b"are kept in the cluster")
        code = demo.wait(PATIENCE_SECONDS)

    assert code == 0
    assert "├─ ".encode() in shown
    assert f"export KUBECONFIG={kubeconfig}".encode() in shown
    assert b"delete deployment/guestbook-frontend" in shown
    assert len(served) == 1
    assert find_operators(namespace) == []


def test_that_the_operator_ended_by_itself_is_reported(kubeconfig: Path, namespace: str) -> None:
    with on_a_terminal(command(kubeconfig, namespace)) as (demo, terminal):
        read_until(terminal, b"Ctrl-C stops it.")
        (operator,) = find_operators(namespace)
        os.kill(operator, signal.SIGKILL)
        shown = read_until(terminal, b"started")
        code = demo.wait(PATIENCE_SECONDS)

    assert code == 1
    assert b"the operator exited unexpectedly; its last lines:" in shown
