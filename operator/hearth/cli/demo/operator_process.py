"""Runs the operator as a separate process for the demo."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from hearth.model import value_class
from hearth.settings import DEFAULT_OPERATOR_NAMESPACE, LEASE_HELD_EXIT_CODE

GRACE: Final = 6.0
"""Seconds that the operator has to stop; it should need at most five."""
LINES_SHOWN: Final = 15
DEFINITION_GROUP: Final = "platform.example"
"""The API group where StackDefinitions may create kinds, as in the documentation."""
HOST: Final = "127.0.0.1"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The running operator."""

    process: asyncio.subprocess.Process
    log: Path
    port: int
    """Port of its HTTP endpoints."""

    @property
    def has_ended(self) -> bool:
        """Whether the process ended, which is an error."""
        return self.process.returncode is not None

    @property
    def is_refused(self) -> bool:
        """Whether the operator did not start because another one manages the same Stacks."""
        return self.process.returncode == LEASE_HELD_EXIT_CODE

    async def is_ready(self) -> bool:
        """Return whether it is ready."""
        try:
            reader, writer = await asyncio.open_connection(HOST, self.port)
        except OSError:
            return False
        with contextlib.closing(writer):
            writer.write(f"GET /readyz HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
            return b" 200 " in await reader.readline()

    def read_end_of_log(self) -> list[str]:
        """Return the last lines of its log."""
        return self.log.read_text(errors="replace").splitlines()[-LINES_SHOWN:]


@contextlib.asynccontextmanager
async def run_operator(
    kubeconfig: str, *, namespace: str | None = None, folder: str | None = None, options: Sequence[str] = ()
) -> AsyncIterator[Operator]:
    """Run the operator within the block.

    namespace: the only namespace to serve; None for all. folder: where to write the log; None for the default. options:
    additional flags of `hearth run`.
    """
    port = find_free_port()
    handle, name = tempfile.mkstemp(prefix="hearth-operator-", suffix=".log", dir=folder)
    with os.fdopen(handle, "wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "hearth", "run"),
            *("--kubeconfig", kubeconfig, "--http-address", f"{HOST}:{port}"),
            *("--operator-namespace", DEFAULT_OPERATOR_NAMESPACE, "--definition-groups", DEFINITION_GROUP),
            *(("--namespace", namespace) if namespace is not None else ()),
            *options,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Settings for other operators on this machine do not apply to this one.
            env={name: value for name, value in os.environ.items() if not name.startswith("HEARTH_")},
            # Ctrl-C at the terminal stops the demo, which then stops the operator.
            start_new_session=True,
        )
    try:
        yield Operator(process=process, log=Path(name), port=port)
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """Terminate the process; kill it if that takes too long."""
    for action in (process.terminate, process.kill):
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            action()
            await asyncio.wait_for(process.wait(), GRACE)
            return


def find_free_port() -> int:
    """Find a free port. Port 0 would be safer, but then only the log would contain the number."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
