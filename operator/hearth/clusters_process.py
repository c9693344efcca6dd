"""Manages the child process for the Stacks of other clusters: starts it for the first one, monitors and restarts it.

A tenant's kubeconfig or API server can block this process, but not the Stacks of the home cluster: those have their own
event loop, resolver, memory and connections. The process runs at a lower priority, exits with its parent, and is killed
if it hangs or uses too much memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import os
import pickle
import resource
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from hearth import supervision
from hearth.model import growing_delay, limits
from hearth.model.memory_shares import memory_shares
from hearth.model.sharding import Place
from hearth.settings import Settings

log = structlog.get_logger(__name__)

COMMAND: Final = (sys.executable, "-P", "-c", "from hearth import __main__; __main__.serve_clusters()")
LENGTH = struct.Struct(">I")
"""Length prefix of the settings that the process receives, and of each metrics text that it sends."""
BEAT_INTERVAL = 1.0
"""Seconds between two heartbeats of the event loop. A heartbeat is a metrics text, which may be empty."""
BEATS_PER_METRICS = 5
METRICS_BYTES = 4 * 1024 * 1024
"""Maximum bytes of the metrics; with 200 clusters, they have some 100 KiB."""
SILENT_AFTER = 30.0
"""Seconds without a heartbeat after which the process counts as hanging. Parsing a response or starting takes less."""
LOOK_INTERVAL = 0.5
"""Seconds between two checks of the memory."""
END_SECONDS = 3.0
"""Maximum seconds for the process to end after a request."""
UNUSED_AFTER = 60.0
"""Seconds without a Stack in another cluster after which the process ends."""
FIRST_BACKOFF, MAX_BACKOFF = 1.0, 60.0
"""Seconds before a restart: the first time, and at most."""
SETTLED_AFTER = 600.0
"""Seconds of a run after which its end counts as the first again."""
PAGE = resource.getpagesize()
NICENESS = 10
"""With this niceness, the process gets a tenth of a core's time next to a busy main process."""
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""Limits the memory arenas of the C library. Each maps 64 MiB, which would count against the limit."""
FIRST_VICTIM = "1000"
"""Makes the kernel kill this process first if memory is short."""


class ClustersProcess:
    """Runs the child process while there is a Stack for it."""

    def __init__(
        self,
        settings: Settings,
        *,
        on_end: Callable[[str], None] = lambda _reason: None,
        command: Sequence[str] = COMMAND,
        silent_after: float = SILENT_AFTER,
    ) -> None:
        """on_end: gets the reason of an unexpected end, for metrics; silent_after: seconds."""
        self._silent_after = silent_after
        self._settings = make_settings(settings)
        self._count: Callable[[], int] = lambda: 0
        self.metrics = b""
        """The last metrics of the process in the Prometheus text format; empty while it does not run."""
        self._on_end = on_end
        self._command = command
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, count: Callable[[], int]) -> None:
        """Start to serve Stacks of other clusters once there is one. count: returns their number."""
        self._count = count
        self._task = supervision.spawn_forever("clusters_process", self._run)

    def note_stack(self) -> None:
        """Note that a Stack of another cluster exists."""
        self._wanted.set()

    async def stop(self) -> None:
        """End the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if not self._count():
                continue
            begun = time.monotonic()
            reason = await self._serve()
            if not reason:
                continue
            failures = 1 if time.monotonic() - begun > SETTLED_AFTER else failures + 1
            pause = growing_delay.find(failures, first=FIRST_BACKOFF, longest=MAX_BACKOFF)
            self._on_end(reason)
            log.warning("process for other clusters ended; restarting", reason=reason, seconds=pause)
            await asyncio.sleep(pause)
            self._wanted.set()

    async def _serve(self) -> str:
        """Run one process until it exits. Returns why it exited, or "" if no Stack needs it any longer."""
        inner = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=os.environ | FEW_ARENAS,
        )
        try:
            await send(inner, self._settings)
            works = self._listen(inner), self._watch(inner.pid)
            return await supervision.wait_any(*works, name="process for other clusters")
        finally:
            self.metrics = b""
            await end(inner)

    async def _listen(self, inner: asyncio.subprocess.Process) -> str:
        """Return the reason once the process shows no sign of life."""
        assert inner.stdout is not None  # noqa: S101 -- it is a pipe
        while True:
            try:
                async with asyncio.timeout(self._silent_after):
                    text = await read_text(inner.stdout)
            except TimeoutError:
                return f"its event loop hung for {self._silent_after:g} s"
            except asyncio.IncompleteReadError:
                return f"exit code {await inner.wait()}"
            if text is None:
                return "it sent too much"
            self.metrics = text or self.metrics

    async def _watch(self, pid: int) -> str:
        """Return the reason once the process uses too much memory or is not needed."""
        most, unused_since = self._settings.clusters_memory * 2**20, time.monotonic()
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            if (held := measure_memory(pid)) > most:
                return f"it took {held // 2**20} MiB of memory, and at most {most // 2**20} MiB are allowed"
            if self._count():
                unused_since = time.monotonic()
            elif time.monotonic() - unused_since > UNUSED_AFTER:
                return ""


def make_settings(settings: Settings) -> Settings:
    """Return the settings of the child process: it takes part in no election and serves no webhook."""
    return dataclasses.replace(
        settings,
        share=dataclasses.replace(settings.share, place=Place.ELSEWHERE),
        webhook_address=None,
        leader_election=False,
        ignore_leader=True,
        profile=None,
    )


async def send(inner: asyncio.subprocess.Process, settings: Settings) -> None:
    """Send the settings; a process that ended already shows so elsewhere."""
    assert inner.stdin is not None  # noqa: S101 -- it is a pipe
    packed = pickle.dumps(settings)
    with contextlib.suppress(ConnectionError):
        inner.stdin.write(LENGTH.pack(len(packed)) + packed)
        await inner.stdin.drain()


async def read_text(pipe: asyncio.StreamReader) -> bytes | None:
    """Return the next text of the process, or None if it is too long. Raises IncompleteReadError once the process ended."""
    (length,) = LENGTH.unpack(await pipe.readexactly(LENGTH.size))
    return await pipe.readexactly(length) if length <= METRICS_BYTES else None


async def end(inner: asyncio.subprocess.Process) -> None:
    """Ask the process to end, and kill it if it does not."""
    assert inner.stdin is not None  # noqa: S101 -- it is a pipe
    inner.stdin.close()
    try:
        async with asyncio.timeout(END_SECONDS):
            await inner.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            inner.kill()
        await inner.wait()


def measure_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 if it ended or its memory cannot be read."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0


def receive(file: BinaryIO) -> Settings:
    """Return the settings that the parent sent. Raises EOFError if it ended."""
    (length,) = LENGTH.unpack(read_exactly(file, LENGTH.size))
    found = pickle.loads(read_exactly(file, length))  # noqa: S301 -- of the parent alone: the pipe has no name
    assert isinstance(found, Settings)  # noqa: S101 -- tells the type checker
    return found


def read_exactly(file: BinaryIO, size: int) -> bytes:
    """Return that many bytes. Raises EOFError."""
    found = file.read(size)
    if len(found) < size:
        raise EOFError
    return found


def limit_itself(memory: int) -> None:
    """Lower this process's priority and limit its memory. memory: MiB that the parent allows."""
    memory_shares.total = memory * 2**20 // limits.CLUSTERS_KEPT_FRACTION
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
        Path("/proc/self/oom_score_adj").write_text(FIRST_VICTIM)
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The parent checks at intervals; this limit stops growth between two checks.
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
        most = mapped + limits.CLUSTERS_MEMORY_SLACK * memory * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


async def beat(render: Callable[[], bytes]) -> None:
    """Send the parent a sign of life of this event loop each second, and the metrics now and then."""
    for number in itertools.count():
        text = render() if number % BEATS_PER_METRICS == 0 else b""
        with contextlib.suppress(OSError):
            sys.stdout.buffer.write(LENGTH.pack(len(text)) + text)
            sys.stdout.buffer.flush()
        await asyncio.sleep(BEAT_INTERVAL)


def follow_parent(on_end: Callable[[], None], *, render: Callable[[], bytes]) -> None:
    """Show the parent that this event loop is alive, and call `on_end` in it once the parent has ended or asks for it.

    render: returns the metrics for the parent.
    """
    supervision.spawn_forever("beat", lambda: beat(render))
    loop = asyncio.get_running_loop()

    def wait() -> None:
        with contextlib.suppress(OSError):
            sys.stdin.buffer.read(1)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(on_end)

    threading.Thread(target=wait, name="parent", daemon=True).start()
