"""The demonstration as people run it, on a real API server: with and without a terminal, to its end in any case."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

EXAMPLE = Path(__file__).resolve().parents[2] / "manifests" / "examples" / "guestbook.yaml"
PATIENCE_SECONDS = 90
"""An order of magnitude above what a busy machine was seen to need."""


def command(kubeconfig: Path, namespace: str, *arguments: str, example: Path = EXAMPLE) -> list[str]:
    return [
        *(sys.executable, "-m", "hearth", "demo", "--kubeconfig", str(kubeconfig), "--example", str(example)),
        *("--namespace", namespace, "--namespaced", *arguments),
    ]


def find_operators(namespace: str) -> list[str]:
    """The command lines of the operators that serve the namespace."""
    listing = subprocess.run(["ps", "-axww", "-o", "args="], capture_output=True, text=True, check=True)
    return [line for line in listing.stdout.splitlines() if "hearth run" in line and namespace in line]


def test_without_a_terminal_it_tells_what_changes_and_ends(kubeconfig: Path, namespace: str) -> None:
    """As in CI: plain lines, the outputs, exit code 0, and nothing that it started goes on."""
    done = subprocess.run(command(kubeconfig, namespace), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "installing the CustomResourceDefinitions"
    assert any(line.endswith("frontend  deployment/guestbook-frontend  ready") for line in lines)
    assert any(line.endswith("stack/guestbook  CreateComplete  7/7") for line in lines)
    assert f"  url: http://guestbook-frontend-service.{namespace}.svc:80" in lines
    assert "\x1b" not in done.stdout
    assert find_operators(namespace) == []


def test_not_ready_in_time_is_told_with_the_reason(kubeconfig: Path, namespace: str, tmp_path: Path) -> None:
    """And the exit code says so too."""
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


def read_until(terminal: int, text: bytes) -> bytes:
    """What came until `text` did."""
    shown = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        if not ready:
            pytest.fail(f"{text!r} did not come within {PATIENCE_SECONDS} s: {shown.decode(errors='replace')}")
        shown += os.read(terminal, 65536)
    return shown


@pytest.mark.parametrize("ending", ["Ctrl-C", "SIGTERM"])
def test_on_a_terminal_it_stays_until_it_is_told_to_end(kubeconfig: Path, namespace: str, ending: str) -> None:
    """With a tree and with things to try; the operator ends with it."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(kubeconfig, namespace), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as demo:
        os.close(theirs)
        shown = read_until(ours, b"Ctrl-C ends it.")
        served = find_operators(namespace)
        demo.send_signal(signal.SIGINT if ending == "Ctrl-C" else signal.SIGTERM)
        read_until(ours, b"stay in the cluster")
        code = demo.wait(PATIENCE_SECONDS)
    os.close(ours)

    assert code == 0
    assert "├─ ".encode() in shown
    assert f"export KUBECONFIG={kubeconfig}".encode() in shown
    assert b"delete deployment/guestbook-frontend" in shown
    assert len(served) == 1
    assert find_operators(namespace) == []
