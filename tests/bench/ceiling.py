"""The denominator: how fast a bare loop writes the very same objects, with as many requests in flight as the operator.

It reads nothing, decides nothing and remembers nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import bare_api
from bare_api import BareApi
from figures import Ceiling, Pace
from workload import Target, Workload


async def measure(api: BareApi, workload: Workload, *, namespace: str, read_cpu: Callable[[], float | None]) -> Ceiling:
    """The pace of applying all children of a workload, applying them with one field changed, and deleting them.

    read_cpu: the seconds that this process and the control plane have used so far.
    """
    first = workload.make_children(namespace, value="one")
    second = workload.make_children(namespace, value="two")

    async def apply(target: Target) -> None:
        await api.apply(target.path, target.manifest)

    async def delete(target: Target) -> None:
        await api.send("DELETE", f"{target.path}?propagationPolicy=Background")

    return Ceiling(
        created=await find_pace(first, apply, read_cpu),
        changed=await find_pace(second, apply, read_cpu),
        deleted=await find_pace(second, delete, read_cpu),
    )


async def find_pace(
    targets: Sequence[Target], do: Callable[[Target], Awaitable[None]], read_cpu: Callable[[], float | None]
) -> Pace:
    """How fast that is done with all of them."""
    begun, cpu_before = time.perf_counter(), read_cpu()
    await bare_api.for_each(targets, do)
    seconds, cpu_after = time.perf_counter() - begun, read_cpu()
    is_known = cpu_before is not None and cpu_after is not None
    cpu_ms = 1000 * ((cpu_after or 0.0) - (cpu_before or 0.0)) / len(targets)
    return Pace(rate=len(targets) / seconds, cpu_ms=cpu_ms if is_known else None)
