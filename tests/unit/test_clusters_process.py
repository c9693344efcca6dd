"""The process for other clusters, as its parent sees it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hearth import clusters_process
from hearth.clusters_process import ClustersProcess
from hearth.model.sharding import Place
from hearth.settings import Settings

RECEIVE = """
import os, struct, sys, time
from hearth import clusters_process
settings = clusters_process.receive(sys.stdin.buffer)
def say(text):
    sys.stdout.buffer.write(struct.pack(">I", len(text)) + text); sys.stdout.buffer.flush()
"""
PATIENCE = 60.0


def command(body: str) -> tuple[str, ...]:
    return (sys.executable, "-c", RECEIVE + body)


@asynccontextmanager
async def running(
    body: str, settings: Settings | None = None, **options: float
) -> AsyncIterator[tuple[ClustersProcess, asyncio.Queue[str]]]:
    """A process that runs `body` for one Stack."""
    ends: asyncio.Queue[str] = asyncio.Queue()
    process = ClustersProcess(settings or Settings(), on_end=ends.put_nowait, command=command(body), **options)
    process.start(lambda: 1)
    process.note_stack()
    try:
        async with asyncio.timeout(PATIENCE):
            yield process, ends
    finally:
        await process.stop()


def test_it_serves_what_its_parent_does_not() -> None:
    settings = clusters_process.make_settings(replace(Settings(leader_election=True), namespace="shop"))

    assert (settings.share.place, settings.leader_election, settings.namespace) == (Place.ELSEWHERE, False, "shop")


async def test_without_a_stack_there_is_no_process() -> None:
    process = ClustersProcess(Settings(), command=("/nowhere",))
    process.start(lambda: 0)
    process.note_stack()
    await asyncio.sleep(0)

    assert process.metrics == b""
    await process.stop()


async def test_its_metrics_arrive() -> None:
    async with running("say(settings.share.place.value.encode()); say(b''); sys.stdin.read()") as (process, _):
        while process.metrics != b"elsewhere":  # noqa: ASYNC110 -- another process has no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param("sys.exit(7)", "exit code 7", id="ends"),
        pytest.param("os.kill(os.getpid(), 9)", "exit code -9", id="is killed"),
        pytest.param("sys.stdout.buffer.write(struct.pack('>I', 2**31)); sys.stdout.flush(); sys.stdin.read()", "it sent too much", id="floods"),
        pytest.param("say(b''); held = bytearray(200 * 2**20); held[::4096] = b'x' * len(held[::4096]); sys.stdin.read()", "MiB of memory", id="takes too much memory"),
    ],
)  # fmt: skip
async def test_a_process_that_fails_is_replaced(body: str, reason: str) -> None:
    async with running(body, replace(Settings(), clusters_memory=128)) as (_, ends):
        assert reason in await ends.get()
        assert reason in await ends.get()


THREADS = """
import ctypes, threading
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
begun, ended = threading.Barrier(33), threading.Event()
def work():
    library.malloc(1000)
    begun.wait()
    ended.wait()
for _ in range(32):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
mapped = next(line for line in open("/proc/self/status") if line.startswith("VmSize"))
say(mapped.encode())
time.sleep(60)
"""
THREAD_MIB = 32 * 8
"""The memory that the stacks of that many threads map."""


async def test_threads_that_wait_do_not_use_up_its_memory() -> None:
    async with running(THREADS) as (process, _):
        while not process.metrics:  # noqa: ASYNC110 -- of another process
            await asyncio.sleep(0.05)
        mapped = int(process.metrics.split()[1]) // 1024

    assert mapped < THREAD_MIB + 400


async def test_a_process_that_hangs_is_replaced() -> None:
    async with running("say(b''); time.sleep(1000)", silent_after=3.0) as (_, ends):
        assert "hung" in await ends.get()
