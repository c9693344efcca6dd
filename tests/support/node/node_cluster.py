"""A control plane with a real node, for the tests in `tests/node`: its address, and its state observed from outside."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import places
import processes
import pytest

import node as node_program
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.showing import explanation_commands
from hearth.cli.stack_views.causes import explanation
from hearth.model.well_known_kinds import STACK
from support.ecosystem.kubectl import Kubectl
from support.real.stack_command import StackCommand

VARIABLE = node_program.VARIABLE
INSTALLED_IN = "hearth-system"
PREFIX = "test-"
"""Prefix of the namespaces of users."""
PATIENCE_SECONDS = 300.0
"""Ten times the time on an idle machine, where several modules share the node."""
POLL_SECONDS = 0.3
Case = TypeVar("Case")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class NodeCluster:
    """One node, with everything that runs on it."""

    home: places.Home

    @property
    def kubectl(self) -> Kubectl:
        """The administrator's kubectl, in the namespace of Hearth."""
        return Kubectl(kubeconfig=self.home.kubeconfig, namespace=INSTALLED_IN)

    def make_user(self) -> NodeUser:
        """A user with a separate namespace."""
        namespace = f"{PREFIX}{secrets.token_hex(3)}"
        self.kubectl.call("create", "namespace", namespace)
        return NodeUser(self, namespace)

    @contextlib.contextmanager
    def running_user(self) -> Iterator[NodeUser]:
        """A user with a separate namespace, which is deleted after the block: its Pods use CPU."""
        made = self.make_user()
        try:
            yield made
        finally:
            # Some Pods ignore SIGTERM, and the deletion of a namespace waits for them.
            made.kubectl.call("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
            self.kubectl.call("delete", "namespace", made.namespace, "--wait=false")

    def signal_program(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a program of the node."""
        (pid,) = processes.find(frozenset({name}), using=self.home.folder)
        os.kill(pid, number)

    def find_processes(self, pod: Mapping[str, Any]) -> list[int]:
        """The PIDs on the machine of the processes in a Pod's containers."""
        found = {
            int(number)
            for cgroup in node_program.Keeper(self.home, []).cgroups
            for file in cgroup.glob(f"kubepods/**/pod{pod['metadata']['uid']}/**/cgroup.procs")
            for number in file.read_text().split()
        }
        return sorted(pid for pid in found if Path(f"/proc/{pid}/comm").read_text() != "workload\n")


@dataclass(frozen=True, slots=True)
class NodeUser:
    """A user of one namespace."""

    node: NodeCluster
    namespace: str

    @property
    def kubectl(self) -> Kubectl:
        """The user's kubectl, with all rights."""
        return Kubectl(
            kubeconfig=self.node.home.kubeconfig, namespace=self.namespace, patience=f"{PATIENCE_SECONDS:.0f}s"
        )

    def stack(self, *arguments: str, code: int = 0) -> str:
        """The output of `kubectl stack`, which must exit with that code."""
        done = self.run_stack(*arguments)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def run_stack(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `kubectl stack`, whether or not it succeeds."""
        command = StackCommand(
            kubeconfig=self.node.home.kubeconfig, namespace=self.namespace, limit_seconds=PATIENCE_SECONDS
        )
        return command.run_now(*arguments)

    def explain(self, name: str) -> str:
        """Phase and reason of a Stack, and below them the explanation of `kubectl stack why`, read in this process."""
        return asyncio.run(self._explain(name))

    async def _explain(self, name: str) -> str:
        async with ClusterOptions(kubeconfig=str(self.node.home.kubeconfig)).open_session() as session:
            location = StackLocation(STACK, self.namespace, name)
            snapshot, causes = await explanation_commands.read_causes(session, location)
        lines = explanation.draw(causes or (), now=time.time())
        head = f"{snapshot.stack.phase} {snapshot.stack.ready.reason}"
        return "\n".join([head, *("".join(text for text, _ in line) for line in lines)])

    def read_stack(self, name: str) -> Mapping[str, Any]:
        (found,) = self.kubectl.get("stack", name)
        return found

    def find_volume(self, claim: str) -> Path:
        """The folder of a bound claim on the machine."""
        (found,) = self.kubectl.get("persistentvolumeclaim", claim)
        (volume,) = self.kubectl.get("persistentvolume", found["spec"]["volumeName"])
        return Path(volume["spec"]["hostPath"]["path"])


@dataclass(frozen=True, slots=True)
class MemoryCgroup:
    """The cgroup that limits the memory of a container."""

    folder: Path

    def set_limit(self, limit: int) -> None:
        """Change the limit in bytes; the kernel frees caches if necessary."""
        file = "memory.max" if (self.folder / "memory.max").exists() else "memory.limit_in_bytes"
        (self.folder / file).write_text(str(limit))

    def run(self, *command: str) -> None:
        """Run a command in the cgroup; the kernel may kill it."""
        # The shell joins the cgroup, then becomes the command.
        words = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self.folder), *command]
        subprocess.run(words, capture_output=True, check=False, timeout=60)


def find_memory_cgroup(pid: int) -> MemoryCgroup:
    """The cgroup of a process that counts its memory."""
    entries = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    by_controller = {controller: path for _, controllers, path in entries for controller in controllers.split(",")}
    if "memory" in by_controller:
        return MemoryCgroup(node_program.CGROUPS / "memory" / by_controller["memory"].lstrip("/"))
    return MemoryCgroup(node_program.CGROUPS / by_controller[""].lstrip("/"))


def read_memory(pid: int) -> int:
    """The memory that only a process uses, in bytes."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def read_peak(pid: int) -> int:
    """The peak memory of a process in KiB."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def wait_until(
    what: str, is_so: Callable[[], Any], describe: Callable[[], str] = str, seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait until the condition holds; fail with a description after the time limit."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s\n{describe()}"
        time.sleep(POLL_SECONDS)


def play_together(cases: Mapping[str, Case], play: Callable[[str, Case], Outcome]) -> dict[str, Outcome | Exception]:
    """Run cases that mostly wait in parallel; return each outcome, or the reason of its failure."""

    def attempt(name: str) -> Outcome | Exception:
        try:
            return play(name, cases[name])
        except Exception as error:  # noqa: BLE001 -- raised again by the test of this case
            return error

    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(cases))) as pool:
        return dict(zip(cases, pool.map(attempt, cases), strict=True))


def find_outcome(outcomes: Mapping[str, Outcome | Exception], name: str) -> Outcome:
    """The outcome of one case. Raises the exception of its play."""
    found = outcomes[name]
    if isinstance(found, Exception):
        raise found
    return found


def find_selected(request: pytest.FixtureRequest, cases: Mapping[str, Case], parameter: str) -> dict[str, Case]:
    """The cases whose tests are run: all, unless one is chosen by `-k`."""
    module = request.node.nodeid if request.scope == "module" else ""
    wanted = {
        item.callspec.params.get(parameter)
        for item in request.session.items
        if item.nodeid.startswith(module) and hasattr(item, "callspec")
    }
    return {name: case for name, case in cases.items() if name in wanted}
