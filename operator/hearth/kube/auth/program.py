"""Runs a program of the administrator's for what it writes: for a limited time, and a limited number of bytes.

Blocks until it ends or is killed. Must not know what the answer means.
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
from dataclasses import dataclass, field

from hearth.model import limits

PIECE = 64 * 1024
COMPLAINT_LENGTH = 200
"""Characters of what a program complains of that a message shows."""
SECRETS = re.compile(r"(?i)(?:(?:token|secret|password|key|bearer)\S*\s*[=:]?\s+\S+|\S+=\S+|[\w+/=.~-]{24,})")
"""What may be a secret: a word behind one that announces it, an assignment, or a long word without gaps."""


class Stopped(Exception):
    """A program was killed; the message goes on after its name."""


@dataclass(frozen=True, slots=True)
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
    """What it wrote. Raises Stopped, or OSError where it cannot be run.

    is_interactive: whether it talks to somebody at the terminal, who may take any time; seconds: that it may take otherwise.
    """
    with subprocess.Popen(
        command,
        stdin=None if is_interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if is_interactive else subprocess.PIPE,
        env=environ,
        # What it starts itself ends with it; at a terminal it must stay in the group that may read there.
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
    """All that it writes until it ends. Raises Stopped or TimeoutExpired."""
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
    """Those of the pipes from which something can be read, or which are closed. Raises TimeoutExpired."""
    ready, _, _ = select.select(pipes, (), (), find_left(until))
    if not ready:
        raise subprocess.TimeoutExpired((), 0.0)
    return ready


def find_left(until: float | None) -> float | None:
    """Seconds until that moment; None where there is no limit."""
    return None if until is None else max(0.0, until - time.monotonic())


def kill(process: subprocess.Popen[bytes], *, has_group: bool) -> None:
    """End it, and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if has_group:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def describe(complaint: bytes) -> str:
    """The last line of what a program complained of, without what may be a secret."""
    lines = complaint[-PIECE:].decode(errors="replace").strip().splitlines()
    if not lines:
        return "it said nothing"
    said = "".join(character if character.isprintable() else " " for character in lines[-1].strip())
    shown = SECRETS.sub("(hidden)", said)
    return shown if len(shown) <= COMPLAINT_LENGTH else f"{shown[: COMPLAINT_LENGTH - 1]}…"
