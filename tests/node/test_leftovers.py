"""A node leaves nothing on the machine, however the command on it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import node_shop
import places
import pytest

import node as node_program
from support.node import node_cluster

SLEEP = [sys.executable, "-c", "import signal; print('here', flush=True); signal.pause()"]


@pytest.fixture
def home() -> Iterator[places.Home]:
    """A second node."""
    made = places.Home("leftovers")
    yield made
    assert (
        subprocess.run([sys.executable, node_program.__file__, "--name", made.name, "down"], check=False).returncode
        == 0
    )


def read_sysctls() -> list[str]:
    """The sysctls that a kubelet changes."""
    return [(node_program.SYS / name).read_text() for name in node_program.SYSCTLS]


def find_traces(home: places.Home) -> list[str]:
    """All remaining traces of the node: processes, mounts, cgroups, links, files."""
    running = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(home.folder).encode() in read_quietly(path) and int(path.parent.name) != os.getpid()
    ]
    mounted = [line for line in Path("/proc/mounts").read_text().splitlines() if str(home.folder) in line]
    cgroups = [str(path) for path in node_program.Keeper(home, []).cgroups if path.exists()]
    links = [path.name for path in Path("/sys/class/net").iterdir() if path.name in ("node0", "cni0")]
    files = [str(path) for path in (home.folder / "node", home.kubeconfig, home.record) if path.exists()]
    return [*running, *mounted, *cgroups, *links, *files]


def read_quietly(path: Path) -> bytes:
    """Empty if the process has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("program", "how"),
    [(node_shop.__file__, signal.SIGINT), (node_program.__file__, signal.SIGKILL)],
    ids=["Ctrl-C at the example", "SIGKILL"],
)
def test_nothing_is_left(home: places.Home, program: str, how: signal.Signals) -> None:
    """Ctrl-C reaches the whole group of processes, SIGKILL only the first one."""
    before = read_sysctls()
    action = ["with"] if program == node_program.__file__ else []
    # Background processes of a shell ignore Ctrl-C, unlike processes in a terminal.
    words = ["env", "--default-signal=INT", sys.executable, program, "--name", home.name, *action, "--", *SLEEP]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "here\n"
        assert find_traces(home) != []
        if how is signal.SIGINT:
            os.killpg(client.pid, how)
        else:
            client.send_signal(how)
        client.wait(node_cluster.PATIENCE_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(client.pid, signal.SIGKILL)  # the command, which no node can end

    node_cluster.wait_until("the end of the node", lambda: find_traces(home) == [], lambda: str(find_traces(home)))
    assert read_sysctls() == before
