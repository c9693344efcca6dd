"""Measured costs and counts per item, for the model and the simulation.

Every figure names its source. They come from one small machine (two cores for everything), so derived results are
accurate to a factor of two; which limit is reached first hardly depends on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.server.request_faults import WRITES

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
CHILDREN = frozenset({"apply", "delete"})
REQUESTS_OF_STACK = 3
"""In addition to its statuses: its finalizer, its revision and an Event."""
BARE = "a bare loop with 32 in flight on two free cores (`tests/bench/cases/ceiling.py`)"
WATCHED = "2,000 writes with 0 and 100 watches, alternating; CPU of API server and etcd"
PERFORMANCE = "B1 and B3 in [performance](performance.md)"
B2 = "B2 in [performance](performance.md): 50,000 children in 5,000 Stacks"
AT_REST = "the end of B2 and B9 at rest in [performance](performance.md)"


def measured(value: float, says: str, source: str, *, unit: str = "s") -> Any:
    """A figure. unit: `s`, `bytes`, or "" for a plain number."""
    return dataclasses.field(default=value, metadata={"says": says, "source": source, "unit": unit})


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs in seconds and bytes. Server costs are divided by its cores, except the duration of a request."""

    cores: int = measured(2, "cores of the API server and its store", "assumed", unit="")
    write: float = measured(1 / 900, "API server: a write", f"{BARE}: 930 ConfigMaps, 680 custom resources a second")
    read: float = measured(1 / 1800, "API server: a read", "assumed: half a write")
    list_object: float = measured(30e-6, "API server: an object in a list", "lists of 2,000 ConfigMaps: 25–35 µs")
    offered: float = measured(1.6e-6, "API server: a change, for each watch that does not select it", WATCHED)
    sent: float = measured(
        45e-6,
        "API server: a change of a Stack, for each watch that receives it",
        "60 writes with 0 and 40 watches, alternating: 30–60 µs, once 400",
    )
    child_bytes: int = measured(
        1120, "a ConfigMap of three values as a child, JSON", "measured by reading it back", unit="bytes"
    )
    child_stored: int = measured(
        1390, "growth of the store for it", "etcd's size in use before and after 2,000", unit="bytes"
    )
    stack_bytes: int = measured(
        2400, "a Stack by `templateRef` with its status, JSON", "measured by reading it back", unit="bytes"
    )
    stack_stored: int = measured(
        4100, "growth of the store for each write of its status", "as above, 300 Stacks", unit="bytes"
    )
    revision_bytes: int = measured(1200, "a revision without its definition", "computed", unit="bytes")
    resource_text: int = measured(
        136, "a ConfigMap of three values in a template", "`workload.make_flat_template`", unit="bytes"
    )
    start: float = measured(0.9, "process: CPU to start without Stacks", "`hearth run` until ready")
    apply: float = measured(0.7e-3, "process: CPU for a resource", PERFORMANCE)
    stack: float = measured(3.4e-3, "process: additional CPU for a Stack", PERFORMANCE)
    status: float = measured(0.7e-3, "process: CPU for one more status", "assumed: as much as a resource")
    relist_child: float = measured(0.09e-3, "process: CPU for a child after a restart", B2)
    relist_stack: float = measured(0.32e-3, "process: CPU for a Stack after a restart", B2)
    other_stack: float = measured(
        30e-6,
        "process: CPU for an event about a Stack of another shard",
        "[decision 1](decisions/0001-engine-watches-stacks.md)",
    )
    process_memory: int = measured(82 * MIB, "process: memory with the first Stack", "`hearth run`", unit="bytes")
    child_memory: float = measured(1.1 * KIB, "process: memory for a child", AT_REST, unit="bytes")
    stack_memory: float = measured(6.6 * KIB, "process: memory for an idle Stack", AT_REST, unit="bytes")
    other_memory: int = measured(400, "process: memory for a Stack of another shard", "computed", unit="bytes")
    watches: int = measured(8, "process: watches, of two kinds of children", "counted", unit="")

    def of_server(self, verb: str) -> float:
        """Seconds of the server for a request."""
        return self.write if verb in WRITES or verb == "event" else self.read

    def of_process(self, verb: str) -> float:
        """CPU seconds of a process for all that leads to a request and follows from it."""
        if verb in CHILDREN:
            return self.apply
        return self.status if verb == "status" else self.stack / REQUESTS_OF_STACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The description of one of the costs."""

    name: str
    says: str
    unit: str
    source: str


FIGURES: Sequence[Figure] = tuple(Figure(name=each.name, **each.metadata) for each in dataclasses.fields(Costs))
