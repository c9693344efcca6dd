"""Runs the operator as a separate process behind a proxy that counts its writes, and kills it at one of them.

It uses only the command line and HTTP. The operator has no code for these tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from hearth.kube.auth.credentials import CredentialSource
from support import free_port
from support.real.fault_proxy import FaultProxy
from support.real.real_user import RealUser
from support.real.real_world import POLL, READY_TIMEOUT, TIMEOUT, Operator, RealWorld
from support.stories.world import Check

LULL = 10.0
"""Seconds without a write after which an expected state can no longer occur: longer than the intervals of probes and
retries in stories."""
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
NO_STATE = re.compile(r"/events\b|dryRun=All|/apis/authorization\.k8s\.io/")
"""Matches requests that do not change data that the operator depends on."""
KILLED = "killed"
REPEATED_REQUEST = re.compile(r"Request attempt #?\d+ failed; (will retry|escalating)")
"""The error that kopf logs, in any logger, for every failed or missing response."""


@dataclass(slots=True, eq=False)
class CountingProxy(FaultProxy):
    """Counts the writes that pass; kills the operator at one of them."""

    writes: int = 0
    fatal_write: int = 0
    """The index of the write that triggers `kill`; 0 for none."""
    is_kill_after: bool = False
    """Whether that write takes effect and its response is lost."""
    kill: Callable[[], None] = lambda: None
    on_write: Callable[[], None] = lambda: None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Count, kill, or pass on."""
        if request.method not in WRITES or NO_STATE.search(request.path_qs):
            return await FaultProxy.handle(self, request)
        self.writes += 1
        is_fatal = self.writes == self.fatal_write
        if is_fatal and not self.is_kill_after:
            self.kill()
            raise web.HTTPServiceUnavailable(text=KILLED)
        answer = await FaultProxy.handle(self, request)
        self.on_write()
        if is_fatal:
            self.kill()
            raise web.HTTPServiceUnavailable(text=KILLED)
        return answer


@dataclass(slots=True, kw_only=True)
class OperatorProcess:
    """One life of the operator as a process."""

    kubeconfig: Path
    namespace: str
    process: asyncio.subprocess.Process | None = None
    log_file: Path | None = None
    """The file for the JSON log, one object per line; None for no log."""
    max_backoff: str = "2s"
    operator_namespace: str = ""
    """The namespace of the operator's own objects; "" for the namespace that it serves."""
    options: tuple[str, ...] = ()
    """Additional flags."""
    port: int = 0
    """The port of its HTTP pages, set when it starts."""

    async def start(self) -> None:
        """Start the process; returns when it reports readiness, or has exited."""
        self.port = port = free_port.find_free_port()
        with (self.log_file or Path(os.devnull)).open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hearth", "run", "--kubeconfig", str(self.kubeconfig)),
                *(f"--namespace={self.namespace}", f"--operator-namespace={self.operator_namespace or self.namespace}"),
                *(("--serve-operator-namespace",) if self.operator_namespace in ("", self.namespace) else ()),
                *("--http-address", f"127.0.0.1:{port}", "--max-backoff", self.max_backoff, "--log-format", "json"),
                *self.options,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
            )
        async with asyncio.timeout(READY_TIMEOUT):
            while self.is_alive and not await asyncio.to_thread(is_ready, port):  # noqa: ASYNC110 -- a process has no event
                await asyncio.sleep(POLL)

    def find_complaints(self) -> list[str]:
        """The lines that its log must never contain: errors, and unintended output."""
        lines = self.log_file.read_text().splitlines() if self.log_file is not None else []
        return [line for line in lines if is_complaint(line)]

    def read_metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over all its samples with these labels; an empty one may be any. Blocks."""
        return sum_metric(self.read_metrics(), name, **labels)

    async def wait_metric(self, name: str, value: float) -> None:
        """Wait until a metric has that value; metrics of other clusters arrive every few seconds."""
        async with asyncio.timeout(TIMEOUT):
            while await asyncio.to_thread(self.read_metric, name) != value:  # noqa: ASYNC110 -- a process has no event
                await asyncio.sleep(POLL)

    def read_metrics(self) -> list[str]:
        """All samples of one moment, a line each. Blocks."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        return lines

    def read_memory(self) -> float:
        """Its memory use in MiB."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.returncode is None

    def end_at_once(self) -> None:
        """SIGKILL."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    async def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.end_at_once()
        if self.process is not None:
            await self.process.wait()


def sum_metric(samples: list[str], name: str, **labels: str) -> float:
    """The sum of a metric over the samples with these labels; an empty one may be any."""
    wanted = [f'{label}="{value}"' for label, value in labels.items() if value]
    found = [line for line in samples if re.match(rf"{name}[ {{]", line) and all(each in line for each in wanted)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def is_complaint(line: str) -> bool:
    """Whether a log line reports a fault of Hearth."""
    try:
        entry = json.loads(line)
    except ValueError:
        return bool(line.strip())
    if str(entry.get("logger")).startswith("kopf.") and REPEATED_REQUEST.match(str(entry.get("event"))):
        return False
    return entry.get("level") in {"error", "critical"} or "exception" in entry


def is_ready(port: int) -> bool:
    """Whether the operator reports that it converges."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def write_kubeconfig(path: Path, url: str) -> Path:
    """A kubeconfig without credentials, for a proxy that has its own."""
    named = {"name": "proxy"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {}}],
        "contexts": [{**named, "context": {"cluster": "proxy", "user": "proxy"}}],
        "current-context": "proxy",
    }
    path.write_text(json.dumps(content))
    return path


class ProcessWorld(RealWorld):
    """A real world whose operator is a process. When the proxy kills it, it is restarted."""

    timeout = TIMEOUT + READY_TIMEOUT
    """Includes the start of another process in between."""

    def __init__(self, user: RealUser, source: CredentialSource, proxy: CountingProxy, kubeconfig: Path) -> None:
        super().__init__(user, source)
        self._proxy = proxy
        self._kubeconfig = kubeconfig
        self._rising: asyncio.Task[None] | None = None
        self.deaths = 0
        proxy.kill = self._on_fatal_write
        proxy.on_write = self._on_write

    def make_operator(self) -> Operator:
        """As the base class says."""
        tenancy = (f"--tenancy={self.tenancy}",)
        return OperatorProcess(kubeconfig=self._kubeconfig, namespace=self.namespace, options=tenancy)

    async def close(self) -> None:
        """Stop everything that this world started."""
        if self._rising is not None:
            await self._rising
        await super().close()

    async def wait_until(self, check: Check) -> list[str]:
        """See the protocol; states that were missed while no operator ran are skipped."""
        begun = last = time.monotonic()
        seen = self.traffic.settled
        while wrong := await check():
            now = time.monotonic()
            is_rising = self._rising is not None and not self._rising.done()
            if is_rising or seen != self.traffic.settled:
                seen, last = self.traffic.settled, now
            if now > last + LULL or now > begun + self.timeout:
                break
            await asyncio.sleep(POLL)
        return wrong

    def _on_write(self) -> None:
        self.traffic.settled += 1

    def _on_fatal_write(self) -> None:
        """Kill the process now; the next one starts without a planned death."""
        self.deaths += 1
        operator = self._operator
        assert isinstance(operator, OperatorProcess)
        operator.end_at_once()
        self._rising = asyncio.create_task(self._rise(operator))

    async def _rise(self, dead: OperatorProcess) -> None:
        await dead.kill()
        self._operator = self.make_operator()
        await self._operator.start()
