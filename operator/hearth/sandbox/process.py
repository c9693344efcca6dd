"""Handle for one evaluator process: starts it, sends it expressions, and kills it if it exceeds its time.

Every failure of the process (exit, hang, invalid output) becomes a result or `Lost`. Commands that run without an
operator use one process with the operator's limits, plus a limit for all their expressions together.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

import hearth
from hearth.model import limits
from hearth.sandbox import frames
from hearth.template.cel import evaluation
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import Absent, Answer, Excess, Failure, PackedInputs, Unwritable, Value

COMMAND: Final = (sys.executable, "-P", "-m", "hearth.sandbox.worker")
START_SECONDS = 30.0
"""Maximum seconds from the start of a process until it accepts requests; usually 0.1."""
END_SECONDS = 2.0
"""Maximum seconds until a process exits after it closed its end of the pipe."""
CPU = Excess(f"took more than {limits.EVALUATOR_CPU:g} s of CPU")
MEMORY = Excess(f"took more than {limits.EVALUATOR_MEMORY // 2**20} MiB of memory")
TOO_LARGE = Excess(f"gives more than {limits.OBJECT_BYTES // 2**20} MiB")
ALL_SECONDS = 15.0
"""Total seconds for the expressions of one CLI command that the operator would evaluate in a separate process."""
TOO_LONG = Excess(f"is not evaluated here, because earlier expressions took {ALL_SECONDS:g} s in all")


class Lost(Exception):
    """The process did not respond; a retry may succeed. The message explains what happened, without values."""


class Process:
    """A process that evaluates one expression at a time."""

    def __init__(
        self, inner: asyncio.subprocess.Process, requests: asyncio.StreamWriter, replies: asyncio.StreamReader
    ) -> None:
        """requests: its standard input; replies: its standard output."""
        self._inner = inner
        self._requests = requests
        self._replies = replies
        self.is_usable = True
        """Whether the process can take another request."""

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._inner.pid

    async def ask(self, text: str, packed: bytes, language: bytes = frames.CEL) -> Answer:
        """Return the answer for the expression or script on inputs as JSON. Raises Lost if there is no answer."""
        self.is_usable = False
        try:
            async with asyncio.timeout(limits.EVALUATOR_WALL):
                self._requests.write(frames.write_request(text, packed, language))
                await self._requests.drain()
                letter, content = await self._read()
        except TimeoutError:
            raise Lost(f"returned no result within {limits.EVALUATOR_WALL:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            return await self._explain_end()
        answer = interpret(letter, content)
        # A process that ran out of memory may be in any state.
        self.is_usable = answer is not MEMORY
        return answer

    async def _read(self) -> tuple[bytes, bytes]:
        letter, length = frames.REPLY_HEADER.unpack(await self._replies.readexactly(frames.REPLY_HEADER.size))
        if length > limits.OBJECT_BYTES:
            raise Lost("returned a result that cannot be parsed")
        return letter, await self._replies.readexactly(length)

    async def _explain_end(self) -> Answer:
        try:
            # Wait for the exit: a process that is killed first does not reveal why it ended.
            async with asyncio.timeout(END_SECONDS):
                code = await self._inner.wait()
        except TimeoutError:
            code = await self.end()
        if code in (-signal.SIGPROF, -signal.SIGXCPU):
            return CPU
        raise Lost("crashed the process that evaluated it")

    async def wait_ready(self) -> None:
        """Wait until the process accepts requests. Raises Lost."""
        letter = b""
        with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(START_SECONDS):
                letter, _ = await self._read()
        if letter != frames.READY:
            raise Lost("cannot be evaluated because its sandbox process does not start")

    async def end(self) -> int:
        """Kill the process unless it has exited, and return its exit code."""
        self.is_usable = False
        with contextlib.suppress(ProcessLookupError):
            self._inner.kill()
        self._requests.close()
        return await self._inner.wait()


def interpret(letter: bytes, content: bytes) -> Answer:
    """Decode a reply. Raises Lost if it is invalid."""
    match letter:
        case frames.VALUE:
            return Value(content)
        case frames.FAILURE:
            return Failure(content.decode(errors="replace"))
        case frames.ABSENT:
            return Absent(tuple(content.decode(errors="replace").split("\n")))
        case frames.UNWRITABLE:
            return Unwritable(content.decode(errors="replace"))
        case frames.TOO_LARGE:
            return TOO_LARGE
        case frames.NO_MEMORY:
            return MEMORY
    raise Lost("returned a result that cannot be parsed")


async def start(command: Sequence[str] = COMMAND) -> Process:
    """Start a process. It inherits no environment, no descriptor and no terminal. Raises Lost."""
    try:
        inner = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PYTHONPATH": find_import_path(), "LC_ALL": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
            close_fds=True,
        )
    except OSError as error:
        raise Lost(f"cannot be evaluated because no sandbox process can be started ({error.strerror})") from None
    assert inner.stdin is not None and inner.stdout is not None  # noqa: S101, PT018 -- tells the type checker
    made = Process(inner, inner.stdin, inner.stdout)
    try:
        await made.wait_ready()
    except BaseException:
        await made.end()
        raise
    return made


def find_import_path() -> str:
    """Return the folders from which Python imports this package and its dependencies."""
    folder = Path(hearth.__file__).parent.parent
    return os.pathsep.join([str(folder), *(path for path in sys.path if path.endswith("site-packages"))])


Start: TypeAlias = Callable[[], Awaitable[Process]]


class OfflineEvaluator(evaluation.Untimed):
    """Evaluates the expressions of one command without an operator, one after the other. Blocks its caller."""

    def __init__(self, *, start: Start = start, now: Callable[[], float] = time.monotonic) -> None:
        """Start no process before it is needed. now: monotonic seconds."""
        self._start = start
        self._now = now
        self._left = ALL_SECONDS
        self._process: Process | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def admits(self, cost: Cost) -> bool:
        """Return whether an expression of that cost needs no process, as in the operator."""
        return evaluation.is_small(cost)

    def ask(self, text: str, data: Mapping[str, Any] | PackedInputs) -> Answer:
        """Return the answer of the process."""
        if self._left <= 0:
            return TOO_LONG
        language = frames.PACKED if isinstance(data, PackedInputs) else frames.CEL
        try:
            packed = data.write() if isinstance(data, PackedInputs) else orjson.dumps(data)
        except TypeError:
            return Unwritable("reads a value that JSON cannot represent")
        if isinstance(data, PackedInputs) and data.size > limits.LIST_READ_BYTES:
            return Excess(data.explain_excess())
        if len(packed) > limits.EVALUATOR_INPUT_BYTES:
            return Excess(f"reads more than {limits.EVALUATOR_INPUT_BYTES // 2**20} MiB")
        began = self._now()
        try:
            return asyncio.run_coroutine_threadsafe(self._evaluate(text, packed, language), self._find_loop()).result()
        finally:
            self._left -= self._now() - began

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        """Return a loop in a thread of its own: the caller may be within one, and must not return to it meanwhile."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="evaluations", daemon=True).start()
        return self._loop

    async def _evaluate(self, text: str, packed: bytes, language: bytes) -> Answer:
        try:
            if self._process is None or not self._process.is_usable:
                await self._end()
                self._process = await self._start()
            return await self._process.ask(text, packed, language)
        except Lost as lost:
            return Excess(str(lost))

    async def _end(self) -> None:
        worker, self._process = self._process, None
        if worker is not None:
            await worker.end()

    def close(self) -> None:
        """End the process."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None
