"""Run of a program that the administrator configured, with limits on its time and its output bytes.

Blocks until the program ends or is killed. Must not know what the output means.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from hearth.model import limits, value_class

PIECE = 64 * 1024
COMPLAINT_LENGTH = 200
"""Maximum characters of a program's error output in a message."""
SECRETS = re.compile(r"(?i)(?:(?:token|secret|password|key|bearer)\S*\s*[=:]?\s+\S+|\S+=\S+|[\w+/=.~-]{24,})")
"""Possible secrets: a word after one that announces a secret, an assignment, or a long word without spaces."""


class Stopped(Exception):
    """Error for a program that was killed; the message continues after the program's name."""


@value_class.dataclass(frozen=True, slots=True)
class Done:
    """A program that ended."""

    code: int
    answer: bytes = field(repr=False)
    complaint: bytes = field(repr=False)


def run(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    is_interactive: bool,
    seconds: float = limits.PLUGIN_SECONDS,
) -> Done:
    """Run the program and return its output. Raises Stopped, or OSError if it cannot start.

    is_interactive: whether it communicates with the user at the terminal, without a time limit; seconds: the time limit
    otherwise.
    """
    with subprocess.Popen(
        command,
        stdin=None if is_interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if is_interactive else subprocess.PIPE,
        env=environ,
        # The program's own children end with it. At a terminal, it must stay in the group that may read there.
        start_new_session=not is_interactive,
    ) as process:
        try:
            answer, complaint = read(process, seconds=None if is_interactive else seconds)
        except subprocess.TimeoutExpired as error:
            kill(process, has_group=not is_interactive)
            raise Stopped(
                f"did not end within {seconds:g} seconds and was killed; run it by hand to see why"
            ) from error
        except BaseException:
            kill(process, has_group=not is_interactive)
            raise
    return Done(process.returncode, answer, complaint)


def read(process: subprocess.Popen[bytes], *, seconds: float | None) -> tuple[bytes, bytes]:
    """Read all output until the program ends. Raises Stopped or TimeoutExpired."""
    until = None if seconds is None else time.monotonic() + seconds
    pipes = [pipe.fileno() for pipe in (process.stdout, process.stderr) if pipe is not None]
    written = {pipe: bytearray() for pipe in pipes}
    open_pipes = set(pipes)
    while open_pipes:
        for pipe in wait_readable(open_pipes, until):
            piece = os.read(pipe, PIECE)
            written[pipe] += piece
            if not piece:
                open_pipes.discard(pipe)
        if sum(map(len, written.values())) > limits.PLUGIN_BYTES:
            raise Stopped(f"wrote more than {limits.PLUGIN_BYTES} bytes and was killed; it must write one credential")
    process.wait(find_left(until))
    answer, *complaint = (bytes(each) for each in written.values())
    return answer, complaint[0] if complaint else b""


def wait_readable(pipes: Collection[int], until: float | None) -> Sequence[int]:
    """Return the pipes that are readable or closed. Raises TimeoutExpired."""
    ready, _, _ = select.select(pipes, (), (), find_left(until))
    if not ready:
        raise subprocess.TimeoutExpired((), 0.0)
    return ready


def find_left(until: float | None) -> float | None:
    """Return the seconds until this moment; None if there is no limit."""
    return None if until is None else max(0.0, until - time.monotonic())


def kill(process: subprocess.Popen[bytes], *, has_group: bool) -> None:
    """Kill the program and the processes that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if has_group:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def describe(complaint: bytes) -> str:
    """Return the last line of a program's error output, without possible secrets."""
    lines = complaint[-PIECE:].decode(errors="replace").strip().splitlines()
    if not lines:
        return "it wrote no output"
    said = "".join(character if character.isprintable() else " " for character in lines[-1].strip())
    shown = SECRETS.sub("(hidden)", said)
    return shown if len(shown) <= COMPLAINT_LENGTH else f"{shown[: COMPLAINT_LENGTH - 1]}…"
