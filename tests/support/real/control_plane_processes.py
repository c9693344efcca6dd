"""A control plane for one test, with components that can be stopped, paused and restarted.

Never touches the control plane that tests share.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import places
import plane
import processes

PROGRAM = Path(places.HERE) / "controlplane.py"
LISTENS = re.compile(r"--(?:listen-client-urls=http://[^,]*:|listen-peer-urls=http://[^,]*:|secure-port=)(\d+)")
PATIENCE = 200.0
"""Maximum seconds until a restarted component is available. After an outage of minutes, an API server waits up to two
and a half minutes between two attempts to reach etcd."""


@dataclass(frozen=True, slots=True)
class Launched:
    """How a process was started."""

    arguments: list[str]
    folder: str
    held_ports: list[socket.socket]
    """Its ports, held until it restarts. Otherwise, another control plane could take them in the meantime, and the API
    server would connect to the wrong etcd."""


@dataclass(slots=True)
class OwnPlane:
    """One control plane."""

    home: places.Home
    stopped: dict[str, Launched] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.home.kubeconfig

    def kill(self, component: str) -> None:
        """SIGKILL it: `kube-apiserver`, `etcd`."""
        number = self._find(component)
        arguments = Path(f"/proc/{number}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
        folder = str(Path(f"/proc/{number}/cwd").readlink())
        kill_and_wait(number)
        launched = self.stopped[component] = Launched(arguments, folder, [])
        for port in find_ports(arguments):
            # If another process has just taken the port, it cannot be held. The component then fails with an error when
            # it starts.
            with contextlib.suppress(OSError):
                launched.held_ports.append(hold(port))

    def start(self, component: str) -> None:
        """Restart it with the same command line; returns at once."""
        launched = self.stopped.pop(component)
        for each in launched.held_ports:
            each.close()
        with (self.home.folder / f"{component}-again.log").open("ab") as log:
            subprocess.Popen(
                launched.arguments,
                cwd=launched.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @contextlib.contextmanager
    def held(self, component: str) -> Iterator[None]:
        """Suspend it within the block: it does not run, but its connections stay open."""
        number = self._find(component)
        os.kill(number, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(number, signal.SIGCONT)

    def wait_ready(self) -> None:
        """Wait until the API server reports that it is ready."""
        latest = time.monotonic() + PATIENCE
        while True:
            start = plane.find(self.home)
            if start is not None:
                return
            assert time.monotonic() < latest, f"the control plane {self.home.name} is not ready again"
            time.sleep(0.1)

    def restore(self) -> None:
        """Restart all stopped components, and wait until the control plane is ready."""
        for component in ("etcd", "kube-apiserver"):
            if component in self.stopped:
                self.start(component)
        self.wait_ready()

    def _numbers(self, component: str) -> list[int]:
        return list(processes.find(frozenset({component}), using=self.home.folder))

    def _find(self, component: str) -> int:
        (number,) = self._numbers(component)
        return number


def kill_and_wait(number: int) -> None:
    """SIGKILL a process, and return when its ports and files are free.

    Its command line disappears earlier, while its memory is being freed, which takes some 100 ms for an API server.
    """
    process = os.pidfd_open(number)
    try:
        os.kill(number, signal.SIGKILL)
        select.select([process], [], [])
    finally:
        os.close(process)


def find_ports(arguments: list[str]) -> list[int]:
    """The ports that a component listens on, from its command line."""
    found = (LISTENS.fullmatch(each) for each in arguments)
    return sorted({int(match[1]) for match in found if match is not None})


def hold(port: int) -> socket.socket:
    """Keep a port from others without listening on it: connections are refused."""
    held = socket.socket()
    # Allowed next to connections that have just ended; no other process can bind the port afterward.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("0.0.0.0", port))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return held


@contextlib.contextmanager
def run_plane(name: str) -> Iterator[OwnPlane]:
    """A fresh control plane of that name, stopped at the end."""
    assert name != "hearth", "that one is shared"
    control = [sys.executable, str(PROGRAM), "--name", name]
    subprocess.run([*control, "up"], check=True, stderr=subprocess.DEVNULL)
    try:
        yield OwnPlane(places.Home(name))
    finally:
        subprocess.run([*control, "down"], check=True, stderr=subprocess.DEVNULL)
