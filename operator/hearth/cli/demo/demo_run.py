"""Runs the demo from start to finish.

Each step prints what it does. Everything that was started is stopped in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from hearth.cli.demo import demo_cluster, operator_process
from hearth.cli.demo.demo_cluster import Cluster
from hearth.cli.demo.operator_process import Operator
from hearth.cli.stack_commands.terminal_output import ViewOutput
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.stack_view import StackView
from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import errors, value_class
from hearth.model.child import Object
from hearth.model.well_known_kinds import STACK

LOOK: Final = 0.25
"""Seconds between two snapshots. Shorter changes are not visible."""
PLUGIN: Final = "kubectl-stack"
"""The program that kubectl runs for `kubectl stack`. It is installed next to Python."""
READY, NOT_READY, INTERRUPTED = 0, 1, 130


class DemoFailed(errors.HearthError):
    """The demo cannot continue. The message has the reason and the next step."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demo."""

    kubeconfig: str
    stack: Object
    timeout: timedelta
    kubectl: str | None
    """The kubectl to suggest if PATH has none."""

    is_namespaced: bool
    """Whether the operator serves only the Stack's namespace."""

    @property
    def serves(self) -> str | None:
        """Return the only namespace that the operator serves; None for all."""
        return self.namespace if self.is_namespaced else None

    @property
    def name(self) -> str:
        """Return the name of the Stack."""
        return str(self.stack["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Return the namespace of the Stack."""
        return str(self.stack["metadata"]["namespace"])


async def run_demo(options: DemoOptions, output: ViewOutput) -> int:
    """Run everything in reading order; return the exit code."""
    source = credentials.find_source(kubeconfig=options.kubeconfig, context=None, environ=os.environ)
    stopping = catch_signals()
    async with Connection(source) as connection:
        cluster = Cluster(connection)
        output.print_lines(["installing the CustomResourceDefinitions"])
        await cluster.install()
        server = connection.credentials.server
        async with (
            demo_cluster.serving_webhook(connection, server=server, namespace=options.serves) as flags,
            operator_process.run_operator(options.kubeconfig, namespace=options.serves, options=flags) as operator,
        ):
            output.print_lines([f"starting the operator; its log: {operator.log}"])
            watch = StackWatcher(cluster=cluster, output=output, operator=operator, stopping=stopping, options=options)
            code = await play(watch)
            output.print_lines(["stopping the operator"])
        if await cluster.find_stack(options.namespace, options.name) is not None:
            output.print_lines(
                [f"stack/{options.name} and its objects are kept in the cluster; the next run uses them"]
            )
    return code


async def play(watch: StackWatcher) -> int:
    """Run the part of the demo that needs the operator; return the exit code."""
    plan = watch.options
    if not await watch.wait_operator():
        return INTERRUPTED
    await leave_earlier(watch)
    watch.output.print_lines([f"applying stack/{plan.name} in namespace {plan.namespace}"])
    await watch.cluster.apply(plan.stack, kind=STACK)
    reached = await watch.until(lambda seen: seen.is_ready, seconds=plan.timeout.total_seconds())
    if reached is None and watch.stopping.is_set():
        return INTERRUPTED
    if reached is None:
        raise DemoFailed(await watch.explain())
    watch.output.print_lines([f"Ready after {watch.seconds:.1f} s"])
    watch.was_ready = True
    if watch.output.stays:
        await stay(watch, reached)
    else:
        watch.output.print_lines(f"  {name}: {value}" for name, value in reached.outputs)
    return READY


@dataclass(slots=True, kw_only=True)
class StackWatcher:
    """Polls one Stack and shows it."""

    cluster: Cluster
    output: ViewOutput
    operator: Operator
    stopping: asyncio.Event
    options: DemoOptions
    began: float = 0.0
    was_ready: bool = False
    _phase: str = ""
    _phase_began: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the seconds since the current wait started."""
        return time.monotonic() - self.began

    async def wait_operator(self) -> bool:
        """Wait until the operator is ready; return False if stopped before."""
        while not await self.operator.is_ready():
            self._check_operator()
            if await self._pause():
                return False
        return True

    async def until(
        self, is_reached: Callable[[StackView], bool], *, seconds: float = float("inf")
    ) -> StackView | None:
        """Return the first view that satisfies `is_reached`, or None at the time limit.

        seconds: time limit; shorter if the user stops the demo.
        """
        self.began = time.monotonic()
        while True:
            seen = await self.refresh()
            self.output.show(seen, seconds=self._count(seen))
            if is_reached(seen):
                return seen
            self._check_operator()
            if self.seconds > seconds or await self._pause():
                return None

    async def refresh(self) -> StackView:
        """Read and show the Stack; return its view."""
        snapshot = await self.cluster.take_snapshot(self.options.namespace, self.options.name)
        if snapshot is None:
            return StackView(name=self.options.name, namespace=self.options.namespace, exists=False)
        return stack_view.describe(snapshot)

    async def explain(self) -> str:
        """Explain why the Stack was not ready in time."""
        limit, seen = self.options.timeout.total_seconds(), await self.refresh()
        reason = seen.message if seen.exists else "it is deleted"
        return f"stack/{seen.name} is not Ready after {limit:.0f} s: {reason}; the operator's log: {self.operator.log}"

    def _count(self, seen: StackView) -> float:
        """Return the seconds to show: since the wait started, and after the first Ready since the current phase
        started.
        """
        now = time.monotonic()
        if seen.phase != self._phase:
            self._phase, self._phase_began = seen.phase, now
        return now - (self._phase_began if self.was_ready else self.began)

    def _check_operator(self) -> None:
        if self.operator.is_refused:
            lines = [
                (
                    "another operator is already running on this cluster; apply the example with kubectl, or stop that "
                    "operator:"
                ),
                *self.operator.read_end_of_log(),
            ]
            raise DemoFailed("\n".join(lines))
        if self.operator.has_ended:
            lines = ["the operator exited unexpectedly; its last lines:", *self.operator.read_end_of_log()]
            raise DemoFailed("\n".join(lines))

    async def _pause(self) -> bool:
        """Wait until the next snapshot is due; return True if stopped before."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), LOOK)
        return self.stopping.is_set()


async def leave_earlier(watch: StackWatcher) -> None:
    """Wait for the removal of a Stack that was deleted while no operator ran. Only then can it be recreated."""
    found = await watch.cluster.find_stack(watch.options.namespace, watch.options.name)
    if found is not None and "deletionTimestamp" in found["metadata"]:
        watch.output.print_lines([f"stack/{watch.options.name} is still being deleted: waiting"])
        await watch.until(lambda seen: not seen.exists)


async def stay(watch: StackWatcher, reached: StackView) -> None:
    """Print suggestions, and show their effects until the user stops the demo."""
    plan = watch.options
    programs = {"kubectl": plan.kubectl, PLUGIN: str(Path(sys.executable).parent / PLUGIN)}
    missing = [program for name, program in programs.items() if program is not None and shutil.which(name) is None]
    tries = advise(plan.stack, reached, kubeconfig=plan.kubeconfig, programs=missing)
    watch.output.print_lines(["", *tries, "", "Ctrl-C stops it.", ""])
    await watch.until(lambda _: False)


def catch_signals() -> asyncio.Event:
    """Make an event that a stop signal sets, so that started processes are stopped first."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    return stopping


# Suggestions for a Stack that is ready, as shell commands. Pure: made from its manifest and its rows.

WORKLOADS: Final = ("deployment/", "statefulset/")
WRONG: Final = {
    "string": 42,
    "integer": "many",
    "number": "many",
    "boolean": "perhaps",
    "array": "one",
    "object": "one",
}
"""For each type, a value of another type."""


def advise(stack: Object, view: StackView, *, kubeconfig: str, programs: Sequence[str]) -> list[str]:
    """Return the lines to print: the setup of a shell, then one suggestion for each line.

    programs: paths of the programs that the suggestions use and that are not on PATH.
    """
    kubectl = f"kubectl -n {shlex.quote(view.namespace)}"
    tries = list(find_tries(stack, view, kubectl))
    width = max(len(title) for title, _ in tries)
    lines = ["Next steps, in another terminal:", "", f"  {prepare(kubeconfig, programs)}", ""]
    return [*lines, *(f"  {title.ljust(width)}   {command}" for title, command in tries)]


def prepare(kubeconfig: str, programs: Sequence[str]) -> str:
    """Return the command that sets the cluster and the PATH for the following ones."""
    command = f"export KUBECONFIG={shlex.quote(kubeconfig)}"
    folders = dict.fromkeys(str(Path(program).parent) for program in programs)
    if not folders:
        return command
    return f"{command} PATH={shlex.quote(os.pathsep.join(folders))}{os.pathsep}$PATH"


def find_tries(stack: Object, view: StackView, kubectl: str) -> Iterator[tuple[str, str]]:
    """Yield each suggestion: its title and its command."""
    name = shlex.quote(view.name)
    stack_command = kubectl.replace("kubectl", "kubectl stack", 1)
    yield "see its resources, live", f"{stack_command} tree {name} -w"
    yield "see the same in a browser", f"{stack_command} ui"
    number = find_number(stack)
    if number is not None:
        yield "edit a parameter", patch(kubectl, name, {number[0]: number[1]})
    # Choose the last resource, because no other resource waits for it and the effect is easy to see.
    workload = next((row.object for row in reversed(view.rows) if row.object.startswith(WORKLOADS)), None)
    child = workload or next((row.object for row in reversed(view.rows) if "/" in row.object), None)
    if child is not None:
        yield "delete a child: Hearth recreates it", f"{kubectl} delete {child}"
    if workload is not None:
        yield "change it manually: Hearth reverts the change", f"{kubectl} set image {workload} '*=example.com/other'"
    wrong = find_wrong(stack)
    if wrong is not None:
        yield "set an invalid parameter: Hearth reports the error", patch(kubectl, name, {wrong[0]: wrong[1]})
    yield "ask why a Stack is not ready", f"{stack_command} why {name}"
    yield "delete the stack", f"{kubectl} delete stack {name}"


def patch(kubectl: str, name: str, parameters: Mapping[str, Any]) -> str:
    """Return the command that sets parameters of a Stack."""
    body = json.dumps({"spec": {"parameters": parameters}}, separators=(",", ":"))
    return f"{kubectl} patch stack {name} --type=merge -p {shlex.quote(body)}"


def find_number(stack: Object) -> tuple[str, int] | None:
    """Return an integer parameter and another valid value of it."""
    given = stack["spec"].get("parameters") or {}
    for name, rules in find_parameters(stack).items():
        value = given.get(name, rules.get("default"))
        if rules.get("type") != "integer" or not isinstance(value, int):
            continue
        for other in (value + 2, value + 1, value - 1):
            if rules.get("minimum", other) <= other <= rules.get("maximum", other):
                return name, other
    return None


def find_wrong(stack: Object) -> tuple[str, Any] | None:
    """Return a parameter and an invalid value of it."""
    for name, rules in find_parameters(stack).items():
        if rules.get("type") in WRONG:
            return name, WRONG[rules["type"]]
    return None


def find_parameters(stack: Object) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters of the Stack's template."""
    template = stack["spec"].get("template") or {}
    return template.get("parameters") or {}
