"""Several operator processes in parallel on one real API server.

It handles only processes and their output.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hearth.kube.client import api_requests
from hearth.model import names
from support.real.operator_process import OperatorProcess
from support.real.real_user import RealUser
from support.real.real_world import POLL
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.world import Address

PATIENCE = 60.0
"""Seconds on a busy machine for actions that take one or two."""


@dataclass(slots=True, kw_only=True)
class Crew:
    """The operators of one namespace."""

    kubeconfig: Path
    namespace: str
    folder: Path
    members: list[OperatorProcess] = field(default_factory=list)

    async def hire(self, *options: str) -> OperatorProcess:
        """Start another operator, and return it when it is ready."""
        made = OperatorProcess(
            kubeconfig=self.kubeconfig,
            namespace=self.namespace,
            log_file=self.folder / f"operator-{len(self.members)}.log",
            options=options,
        )
        self.members.append(made)
        await made.start()
        return made

    async def dismiss(self) -> None:
        """Kill all operators at once."""
        await asyncio.gather(*(each.kill() for each in self.members))


async def wait_until(check: Callable[[], bool], *, seconds: float = PATIENCE) -> float:
    """Return the seconds until the condition holds; blocking checks run in a thread."""
    begun = time.monotonic()
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(check):  # noqa: ASYNC110 -- another process decides, there is no event
            await asyncio.sleep(POLL)
    return time.monotonic() - begun


def is_leader(operator: OperatorProcess) -> bool:
    """Whether it is the leader, according to its metric."""
    return operator.read_metric("hearth_leader") == 1


def count_requests(operator: OperatorProcess, *, verb: str = "", kind: str = "") -> float:
    """Number of requests it has sent, optionally by verb and kind."""
    return operator.read_metric("hearth_api_requests_total", kind=kind, verb=verb)


def end_in_order(operator: OperatorProcess) -> None:
    """SIGTERM."""
    assert operator.process is not None
    operator.process.send_signal(signal.SIGTERM)


class Watcher:
    """Records every ConfigMap that is created for a resource."""

    def __init__(self, user: RealUser) -> None:
        self._user = user
        self.made: dict[str, set[str]] = defaultdict(set)
        """UIDs by name."""

    async def watch(self) -> None:
        """Record until cancelled."""
        await self._user.follow(fake_kinds.CONFIG_MAP.kind, self._see)

    def _see(self, event: str, raw: dict[str, Any]) -> None:
        if names.LABEL_RESOURCE in (raw["metadata"].get("labels") or {}):
            self.made[raw["metadata"]["name"]].add(raw["metadata"]["uid"])


def make_stack(namespace: str, *, size: int, name: str = "shop", value: str = "value") -> dict[str, Any]:
    """A Stack of that many ConfigMaps, each with that value."""
    config = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value}}}
    resources = {f"c{number}": config for number in range(size)}
    return stack_manifests.make_stack({"template": {"resources": resources}}, name=name, namespace=namespace)


async def wait_complete(user: RealUser, *stacks: dict[str, Any], seconds: float = PATIENCE) -> None:
    """Wait until these Stacks report completion of their current specs."""
    async with asyncio.timeout(seconds):
        for stack in stacks:
            while not is_complete(await user.find(Address.of(stack)) or {}):  # noqa: ASYNC110 -- as above
                await asyncio.sleep(POLL)


def is_complete(stack: dict[str, Any]) -> bool:
    """Whether a Stack reports completion of its current definition."""
    status = stack.get("status") or {}
    is_present = status.get("observedGeneration") == stack.get("metadata", {}).get("generation")
    return is_present and str(status.get("phase", "")).endswith("Complete")


async def abandon_stacks(user: RealUser) -> None:
    """Remove the finalizers of all Stacks, so that the namespace can be deleted without an operator."""
    kind = fake_kinds.STACK.kind
    page = await user.connection.request("GET", api_requests.collection_path(kind, user.namespace))
    for raw in page["items"]:
        address = Address.of({**raw, "apiVersion": kind.api_version, "kind": kind.name})
        await user.patch(address, {"metadata": {"finalizers": None}})
