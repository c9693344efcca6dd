"""Exec plugins: limits on time and memory, and no secrets in messages."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hearth.kube.auth import exec_plugin
from hearth.model import limits


def run(script: str, *, seconds: float = 20.0) -> exec_plugin.Done:
    """The credential that a shell script printed."""
    return exec_plugin.run_program(
        ["/bin/sh", "-c", script], environ=dict(os.environ), is_interactive=False, seconds=seconds
    )


def test_what_it_writes_is_kept_apart() -> None:
    assert run("echo answer; echo complaint >&2; exit 3") == exec_plugin.Done(3, b"answer\n", b"complaint\n")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("sleep 600", id="it hangs"),
        pytest.param("sleep 600 & echo done", id="what it has started holds its output"),
        pytest.param("exec >&- 2>&-; sleep 600", id="it closes its output and hangs"),
    ],
)
def test_a_program_that_does_not_end_is_killed(script: str) -> None:
    began = time.monotonic()
    with pytest.raises(exec_plugin.Stopped, match=r"did not end within 0\.3 seconds and was killed"):
        run(script, seconds=0.3)
    assert time.monotonic() - began < 10.0


def test_what_it_has_started_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(exec_plugin.Stopped):
        run(f"sleep 600 & echo $! > {file}; wait", seconds=0.5)
    number = int(file.read_text())
    until = time.monotonic() + 10.0
    while is_alive(number):
        assert time.monotonic() < until


def is_alive(number: int) -> bool:
    """Whether that process runs; zombies do not count."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("to", ["", " >&2"])
def test_a_program_that_writes_without_end_is_killed(to: str) -> None:
    with pytest.raises(exec_plugin.Stopped, match=f"more than {limits.PLUGIN_BYTES} bytes"):
        run(f"exec cat /dev/zero{to}")


@pytest.mark.parametrize(
    ("complaint", "shown"),
    [
        pytest.param(b"", "it wrote no output", id="nothing"),
        pytest.param(b"first\nthe session has expired\n", "the session has expired", id="the last line"),
        pytest.param(b"cannot use eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.e30.c2ln", "cannot use (hidden)", id="a token"),
        pytest.param(b"password: hunter2 is wrong", "(hidden) is wrong", id="a password"),
        pytest.param(b"AWS_SECRET=abc is set", "(hidden) is set", id="a variable"),
        pytest.param(b"a\x1b[31mb", "a [31mb", id="a control character"),
        pytest.param(b"no " * 200, f"{'no ' * 66}n…", id="too much"),
    ],
)
def test_a_complaint_is_shown_without_secrets(complaint: bytes, shown: str) -> None:
    assert exec_plugin.describe_complaint(complaint) == shown
