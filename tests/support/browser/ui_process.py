"""`kubectl stack ui` as its installed program runs it: a process that prints an address, and serves it until its end."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.real import stack_command

PATIENCE_SECONDS = 30
"""An order of magnitude above what a busy machine was seen to need."""


@dataclass(slots=True)
class UiProcess:
    """One run."""

    process: subprocess.Popen[str]
    address: str

    def stop(self) -> int:
        """Press Ctrl-C; return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)


def start(kubeconfig: Path, *arguments: str) -> UiProcess:
    """Start it, and return once it serves."""
    # A shell that starts tests in the background lets its processes ignore Ctrl-C, which a terminal does not.
    command = ["env", "--default-signal=INT", *stack_command.find_program()]
    command += ["--kubeconfig", str(kubeconfig), "ui", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Open http://127.0.0.1:"), line
    return UiProcess(process, line.split()[1])
