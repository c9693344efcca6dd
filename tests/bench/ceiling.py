"""The denominator: how fast a bare loop writes the very same objects, with as many requests in flight as the operator.

It reads nothing, decides nothing and remembers nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import bare_api
from bare_api import BareApi
from figures import Ceiling
from workload import Target, Workload


async def measure(api: BareApi, workload: Workload, *, namespace: str) -> Ceiling:
    """The rates of applying all children of a workload, applying them with one field changed, and deleting them."""
    first = workload.make_children(namespace, value="one")
    second = workload.make_children(namespace, value="two")

    async def apply(target: Target) -> None:
        await api.apply(target.path, target.manifest)

    async def delete(target: Target) -> None:
        await api.send("DELETE", f"{target.path}?propagationPolicy=Background")

    return Ceiling(
        created=await find_rate(first, apply),
        changed=await find_rate(second, apply),
        deleted=await find_rate(second, delete),
    )


async def find_rate(targets: Sequence[Target], do: Callable[[Target], Awaitable[None]]) -> float:
    """Objects a second."""
    begun = time.perf_counter()
    await bare_api.for_each(targets, do)
    return len(targets) / (time.perf_counter() - begun)
