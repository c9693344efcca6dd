"""One evaluator process as the operator sees it: started, asked, and killed where it exceeds its time.

Each of its failures (exit, hang, invalid output) becomes a result or `Lost`. Must not know the callers or their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import hearth
from hearth.model import limits
from hearth.sandbox import frames
from hearth.template.cel.evaluation import Answer, Excess, Failure, Unwritable, Value

COMMAND: Final = (sys.executable, "-m", "hearth.sandbox.worker")
START_SECONDS = 30.0
"""Until a process that was started must take requests; usually 0.1."""
END_SECONDS = 2.0
"""For a process that closed its end of the pipe."""
CPU = Excess(f"took more than {limits.EVALUATOR_CPU:g} s of CPU")
MEMORY = Excess(f"took more than {limits.EVALUATOR_MEMORY // 2**20} MiB of memory")
TOO_LARGE = Excess(f"gives more than {limits.OBJECT_BYTES // 2**20} MiB")


class Lost(Exception):
    """No response from the process; a retry may succeed. The message says what happened, without values."""


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
        """Its id."""
        return self._inner.pid

    async def ask(self, text: str, packed: bytes, language: bytes = frames.CEL) -> Answer:
        """Return the answer for the expression or script on inputs as JSON. Raises Lost if none comes."""
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
        # Whose memory was used up may be left in any state.
        self.is_usable = answer is not MEMORY
        return answer

    async def _read(self) -> tuple[bytes, bytes]:
        letter, length = frames.REPLY_HEADER.unpack(await self._replies.readexactly(frames.REPLY_HEADER.size))
        if length > limits.OBJECT_BYTES:
            raise Lost("returned a result that cannot be parsed")
        return letter, await self._replies.readexactly(length)

    async def _explain_end(self) -> Answer:
        try:
            # Killed while it ends by itself, it would not tell why it ended.
            async with asyncio.timeout(END_SECONDS):
                code = await self._inner.wait()
        except TimeoutError:
            code = await self.end()
        if code in (-signal.SIGPROF, -signal.SIGXCPU):
            return CPU
        raise Lost("crashed the process that evaluated it")

    async def wait_ready(self) -> None:
        """Wait until it takes requests. Raises Lost."""
        try:
            async with asyncio.timeout(START_SECONDS):
                letter, _ = await self._read()
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            raise Lost("cannot be evaluated because its sandbox process does not start") from None
        if letter != frames.READY:
            raise Lost("cannot be evaluated because its sandbox process does not start")

    async def end(self) -> int:
        """Kill it, unless it has ended; its return code."""
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
    """Return the folders where Python finds this package and its dependencies."""
    folder = Path(hearth.__file__).parent.parent
    return os.pathsep.join([str(folder), *(path for path in sys.path if path.endswith("site-packages"))])
