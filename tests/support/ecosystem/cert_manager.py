"""The part of cert-manager that issues self-signed certificates, as a process on a real API server."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import go_programs
from go_programs import Program

from support.ecosystem import programs

PROGRAM = Program(name="cert-manager", module=programs.MODULES / "certmanager", package=".")
"""A program of our own around the library: its command is no module that the proxy has."""


@contextlib.contextmanager
def run(kubeconfig: Path, log: Path) -> Iterator[None]:
    """Run its controllers until the end of the block. Its CustomResourceDefinitions must be installed."""
    program = go_programs.build_go_program(PROGRAM)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program], env=os.environ | {"KUBECONFIG": str(kubeconfig)}, stdout=output, stderr=output
        )
        try:
            yield
            assert process.poll() is None, log.read_text()[-3000:]
        finally:
            process.kill()
            process.wait()
