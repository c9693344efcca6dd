"""A real Kubernetes control plane on this machine, without Docker and without a virtual environment.

    python3 tests/control_plane/controlplane.py up          start it, or find that it runs
    python3 tests/control_plane/controlplane.py with -- C…  run a command on it, and end it afterwards if it was not running
    python3 tests/control_plane/controlplane.py --help      the rest

This module handles the command line and decides who stops the control plane; other modules here build and start it.
Needs only the standard library, and imports nothing of Hearth.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import binaries
import command
import locks
import places
import plane
import progress

RUNNING, NOT_RUNNING, IMPOSSIBLE = 0, 1, 2


def main() -> int:
    """Run the command line; returns the exit code."""
    arguments = _parser().parse_args()
    for unpleasant in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(unpleasant, _leave)
    try:
        code: int = arguments.action(places.Home(arguments.name), arguments)
    except progress.Impossible as error:
        progress.say(f"error: {error}")
        return IMPOSSIBLE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return code


def up(home: places.Home, arguments: argparse.Namespace) -> int:
    """Start the control plane permanently, or keep a running one."""
    programs = binaries.ensure()
    with _alone(home):
        start = _ensure(home, _find_start(programs, arguments, kept=True))
        if not start.kept:
            plane.remember(home, replace(start, kept=True))
    progress.say(f"kubeconfig: {home.kubeconfig}")
    return RUNNING


def down(home: places.Home, arguments: argparse.Namespace) -> int:
    """Stop the control plane that `up` started. Succeeds if none is running."""
    with _alone(home):
        existed = bool(plane.find_processes(home))
        plane.delete(home)
    progress.say(f"the control plane {home.name} {'is ended' if existed else 'was not running'}")
    return RUNNING


def status(home: places.Home, arguments: argparse.Namespace) -> int:
    """Print whether the control plane runs, and its paths."""
    start = plane.find(home)
    if start is None:
        missing = plane.missing_components(home)
        print(f"{home.name}: not running" if missing == plane.COMPONENTS else f"{home.name}: incomplete or not ready")
        return NOT_RUNNING
    lines = (
        f"{home.name}: running",
        f"  kubeconfig  {home.kubeconfig}",
        f"  kubectl     {start.binaries}/kubectl",
        f"  throttling  {'on' if start.limited else 'off'}",
        f"  logs        {home.workdir}/clusters/{home.name}/logs",
        f"  stays up    {'until `down`' if start.kept else 'while a command uses it'}",
    )
    print("\n".join(lines))
    return RUNNING


def kubeconfig(home: places.Home, arguments: argparse.Namespace) -> int:
    """Print the path of the kubeconfig, whether or not the control plane runs."""
    print(home.kubeconfig)
    return RUNNING


def kubectl(home: places.Home, arguments: argparse.Namespace) -> NoReturn:
    """Become kubectl on the control plane."""
    program = str(binaries.ensure() / "kubectl")
    os.execv(program, [program, f"--kubeconfig={home.kubeconfig}", *command.without_dashes(arguments.command)])


def kwokctl(home: places.Home, arguments: argparse.Namespace) -> NoReturn:
    """Become kwokctl on the control plane: `stop component kube-apiserver`, `snapshot save`."""
    programs = binaries.ensure()
    program = str(programs / "kwokctl")
    words = [f"--name={home.name}", *command.without_dashes(arguments.command)]
    os.execve(program, [program, *words], plane.environment(home, str(programs)))


def build(home: places.Home, arguments: argparse.Namespace) -> int:
    """Only build the programs."""
    print(binaries.ensure())
    return RUNNING


def with_(home: places.Home, arguments: argparse.Namespace) -> int:
    """Run a command on the control plane; returns its exit code.

    A control plane started by this call is stopped when the last command that uses it has finished, unless `up` was
    called meanwhile. One that was already running keeps running.
    """
    words = command.parse(arguments.command)
    programs = binaries.ensure()
    users = locks.Attendance(home.users)
    try:
        with _alone(home):
            _ensure(home, _find_start(programs, arguments, kept=False))
            users.enter()
        return command.run(words, kubeconfig=home.kubeconfig)
    finally:
        with _undisturbed(), _alone(home):
            if users.leave() and plane.is_to_be_ended(home):
                plane.delete(home)
                if not arguments.quiet:
                    progress.say(f"the control plane {home.name} is ended")


def _find_start(programs: Path, arguments: argparse.Namespace, *, kept: bool) -> plane.Start:
    """Return the settings that the command line asks for."""
    return plane.Start(
        binaries=str(programs),
        limited=arguments.qps_limits,
        kept=kept,
        audited=arguments.audit,
        authentication=arguments.authentication_config,
    )


def _ensure(home: places.Home, start: plane.Start) -> plane.Start:
    """Return how the control plane was started.

    Start it if it is not running, or runs other versions of the programs.
    """
    found = plane.find(home)
    if found is not None and found.binaries == start.binaries:
        if found.limited != start.limited:
            raise progress.Impossible(_other_limits(home, limited=found.limited))
        if start.authentication and start.authentication != found.authentication:
            raise progress.Impossible(
                f"the control plane {home.name} is already up, with other trusted issuers; end it first (`down`)"
            )
        if start.audited and not found.audited:
            raise progress.Impossible(
                f"the control plane {home.name} is already up, without an audit log; end it first (`down`)"
            )
        progress.say(f"the control plane {home.name} is already up")
        return found
    began = time.monotonic()
    progress.say(f"starting the control plane {home.name}")
    plane.create(home, start)
    progress.say(f"  up after {time.monotonic() - began:.1f} s")
    return start


def _other_limits(home: places.Home, *, limited: bool) -> str:
    return (
        f"the control plane {home.name} is already up, with throttling {'on' if limited else 'off'}; "
        "end it first (`down`), or take another one (`--name`)"
    )


@contextlib.contextmanager
def _alone(home: places.Home) -> Iterator[None]:
    waiting = f"another client starts or ends the control plane {home.name}: waiting"
    with locks.only_one(home.lock, when_waiting=lambda: progress.say(waiting)):
        yield


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C during the shutdown, which would leave processes behind permanently."""
    for unpleasant in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(unpleasant, signal.SIG_IGN)
    yield


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="controlplane.py",
        description="A real Kubernetes control plane on this machine, for tests and a first look.",
    )
    parser.add_argument("--name", default="hearth", help="which control plane; several may be up (default: hearth)")
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    limits = _option("--qps-limits", action="store_true", help="leave priority and fairness on: it answers 429")
    audit = _option("--audit", action="store_true", help="let the API server log all requests")
    issuers = _option(
        "--authentication-config",
        default="",
        metavar="FILE",
        help="AuthenticationConfiguration of the API server: the issuers of tokens that it trusts",
    )
    quiet = _option("--quiet", action="store_true", help="let the command have the last word")
    rest = _option("command", nargs=argparse.REMAINDER, help="after `--`")
    for word, action, parents, sentence in (
        ("up", up, [limits, audit, issuers], "start it, or find that it runs; it stays up until `down`"),
        ("down", down, [], "end it, and remove what it kept"),
        ("status", status, [], "say whether it runs; the exit code is 1 if it does not"),
        ("kubeconfig", kubeconfig, [], "print the path of its kubeconfig, whether or not it runs"),
        ("build", build, [], "only build the programs, and print where they are"),
        (
            "with",
            with_,
            [limits, audit, issuers, quiet, rest],
            "run a command on it; KUBECONFIG and HEARTH_TEST_KUBECONFIG name it",
        ),
        ("kubectl", kubectl, [rest], "run kubectl on it"),
        ("kwokctl", kwokctl, [rest], "run kwokctl on it, e.g. to stop a component"),
    ):
        actions.add_parser(word, parents=parents, help=sentence, description=sentence).set_defaults(action=action)
    return parser


def _option(word: str, **meaning: Any) -> argparse.ArgumentParser:
    """An option that several commands share."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(word, **meaning)
    return shared


if __name__ == "__main__":
    sys.exit(main())
