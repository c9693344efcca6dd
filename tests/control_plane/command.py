"""Run a command as if the shell had started it: its signals, its exit code, and the kubeconfig in its environment."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import FrameType

import progress

# The tests read the second variable. It marks a cluster that may be filled and emptied freely, while KUBECONFIG may
# point to any cluster.
VARIABLES = ("KUBECONFIG", "HEARTH_TEST_KUBECONFIG")


def run(command: list[str], *, kubeconfig: Path) -> int:
    """The exit code of the command, by the shell's convention when a signal ended it."""
    command = parse(command)
    try:
        process = subprocess.Popen(command, env=os.environ | dict.fromkeys(VARIABLES, str(kubeconfig)))
    except OSError as error:
        raise progress.Impossible(f"cannot run {command[0]}: {error.strerror}") from error
    _pass_on_signals(process)
    code = process.wait()
    return code if code >= 0 else 128 - code


def parse(words: list[str]) -> list[str]:
    """The command that the words name."""
    command = without_dashes(words)
    if not command:
        raise progress.Impossible("no command given; write it after `--`: controlplane.py with -- pytest")
    return command


def without_dashes(words: list[str]) -> list[str]:
    """Return the words after a leading `--`, if there is one."""
    return words[1:] if words[:1] == ["--"] else words


def _pass_on_signals(process: subprocess.Popen[bytes]) -> None:
    """The command decides how to handle a signal; we wait until it has exited."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        # The terminal already sends Ctrl-C to the command; a second signal would mean "hurry".
        if number != signal.SIGINT or not _is_in_foreground():
            process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)


def _is_in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)
