"""The operator as a separate process, as in production, and its reports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.instruments import bare_api, figures, usage
from hearth.cli.demo import operator_process

HOST = "127.0.0.1"
LOOK = 0.02
"""Seconds between two checks whether it has started."""
QUIET = 1.5
"""Seconds without a request after which it is idle: longer than status writes are delayed."""
AT_REST = 0.5
"""Seconds of almost no CPU use that mark the end of its start."""
NEXT_TO_NONE = 0.02
"""Seconds of CPU."""
START_TIMEOUT = 120.0
LINES_SHOWN = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    process: asyncio.subprocess.Process
    log: Path
    pages: aiohttp.ClientSession

    @property
    def number(self) -> int:
        return self.process.pid

    async def get_requests(self) -> Counter[str]:
        """Its requests since its start, by `verb kind`."""
        async with self.pages.get("/metrics") as answer:
            return figures.count_requests(await answer.text())

    async def wait_ready(self) -> None:
        """Wait until it has processed every object once."""
        async with asyncio.timeout(START_TIMEOUT):
            while not await self._is_ready():  # noqa: ASYNC110 -- it is another process that we wait for
                await asyncio.sleep(LOOK)

    async def wait_quiet(self) -> None:
        """Wait until it sends no more requests."""
        before, now = None, await self.get_requests()
        while before != now:
            await asyncio.sleep(QUIET)
            before, now = now, await self.get_requests()

    async def wait_started(self) -> None:
        """Wait until its start has ended: it reports ready while a thread still imports kopf."""
        before, now = -1.0, usage.read_cpu([self.number])
        while now - before > NEXT_TO_NONE:
            await asyncio.sleep(AT_REST)
            before, now = now, usage.read_cpu([self.number])

    async def wait_ended(self) -> None:
        """Wait until it exits without a request."""
        code = await self.process.wait()
        raise bare_api.Disturbed(
            "\n".join([f"the operator ended with {code}; its last words:", *self.read_last_words()])
        )

    def read_last_words(self) -> list[str]:
        """The end of its log."""
        return self.log.read_text(errors="replace").splitlines()[-LINES_SHOWN:]

    async def _is_ready(self) -> bool:
        try:
            async with self.pages.get("/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


@contextlib.asynccontextmanager
async def running(
    kubeconfig: str,
    *,
    namespace: str,
    profile: Path | None = None,
    serves_all: bool = False,
    options: Iterable[str] = (),
) -> AsyncIterator[Operator]:
    """Run the operator for one namespace. profile: the file for a profile of all its calls.

    serves_all: it serves all namespaces, and keeps only its own objects in that one; options: further flags.
    """
    address = f"{HOST}:{operator_process.find_free_port()}"
    serves = () if serves_all else ("--namespace", namespace, "--serve-operator-namespace")
    words = ("--kubeconfig", kubeconfig, "--operator-namespace", namespace, *serves)
    more = (*options, *(("--profile", str(profile)) if profile is not None else ()))
    command = ("-m", "hearth", "run", *words, "--http-address", address, "--log-level", "warning", *more)
    with tempfile.NamedTemporaryFile(prefix="hearth-bench-", suffix=".log") as log:
        process = await spawn(command, log=log.fileno())
        try:
            async with aiohttp.ClientSession(f"http://{address}") as pages, asyncio.TaskGroup() as group:
                operator = Operator(process=process, log=Path(log.name), pages=pages)
                watching = group.create_task(operator.wait_ended())
                await operator.wait_ready()
                yield operator
                watching.cancel()
        finally:
            await operator_process.end(process)


async def spawn(command: tuple[str, ...], *, log: int) -> asyncio.subprocess.Process:
    """Python with that command line."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # Settings of other operators on this machine do not apply to this one.
        env={name: value for name, value in os.environ.items() if not name.startswith("HEARTH_")},
        # Only this process receives Ctrl-C from the terminal. It stops the operator itself.
        start_new_session=True,
    )
