"""The cost of a tree of Stacks by arithmetic: requests, seconds, memory and bytes, and which limit is reached first.

Pure. It continues where running the engine would take hours; `simulate.py` shows both side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.scale.scale_costs import GIB, MIB, Costs
from hearth.engine.status.status_writer import PROGRESS_WRITES_PER_SECOND

STATUSES = 2
"""Status writes of a Stack that is created in less than a second: the target, and completion."""
OTHER_WRITES = 3
"""Other writes for each Stack: its finalizer, its revision, an Event."""
HISTORY_LIMIT = 10
COMPACTION = 300.0
"""Seconds between two compactions of the store; it keeps overwritten versions until then."""
RENEWAL = 2.0
"""Seconds between two renewals of a Lease."""
MOST_RESOURCES = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Nested Stacks: Stacks of the lowest level hold other resources, all others hold only Stacks."""

    resources: int
    """On the lowest level."""
    per_stack: int = 100
    """Of these in one Stack."""
    fan_out: int = 100
    """Stacks in one Stack at most."""

    @property
    def levels(self) -> list[int]:
        """How many Stacks there are on each level, the highest first."""
        found = [math.ceil(self.resources / self.per_stack)]
        while found[0] > 1:
            found.insert(0, math.ceil(found[0] / self.fan_out))
        return found

    @property
    def stacks(self) -> int:
        return sum(self.levels)

    @property
    def children(self) -> int:
        """Objects that belong to a Stack: all but the one at the top."""
        return self.resources + self.stacks - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a tree on that many processes. Seconds and bytes."""

    tree: Tree
    shards: int
    writes: int
    """Writes of all processes to create everything."""
    statuses: int
    """Status writes among them."""
    server_seconds: float
    """Seconds of the API server to create everything, including sending watch events."""
    watch_seconds: float
    """Of these, for changes that it offers and sends to watches."""
    process_seconds: float
    """CPU of one process to create its share."""
    process_memory: float
    restart_seconds: float
    """CPU seconds of one restarted process until it knows that everything is complete."""
    restart_bytes: float
    """Bytes that the server sends if all processes start at once."""
    restart_server_seconds: float
    """Server seconds to send these bytes."""
    stored: float
    """Bytes in the store, each Stack with one revision."""
    stored_changing: float
    """The same while every resource is changed: with overwritten versions and second revisions."""
    inline: float
    """Bytes of the top Stack if its template contained the templates of all other Stacks."""
    rest_writes: float
    """Writes per second while idle."""
    watches: int
    """Connections that the API server holds open."""
    stack_traffic: float
    """Bytes per second that are sent to watches of Stacks while everything is created."""

    @property
    def seconds(self) -> float:
        """Until everything is created: the slower of the server and a process."""
        return max(self.server_seconds, self.process_seconds)

    @property
    def bottleneck(self) -> str:
        return "API server" if self.server_seconds >= self.process_seconds else "operator"


def find_load(tree: Tree, *, shards: int = 1, costs: Costs) -> Load:
    """The load of that tree."""
    statuses = count_statuses(tree, shards=shards, costs=costs)
    writes = tree.children + OTHER_WRITES * tree.stacks + statuses
    stack_events = 2 * tree.stacks + statuses
    watch_seconds = find_watch_seconds(tree, stack_events, shards=shards, costs=costs)
    server_seconds = writes * costs.write + watch_seconds
    own_stacks, own_children = tree.stacks / shards, tree.children / shards
    others = tree.stacks - own_stacks
    process_seconds = (
        own_children * costs.apply
        + own_stacks * costs.stack
        + (statuses / shards) * costs.status
        + stack_events * (1 - 1 / shards) * costs.other_stack
    )
    listed = tree.children + tree.stacks * (1 + shards)
    revision = costs.revision_bytes + tree.per_stack * costs.resource_text
    stored = tree.resources * costs.child_stored + tree.stacks * costs.stack_stored + tree.stacks * revision
    kept = min(1.0, COMPACTION / max(server_seconds, process_seconds))
    return Load(
        tree=tree,
        shards=shards,
        writes=writes,
        statuses=statuses,
        server_seconds=server_seconds,
        watch_seconds=watch_seconds,
        process_seconds=process_seconds,
        process_memory=costs.process_memory
        + own_children * costs.child_memory
        + own_stacks * costs.stack_memory
        + others * costs.other_memory,
        restart_seconds=costs.start
        + own_children * costs.relist_child
        + own_stacks * costs.relist_stack
        + others * costs.other_stack,
        restart_bytes=tree.resources * costs.child_bytes + tree.stacks * costs.stack_bytes * (1 + shards),
        restart_server_seconds=listed * costs.list_object,
        stored=stored,
        stored_changing=stored
        + min(tree.resources, tree.children * kept) * costs.child_stored
        + statuses * kept * costs.stack_stored
        + tree.stacks * revision,
        inline=tree.resources * costs.resource_text,
        rest_writes=shards / RENEWAL,
        watches=shards * costs.watches,
        stack_traffic=stack_events * costs.stack_bytes * shards / max(server_seconds, process_seconds),
    )


def count_statuses(tree: Tree, *, shards: int, costs: Costs) -> int:
    """The number of status writes while everything is created.

    The Stacks take turns, so all of them are in progress most of the time, and each would report progress once a
    second; the total rate is limited, across all processes.
    """
    basic = tree.children + (OTHER_WRITES + STATUSES) * tree.stacks
    seconds = max(basic * costs.write, (tree.children * costs.apply + tree.stacks * costs.stack) / shards)
    wanted = tree.stacks * max(0.0, seconds - 1)
    return round(STATUSES * tree.stacks + min(wanted, PROGRESS_WRITES_PER_SECOND * seconds))


def find_watch_seconds(tree: Tree, stack_events: int, *, shards: int, costs: Costs) -> float:
    """Server seconds for filtering and sending watch events while everything is created.

        Each change of a child is filtered for the watch of every process and sent to one; each change of a Stack is
    sent to all of them, and as a child to one more.
    """
    offered = tree.children * (shards - 1)
    sent = tree.children + tree.stacks + stack_events * shards
    return (offered * costs.offered + sent * costs.sent) / costs.cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    name: str
    find: Callable[[Load], float]
    most: float
    unit: str
    why: str
    """Where the bound comes from."""


LIMITS = (
    Limit(
        name="one Stack that holds the whole tree",
        find=lambda load: load.inline,
        most=1.5 * MIB,
        unit="bytes",
        why="etcd takes no larger request (--max-request-bytes)",
    ),
    Limit(
        name="restart: CPU until all is known",
        find=lambda load: load.restart_seconds,
        most=60.0,
        unit="s",
        why="nothing is repaired meanwhile: our own goal",
    ),
    Limit(
        name="memory of a process",
        find=lambda load: load.process_memory,
        most=1 * GIB,
        unit="bytes",
        why="the limit in manifests/install",
    ),
    Limit(
        name="time to create everything",
        find=lambda load: load.seconds,
        most=3600.0,
        unit="s",
        why="our own goal",
    ),
    Limit(
        name="store, while everything is changed",
        find=lambda load: load.stored_changing,
        most=2 * GIB,
        unit="bytes",
        why="etcd's default quota (--quota-backend-bytes)",
    ),
    Limit(
        name="store, with the largest quota",
        find=lambda load: load.stored_changing,
        most=8 * GIB,
        unit="bytes",
        why="the most that etcd recommends",
    ),
    Limit(
        name="Stacks to all processes",
        find=lambda load: load.stack_traffic,
        most=125_000_000.0,
        unit="bytes/s",
        why="a network of 1 Gbit/s",
    ),
)


def find_break(limit: Limit, *, shards: int, costs: Costs, per_stack: int = 100, fan_out: int = 100) -> int | None:
    """The number of resources that reaches the limit; None if even a billion do not reach it."""

    def is_broken(resources: int) -> bool:
        tree = Tree(resources=resources, per_stack=per_stack, fan_out=fan_out)
        return limit.find(find_load(tree, shards=shards, costs=costs)) > limit.most

    low, high = 1, MOST_RESOURCES
    if not is_broken(high):
        return None
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if is_broken(middle) else (middle, high)
    return high


def find_breaks(*, shards: int, costs: Costs, per_stack: int = 100, fan_out: int = 100) -> Mapping[str, int | None]:
    """Limits in the order in which they are reached."""
    found = {
        limit.name: find_break(limit, shards=shards, costs=costs, per_stack=per_stack, fan_out=fan_out)
        for limit in LIMITS
    }
    return dict(sorted(found.items(), key=lambda pair: (pair[1] is None, pair[1] or 0)))
