"""Main program of an evaluator process: reads expressions and inputs from stdin, and writes results to stdout.

The operator starts it as `python -m hearth.sandbox.worker`. The process limits itself. A timer signal ends it when an
expression takes too much CPU time; the memory limit applies to all expressions together. It has no credentials, no
environment variables and no open files except the two pipes.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from hearth.model import limits
from hearth.sandbox import frames
from hearth.template.cel import cel_values, evaluation, expressions
from hearth.template.cel.cel_environment import Library

NICENESS = 10
"""Niceness of the process, so that the operator and its watches run first."""
MESSAGE_BYTES = 4096
"""Maximum bytes of an error message, which may quote a value."""


def main() -> None:
    """Serve requests until the standard input closes."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    # Load the environment before the memory limit is set, and outside the time limit of the first expression.
    expressions.find_environment(Library.FULL)
    confine()
    replies.write(frames.write_reply(frames.READY, b""))
    replies.flush()
    while (request := read_request(requests)) is not None:
        letter, content = answer(*request)
        replies.write(frames.write_reply(letter, content))
        replies.flush()


def confine() -> None:
    """Limit this process's resources, and make the kernel kill it first when memory is short."""
    os.nice(NICENESS)
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(kind, (0, 0))
    most, inherited = find_address_space() + limits.EVALUATOR_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]
    if inherited == resource.RLIM_INFINITY or most < inherited:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    try:
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    except OSError:
        # The system does not support or allow it. The memory limit above still applies.
        return


def find_address_space() -> int:
    """Return the bytes of address space that this process uses."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    return int(pages) * resource.getpagesize()


def read_request(requests: BinaryIO) -> tuple[bytes, str, bytes] | None:
    """Read the next language, text and inputs; None at the end of the input."""
    head = requests.read(frames.HEADER.size)
    if len(head) < frames.HEADER.size:
        return None
    language, length, rest = frames.HEADER.unpack(head)
    return language, requests.read(length).decode(errors="surrogatepass"), requests.read(rest)


def answer(language: bytes, text: str, packed: bytes) -> tuple[bytes, bytes]:
    """Return the reply: its letter and its content."""
    signal.setitimer(signal.ITIMER_PROF, limits.EVALUATOR_CPU)
    try:
        match language:
            case frames.LUA:
                return judge(text, orjson.loads(packed))
            case frames.PACKED:
                return evaluate(text, *evaluation.read_inputs(packed))
        return evaluate(text, orjson.loads(packed))
    except MemoryError:
        return frames.NO_MEMORY, b""
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def evaluate(text: str, data: Mapping[str, Any], names: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    """Evaluate without limits. names: the inputs that are objects, of which missing values are named."""
    parsed = expressions.parse(text)
    found = expressions.run(parsed, data)
    if isinstance(found, expressions.Failed):
        if names and (missing := expressions.find_missing(parsed, names, data)):
            return frames.ABSENT, "\n".join(missing).encode(errors="replace")[:MESSAGE_BYTES]
        return frames.FAILURE, found.message.encode(errors="replace")[:MESSAGE_BYTES]
    try:
        content = orjson.dumps(cel_values.convert(found))
    except cel_values.UnrepresentableValue as error:
        return frames.UNWRITABLE, str(error).encode(errors="replace")[:MESSAGE_BYTES]
    except (TypeError, RecursionError):
        return frames.UNWRITABLE, expressions.UNWRITABLE.encode()
    return (frames.VALUE, content) if len(content) <= limits.OBJECT_BYTES else (frames.TOO_LARGE, b"")


def judge(text: str, data: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the result of a health script: a list of its status and message, or null."""
    # Import it here, because most processes never need Lua, which takes memory.
    from hearth.sandbox import lua_scripts

    try:
        return frames.VALUE, orjson.dumps(lua_scripts.get_runtime().judge(text, data))
    except lua_scripts.ScriptFailure as failure:
        return frames.FAILURE, str(failure).encode(errors="replace")[:MESSAGE_BYTES]


if __name__ == "__main__":
    main()
