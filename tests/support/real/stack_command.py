"""Runs `kubectl stack` as the installed program does: the entry point in pyproject.toml, in a separate process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from support import repository

PYPROJECT = repository.ROOT / "pyproject.toml"
SCRIPT = "kubectl-stack"
LIMIT_SECONDS = 120
PATIENCE_SECONDS = 30
"""Maximum seconds for the first response and for the exit: ten times the longest time seen on a busy machine."""


def find_program(script: str = SCRIPT) -> list[str]:
    """The command that the installed script consists of."""
    target = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"][script]
    module, _, function = target.partition(":")
    return [sys.executable, "-c", f"from {module} import {function}; {function}()"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackCommand:
    """`kubectl stack` of one user, in one namespace."""

    kubeconfig: Path
    namespace: str
    limit_seconds: float = LIMIT_SECONDS

    async def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it and wait until it exits."""
        return await asyncio.to_thread(self.run_now, *arguments, **environment)

    def run_now(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it and wait until it exits. Blocks."""
        return subprocess.run(
            [*find_program(), "--kubeconfig", str(self.kubeconfig), "-n", self.namespace, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=self.limit_seconds,
            env=os.environ | environment,
        )

    async def expect(self, *arguments: str, code: int = 0) -> str:
        """Return both outputs of a run that ends with that code."""
        done = await self.run(*arguments)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@dataclass(slots=True)
class UiProcess:
    """One run of `kubectl stack ui`, which prints a URL and serves it until it exits."""

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


def start_ui(kubeconfig: Path, *arguments: str) -> UiProcess:
    """Start it, and return once it serves."""
    # Background processes of a shell ignore Ctrl-C, unlike processes in a terminal.
    command = ["env", "--default-signal=INT", *find_program()]
    command += ["--kubeconfig", str(kubeconfig), "ui", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Open http://127.0.0.1:"), line
    return UiProcess(process, line.split()[1])
