"""The operator as a separate process with the shipped RBAC rules, observed from outside.

Imports nothing of Hearth, so that older versions can run.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import free_port

POLL = 0.05
START = 60.0
"""Maximum seconds for actions that take two on an idle machine."""
TICK = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A response of the operator's HTTP server; code 0: no response."""

    code: int
    text: str
    seconds: float

    @property
    def is_ok(self) -> bool:
        """Whether the response reports success."""
        return self.code == 200


@dataclass(slots=True)
class Silence:
    """The longest waits for responses of /healthz."""

    longest: float = 0.0
    """Seconds, to print. They include the time during which other processes had the processors."""
    longest_work: float = 0.0
    """The most CPU seconds that the operator used during one wait, to assert: a busy machine adds hardly anything."""


@dataclass(slots=True, kw_only=True)
class Operator:
    """One operator, which may be ended and started again."""

    checkout: Path
    """The checkout whose code runs."""
    kubeconfig: Path
    """A kubeconfig with a token of the operator's ServiceAccount."""
    log_file: Path
    """The log of all starts, as JSON lines."""
    options: tuple[str, ...] = ()
    program: tuple[str, ...] = (sys.executable, "-m", "hearth")
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    memory_limit: int = 0
    """Maximum bytes of address space; 0 for no limit. Takes effect at the next start."""
    _delays_before: float = 0.0
    """Seconds that earlier processes waited for a processor."""

    # ------------------------------------------------------------ its life

    def start(self, *, is_ready: bool = True) -> None:
        """Start it; waits until it is ready, unless requested otherwise."""
        assert not self.is_alive
        self.port = self.port or free_port.find_free_port()
        command = [*self.program, "run", "--kubeconfig", str(self.kubeconfig), *self.options]
        command += ["--operator-namespace=hearth-system", f"--http-address=127.0.0.1:{self.port}", "--log-format=json"]
        if self.memory_limit:
            command = ["prlimit", f"--as={self.memory_limit}", *command]
        environment = os.environ | {"PYTHONPATH": str(self.checkout / "operator")}
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        if is_ready:
            self.wait_ready()

    def wait_ready(self, within: float = START) -> None:
        """Wait until /readyz is ok. Raises AssertionError after the time limit."""
        latest = time.monotonic() + within
        while not self.get("/readyz").is_ok:
            assert self.is_alive, f"the operator ended with {self.code}:\n{self.read_log()[-3000:]}"
            assert time.monotonic() < latest, f"not ready: {self.get('/readyz').text}\n{self.read_log()[-3000:]}"
            time.sleep(POLL)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self.process is not None:
            self._delays_before += self._read_delays()
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=START)

    def restart(self, *options: str, is_ready: bool = True) -> None:
        """Kill and restart it. options: replace the current ones, which are kept by default."""
        self.kill()
        self.options = options or self.options
        self.start(is_ready=is_ready)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return None if self.process is None else self.process.poll()

    # ------------------------------------------------------------ its pages

    def get(self, path: str, *, timeout: float = 5.0) -> Page:
        """GET /healthz, /readyz or /metrics."""
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            code, text = answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            code, text = 0, repr(error)
        finally:
            connection.close()
        return Page(code=code, text=text, seconds=time.monotonic() - began)

    def read_metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over its samples with these labels; 0 without samples."""
        page = self.get("/metrics")
        assert page.is_ok, f"no metrics: {page.text}"
        found = [line for line in page.text.splitlines() if re.match(rf"{name}[ {{]", line)]
        found = [line for line in found if all(f'{key}="{value}"' in line for key, value in labels.items())]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    @contextlib.contextmanager
    def listened_to(self) -> Iterator[Silence]:
        """Request /healthz continuously within the block, and record the longest wait for a response."""
        seen, is_done = Silence(), threading.Event()

        def ask() -> None:
            while not is_done.wait(TICK):
                self._note_wait(seen)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            is_done.set()
            thread.join()

    def _note_wait(self, seen: Silence) -> None:
        process = self.process
        with contextlib.suppress(FileNotFoundError):  # between two starts
            before = self.cpu_seconds
            seen.longest = max(seen.longest, self.get("/healthz", timeout=60).seconds)
            if self.process is process:
                seen.longest_work = max(seen.longest_work, self.cpu_seconds - before)

    # ------------------------------------------------------------ its log

    def read_log(self) -> str:
        """The whole log of all its starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def read_events(self, text: str = "") -> list[dict[str, Any]]:
        """The JSON lines of its log which contain that text."""
        lines = [line for line in self.read_log().splitlines() if text in line and line.startswith("{")]
        return [json.loads(line) for line in lines]

    # ------------------------------------------------------------ its share of the machine

    @property
    def memory(self) -> float:
        """Current memory in MiB (VmRSS)."""
        return self._read_status("VmRSS")

    @property
    def peak(self) -> float:
        """Peak memory in MiB since its start or `forget_peak` (VmHWM)."""
        return self._read_status("VmHWM")

    def forget_peak(self) -> None:
        """Restart the measurement of `peak`."""
        self._find_file("clear_refs").write_text("5")

    @property
    def files(self) -> int:
        """Open file descriptors."""
        return len(list(self._find_file("fd").iterdir()))

    @property
    def cpu_seconds(self) -> float:
        """CPU time that it used since its start."""
        fields = self._find_file("stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def read_clock(self) -> float:
        """Monotonic time in seconds without the time during which other processes had the processors.

        The time on an idle machine, for limits that a busy one must not exceed.
        """
        return time.monotonic() - self._delays_before - self._read_delays()

    def _read_delays(self) -> float:
        """Seconds that the main thread was ready to run and had no processor."""
        if not self.is_alive:
            return 0.0
        return int(self._find_file("schedstat").read_text().split()[1]) / 1e9

    def _read_status(self, name: str) -> float:
        found = re.search(rf"{name}:\s+(\d+) kB", self._find_file("status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def _find_file(self, name: str) -> Path:
        assert self.process is not None
        return Path("/proc", str(self.process.pid), name)
