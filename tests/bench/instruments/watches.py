"""The user's view while the operator works: the Stacks that are complete, and the time of the last change of a child.

Uses watches, because polling lists of a thousand Stacks would disturb the measurement.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator

from bench.instruments import bare_api
from bench.instruments.bare_api import BareApi
from hearth.kube.client import api_requests
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK


class Stacks:
    """The Stacks of one namespace, and the generation that each has reached."""

    def __init__(self) -> None:
        self._reached: dict[str, int] = {}
        """By name; 0: it exists but is not complete."""
        self._numbers: Counter[int] = Counter()
        """Number of Stacks by reached generation. Recounting at each event would disturb the measurement."""
        self._is_enough: Callable[[], bool] = lambda: False
        self._enough = asyncio.Event()

    def take(self, event: Object) -> None:
        """Receive a change."""
        raw = event["object"]
        name = raw["metadata"]["name"]
        before = self._reached.pop(name, None)
        if before is not None:
            self._numbers[before] -= 1
        if event["type"] != "DELETED":
            self._reached[name] = find_reached(raw)
            self._numbers[self._reached[name]] += 1
        if self._is_enough():
            self._enough.set()

    def count_settled(self, generation: int) -> int:
        """How many have completed that generation or a later one."""
        return sum(number for reached, number in self._numbers.items() if reached >= generation)

    async def wait_settled(self, count: int, *, generation: int) -> None:
        """Wait until that many Stacks have completed that generation."""
        await self._wait(lambda: self.count_settled(generation) >= count)

    async def wait_gone(self) -> None:
        """Wait until all are deleted."""
        await self._wait(lambda: not self._reached)

    async def _wait(self, is_enough: Callable[[], bool]) -> None:
        self._is_enough = is_enough
        self._enough.clear()
        if not is_enough():
            await self._enough.wait()


def find_reached(stack: Object) -> int:
    """The completed generation of a Stack, otherwise 0."""
    status, generation = stack.get("status") or {}, stack["metadata"]["generation"]
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
    return int(generation) if is_ready and status.get("observedGeneration") == generation else 0


class Children:
    """The children in one namespace; only the time of the last change is recorded."""

    def __init__(self) -> None:
        self.last_change = 0.0
        """By `time.perf_counter`."""

    def take(self, event: Object) -> None:
        """Receive a change."""
        self.last_change = time.perf_counter()


class Arrivals:
    """Changes of single objects that a client waits for."""

    def __init__(self) -> None:
        self._expected: dict[str, tuple[asyncio.Event, Callable[[Object], bool]]] = {}

    def take(self, event: Object) -> None:
        """Receive a change."""
        arrival, is_it = self._expected.get(event["object"]["metadata"]["name"], (None, None))
        if arrival is not None and is_it is not None and is_it(event):
            arrival.set()

    @contextlib.contextmanager
    def expect(self, name: str, is_it: Callable[[Object], bool] = lambda event: True) -> Iterator[asyncio.Event]:
        """Set once such an event arrives for the object of that name."""
        arrival = asyncio.Event()
        self._expected[name] = (arrival, is_it)
        try:
            yield arrival
        finally:
            del self._expected[name]


@contextlib.asynccontextmanager
async def watching(
    api: BareApi, kind: Kind, namespace: str, take: Callable[[Object], None], *, selector: str = ""
) -> AsyncIterator[None]:
    """Call `take` for every change within the block. With a selector, only metadata is read."""
    path = api_requests.collection_path(kind, namespace)
    version = (await api.list(f"{path}?limit=1"))["metadata"]["resourceVersion"]

    async def follow() -> None:
        seen, accept = version, bare_api.METADATA if selector else bare_api.JSON
        # A server may end a watch at any time, for example when the definition of the kind changes.
        while True:
            async for event in api.watch(path, version=seen, selector=selector, accept=accept):
                if event["type"] == "ERROR":
                    raise bare_api.Disturbed(f"the watch of {path} broke: {event['object'].get('message')}")
                seen = event["object"]["metadata"]["resourceVersion"]
                take(event)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        yield
        task.cancel()


@contextlib.asynccontextmanager
async def watching_stacks(api: BareApi, namespace: str) -> AsyncIterator[Stacks]:
    """The Stacks and groups of a namespace, kept up to date; no two of them have the same name."""
    stacks = Stacks()
    async with contextlib.AsyncExitStack() as parts:
        for kind in (STACK, RESOURCE_GROUP):
            await parts.enter_async_context(watching(api, kind, namespace, stacks.take))
        yield stacks


@contextlib.asynccontextmanager
async def watching_children(api: BareApi, namespace: str, kinds: list[Kind]) -> AsyncIterator[Children]:
    """The children of these kinds in a namespace."""
    children = Children()
    async with contextlib.AsyncExitStack() as watches:
        for kind in kinds:
            selector = names.LABEL_STACK_UID
            await watches.enter_async_context(watching(api, kind, namespace, children.take, selector=selector))
        yield children
