"""Control planes for tests whose operator serves all namespaces, separate from the shared one.

There are `SLOTS` of them on a machine, started when first needed. One test at a time has a slot; the plane of a slot
stays up until the last worker that used it ends. A developer's own plane (`controlplane.py --name x with -- pytest`)
is used as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import places

PROGRAM = places.HERE / "controlplane.py"
VARIABLE = "HEARTH_TEST_KUBECONFIG"
SLOTS = 4
"""Number of attack tests that run at the same time. They mostly wait; each slot is a control plane of 500 MB."""
POLL = 0.1
HOLD = "import os, sys; print(os.environ['KUBECONFIG'], flush=True); sys.stdin.read()"
"""Prints the kubeconfig, then runs until its standard input closes, no matter how the test process ends."""


class Slots:
    """The slots as one test process sees them."""

    def __init__(self, *, is_alone: bool, prefix: str = "threats", options: Sequence[str] = ()) -> None:
        """prefix: begins the names of the planes, which are shared by all with the same one; options: of their start."""
        self._prefix = prefix
        self._options = options
        self._own = find_own_plane() if is_alone else None
        self._holders: dict[int, tuple[subprocess.Popen[str], Path]] = {}

    @contextlib.contextmanager
    def take(self) -> Iterator[Path]:
        """The kubeconfig of a control plane that only this test uses."""
        if self._own is not None:
            yield self._own
            return
        number, lock = self._wait_free()
        with lock:
            yield self._attend(number)

    def close(self) -> None:
        """Leave all planes. The last process to leave a plane stops it."""
        for holder, _ in self._holders.values():
            assert holder.stdin is not None
            holder.stdin.close()
        for holder, _ in self._holders.values():
            holder.wait()
        self._holders.clear()

    def _wait_free(self) -> tuple[int, IO[str]]:
        """A free slot and its lock; one whose plane this process already uses comes first."""
        order = sorted(range(SLOTS), key=lambda number: number not in self._holders)
        while True:
            for number in order:
                folder = self._find_home(number).folder
                folder.mkdir(parents=True, exist_ok=True)
                lock = (folder / "slot").open("a")
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    lock.close()
                    continue
                return number, lock
            time.sleep(POLL)

    def _find_home(self, number: int) -> places.Home:
        return places.Home(f"{self._prefix}-{number}")

    def _attend(self, number: int) -> Path:
        if number not in self._holders:
            name = self._find_home(number).name
            command = [sys.executable, str(PROGRAM), "--name", name, "with", "--quiet", "--audit", *self._options, "--"]
            command += [sys.executable, "-c", HOLD]
            log = self._find_home(number).folder / "slot.log"
            with log.open("w") as stderr:
                holder = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
                )
            assert holder.stdout is not None
            kubeconfig = holder.stdout.readline().strip()
            assert kubeconfig, f"no control plane: {log.read_text()}"
            self._holders[number] = (holder, Path(kubeconfig))
        return self._holders[number][1]


def find_own_plane() -> Path | None:
    """The plane that a developer started under a name of its own for this test run; never the shared one."""
    given = Path(os.environ.get(VARIABLE, ""))
    home = places.Home(given.parent.name)
    return given if given == home.kubeconfig and home.name != "hearth" else None
