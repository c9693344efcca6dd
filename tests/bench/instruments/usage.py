"""Reads the CPU and memory usage of processes from Linux' /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
OURSELVES = os.getpid()
SERVERS = frozenset({"kube-apiserver", "etcd"})
"""The processes that count as CPU of the control plane."""
REST_OF_CONTROL_PLANE = frozenset({"kube-controller-manager", "kube-scheduler", "kwok-controller"})


def find_processes(programs: frozenset[str], *, folder: Path) -> list[int]:
    """The running processes of these programs that name the folder in their arguments; none where there is no /proc."""
    found = []
    for entry in PROC.glob("[0-9]*"):
        # It may exit after the listing.
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if Path(words[0]).name in programs and any(f"{folder}/" in word for word in words):
                found.append(int(entry.name))
    return found


def read_cpu(processes: Iterable[int]) -> float:
    """Seconds of CPU, user and system, that these processes have used; 0 for one that has exited."""
    total = 0
    for process in processes:
        with contextlib.suppress(OSError):
            total += parse_cpu((PROC / str(process) / "stat").read_text())
    return total / TICK


def parse_cpu(stat: str) -> int:
    """Ticks of CPU in a process's `stat`. The process name in it may contain spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def read_peak_memory(process: int) -> int:
    """The peak memory of a process in bytes; 0 for one that has exited."""
    return read_status(process, "VmHWM")


def read_memory(process: int) -> int:
    """The current memory of a process in bytes; 0 for one that has exited."""
    return read_status(process, "VmRSS")


def count_sockets(process: int) -> int:
    """The number of open sockets of a process, including listening ones."""
    count = 0
    for entry in (PROC / str(process) / "fd").iterdir():
        with contextlib.suppress(OSError):
            count += entry.readlink().name.startswith("socket:")
    return count


def read_status(process: int, name: str) -> int:
    """A figure of a process's `status`, in bytes; 0 for one that has exited."""
    with contextlib.suppress(OSError):
        for line in (PROC / str(process) / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


def read_machine_cpu() -> float:
    """Seconds of CPU that everything on this machine has used since it was started."""
    return parse_machine_cpu((PROC / "stat").read_text()) / TICK


def parse_machine_cpu(stat: str) -> int:
    """Ticks that were neither idle nor spent waiting for a disk; guests are counted in the first two already."""
    user, nice, system, _idle, _waiting, hard, soft, stolen = (int(word) for word in stat.split()[1:9])
    return user + nice + system + hard + soft + stolen
