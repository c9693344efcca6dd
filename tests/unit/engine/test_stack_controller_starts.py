"""Of a burst of new Stacks, each is complete soon after it begins, and costs one status write."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import Share
from support import virtual_time
from support.fake_world import fake_world
from support.fake_world.fake_world import Controller
from support.server import fake_kinds
from support.server.fake_server import FakeServer
from support.server.request_faults import Traffic
from support.virtual_time import VirtualClock

STACKS = 60
CHILDREN = 5
WRITES = 4
"""In flight, of 0.04 s each: with 100 writes a second, the burst takes 3 s."""
LATENCY = 0.02


def make_stack(name: str, namespace: str = "default") -> Object:
    """A Stack of independent ConfigMaps."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"}}
    resources = {f"r{number}": {"manifest": manifest} for number in range(CHILDREN)}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"resources": resources}},
    }


class Burst:
    """A controller with a slow API server, and when each Stack was complete."""

    def __init__(self) -> None:
        self.server = FakeServer(VirtualClock().now)
        self.traffic = Traffic()
        self.complete: dict[str, float] = {}
        self.expected = 0
        self.most_loaded = 0
        """Stacks that had a reconciler at the same time."""
        self._controller: Controller | None = None
        self.is_done = asyncio.Event()
        self.server.watchers.append(self._on_change)

    def _on_change(self, kind: Kind, _before: Object | None, after: Object | None) -> None:
        if self._controller is not None:
            self.most_loaded = max(self.most_loaded, len(self._controller.engine._reconcilers))
        if kind != fake_kinds.STACK.kind or after is None or after.get("status", {}).get("phase") != "CreateComplete":
            return
        self.complete.setdefault(after["metadata"]["name"], asyncio.get_running_loop().time())
        if len(self.complete) == self.expected:
            self.is_done.set()

    async def play(self, stacks: list[Object]) -> None:
        """Create the Stacks at once, and wait until all are complete."""
        controller = Controller(self.server, self.traffic, Share(index=0, count=1), concurrency=WRITES)
        self._controller = controller
        controller.wire.latency = LATENCY
        await controller.start()
        self.expected = len(stacks)
        self.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}}, manager="user")
        for stack in stacks:
            self.server.create(stack, manager="user")
        await self.is_done.wait()
        controller.kill()


def play(stacks: list[Object], check: Callable[[Burst], None]) -> None:
    """Run the burst in virtual time."""

    async def run() -> None:
        burst = Burst()
        await burst.play(stacks)
        check(burst)

    with fake_world.diary():
        virtual_time.run(run)


def test_most_stacks_of_a_burst_cost_one_status_write() -> None:
    """Those that begin in the first second may be long enough in progress to say so."""

    def check(burst: Burst) -> None:
        by_stack = Counter(each.name for each in burst.traffic.requests if each.verb == "status")
        assert sum(by_stack.values()) < STACKS * 1.2, by_stack

    play([make_stack(f"s{number}") for number in range(STACKS)], check)


def test_not_all_stacks_of_a_burst_are_in_memory_at_once() -> None:
    """Those that are complete make room a second after their status is written, when another one could be."""

    def check(burst: Burst) -> None:
        assert burst.most_loaded < STACKS * 0.75

    play([make_stack(f"s{number}") for number in range(STACKS)], check)


def test_a_burst_in_one_namespace_does_not_delay_another() -> None:
    """The last Stack to come, alone in its namespace, is among the first that are complete."""

    def check(burst: Burst) -> None:
        order = sorted(burst.complete, key=lambda name: burst.complete[name])
        assert order.index("alone") < STACKS / 3, order

    play([*(make_stack(f"s{number}") for number in range(STACKS)), make_stack("alone", "team-b")], check)
