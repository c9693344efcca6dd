"""Finds and ends processes by their program and folder, never by a stored process ID.

A stored ID may belong to another process now (after a restart of the machine it surely does); a program's name together
with a folder that only our control plane uses cannot.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def find(programs: frozenset[str], *, using: Path) -> dict[int, str]:
    """Running processes of these programs that have the folder in their arguments: PID → program."""
    return {
        number: Path(arguments[0]).name
        for number, arguments in _list_all()
        if Path(arguments[0]).name in programs and any(f"{using}/" in argument for argument in arguments)
    }


def end(programs: frozenset[str], *, using: Path) -> None:
    """Kill the processes that `find` finds, and return when none is left.

    They are not shut down gracefully: they have no state worth saving, and the API server would take long.
    """
    while left := find(programs, using=using):
        for number in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.02)


def _list_all() -> Iterator[tuple[int, list[str]]]:
    """Every process that has arguments; zombies have none."""
    if not PROC.joinpath("self", "cmdline").exists():
        yield from _ask_ps()
        return
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            # A process may exit after the listing, and its ID may be reused.
            with contextlib.suppress(OSError):
                words = folder.joinpath("cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
                if words[0]:
                    yield int(folder.name), words


def _ask_ps() -> Iterator[tuple[int, list[str]]]:
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        number, _, arguments = line.strip().partition(" ")
        if arguments.split():
            yield int(number), arguments.split()
