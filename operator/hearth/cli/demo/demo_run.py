"""The demo from start to end. Each step prints what it does; it stops everything that it starts in any case."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hearth.cli.demo import demo_webhook, operator_process, suggestions
from hearth.cli.demo.demo_cluster import Cluster
from hearth.cli.demo.operator_process import Operator
from hearth.cli.demo.suggestions import ShellEnvironment
from hearth.cli.stack_commands.terminal_output import ViewOutput
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.stack_view import StackView
from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.kube.well_known_kinds import STACK
from hearth.model import errors, value_class
from hearth.model.child import Object

LOOK: Final = 0.25
"""Seconds between two snapshots. Shorter changes are not visible."""
READY, NOT_READY, INTERRUPTED = 0, 1, 130


class DemoFailed(errors.HearthError):
    """The demo cannot continue; the text says why and what to do."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demo."""

    kubeconfig: str
    stack: Object
    timeout: timedelta
    kubectl: str | None
    """The kubectl to suggest if there is none on PATH."""

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


async def run_demo(plan: DemoOptions, screen: ViewOutput) -> int:
    """Run everything in reading order; return the exit code."""
    source = credentials.find_source(kubeconfig=plan.kubeconfig, context=None, environ=os.environ)
    stopping = catch_signals()
    async with Connection(source) as connection:
        cluster = Cluster(connection)
        screen.print_lines(["installing the CustomResourceDefinitions"])
        await cluster.install()
        server = connection.credentials.server
        async with (
            demo_webhook.installed(connection, server=server, namespace=plan.serves) as flags,
            operator_process.running(plan.kubeconfig, namespace=plan.serves, options=flags) as operator,
        ):
            screen.print_lines([f"starting the operator; its log: {operator.log}"])
            watch = StackWatcher(cluster=cluster, screen=screen, operator=operator, stopping=stopping, plan=plan)
            code = await play(watch)
            screen.print_lines(["stopping the operator"])
        if await cluster.find_stack(plan.namespace, plan.name) is not None:
            screen.print_lines(
                [f"stack/{plan.name} and its objects stay as long as the cluster does; the next run on it uses them"]
            )
    return code


async def play(watch: StackWatcher) -> int:
    """Run the part of the demo that needs the operator; return the exit code."""
    plan = watch.plan
    if not await watch.wait_operator():
        return INTERRUPTED
    await leave_earlier(watch)
    watch.screen.print_lines([f"applying stack/{plan.name} in namespace {plan.namespace}"])
    await watch.cluster.apply(plan.stack, kind=STACK)
    reached = await watch.until(lambda seen: seen.is_ready, seconds=plan.timeout.total_seconds())
    if reached is None and watch.stopping.is_set():
        return INTERRUPTED
    if reached is None:
        raise DemoFailed(await watch.explain())
    watch.screen.print_lines([f"Ready after {watch.seconds:.1f} s"])
    watch.was_ready = True
    if watch.screen.stays:
        await stay(watch, reached)
    else:
        watch.screen.print_lines(f"  {name}: {value}" for name, value in reached.outputs)
    return READY


@dataclass(slots=True, kw_only=True)
class StackWatcher:
    """Polls one Stack and shows it."""

    cluster: Cluster
    screen: ViewOutput
    operator: Operator
    stopping: asyncio.Event
    plan: DemoOptions
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
        """Return the first view for which `is_reached` is true, or None at the time limit.

        seconds: time limit; shorter if the user stops the demo.
        """
        self.began = time.monotonic()
        while True:
            seen = await self.refresh()
            self.screen.show(seen, seconds=self._count(seen))
            if is_reached(seen):
                return seen
            self._check_operator()
            if self.seconds > seconds or await self._pause():
                return None

    async def refresh(self) -> StackView:
        """Read and show the Stack; return its view."""
        snapshot = await self.cluster.take_snapshot(self.plan.namespace, self.plan.name)
        if snapshot is None:
            return StackView(name=self.plan.name, namespace=self.plan.namespace, exists=False)
        return stack_view.describe(snapshot)

    async def explain(self) -> str:
        """Explain why the Stack was not ready in time."""
        limit, seen = self.plan.timeout.total_seconds(), await self.refresh()
        reason = seen.message if seen.exists else "it is deleted"
        return f"stack/{seen.name} is not Ready after {limit:.0f} s: {reason}; the operator's log: {self.operator.log}"

    def _count(self, seen: StackView) -> float:
        """Return the seconds to show: those of the whole wait, and after the first Ready those of the current phase."""
        now = time.monotonic()
        if seen.phase != self._phase:
            self._phase, self._phase_began = seen.phase, now
        return now - (self._phase_began if self.was_ready else self.began)

    def _check_operator(self) -> None:
        if self.operator.is_refused:
            lines = [
                "another operator works on this cluster already; apply the example there with kubectl, or stop that one:",
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
    """Wait until a Stack that was deleted while no operator ran is gone. Only then can it be created again."""
    found = await watch.cluster.find_stack(watch.plan.namespace, watch.plan.name)
    if found is not None and "deletionTimestamp" in found["metadata"]:
        watch.screen.print_lines([f"stack/{watch.plan.name} is still being deleted: waiting"])
        await watch.until(lambda seen: not seen.exists)


async def stay(watch: StackWatcher, reached: StackView) -> None:
    """Print suggestions, and show their effects until the user stops the demo."""
    plan = watch.plan
    kubectl = plan.kubectl if shutil.which("kubectl") is None else None
    where = ShellEnvironment(kubeconfig=plan.kubeconfig, kubectl=kubectl)
    watch.screen.print_lines(["", *suggestions.advise(plan.stack, reached, where), "", "Ctrl-C stops it.", ""])
    await watch.until(lambda _: False)


def catch_signals() -> asyncio.Event:
    """Make an event that a stop signal sets, so that started processes are stopped first."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    return stopping
