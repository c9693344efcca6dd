"""The denominator: how fast a bare loop writes the very same objects, with as many requests in flight as the operator.

It reads nothing, decides nothing and remembers nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from bench.instruments import bare_api, watches
from bench.instruments.bare_api import IN_FLIGHT, BareApi
from bench.instruments.figures import Ceiling, Pace
from bench.instruments.workload import Target, Workload

ReadCpu: TypeAlias = Callable[[], float | None]
Act: TypeAlias = Callable[[Target], Awaitable[None]]
Item = TypeVar("Item")


async def measure(api: BareApi, workload: Workload, *, namespace: str, read_cpu: ReadCpu) -> Ceiling:
    """The pace of applying all children of a workload, applying them with one field changed, and deleting them.

    read_cpu: the seconds that this process and the control plane have used so far.
    """

    async def apply(target: Target) -> None:
        await api.apply(target.path, target.manifest)

    async def delete(target: Target) -> None:
        await api.send("DELETE", f"{target.path}?propagationPolicy=Background")

    return await find_ceiling(workload, apply, delete, namespace=namespace, read_cpu=read_cpu)


async def measure_in_steps(api: BareApi, workload: Workload, *, namespace: str, read_cpu: ReadCpu) -> Ceiling:
    """The same in sequence: each object is written after a watch has shown the previous one."""
    async with contextlib.AsyncExitStack() as watches_:
        heard = watches.Arrivals()
        for kind in workload.kinds:
            await watches_.enter_async_context(watches.watching(api, kind, namespace, heard.take))

        async def apply(target: Target) -> None:
            with heard.expect(target.name) as arrival:
                await api.apply(target.path, target.manifest)
                await arrival.wait()

        async def delete(target: Target) -> None:
            with heard.expect(target.name) as arrival:
                await api.send("DELETE", target.path)
                await arrival.wait()

        return await find_ceiling(workload, apply, delete, namespace=namespace, read_cpu=read_cpu, in_flight=1)


async def find_ceiling(
    workload: Workload, apply: Act, delete: Act, *, namespace: str, read_cpu: ReadCpu, in_flight: int = IN_FLIGHT
) -> Ceiling:
    """The pace of the three phases, measured with this function."""
    first = workload.make_children(namespace, value="one")
    second = workload.make_children(namespace, value="two")
    return Ceiling(
        created=await find_pace(first, apply, read_cpu, in_flight=in_flight),
        changed=await find_pace(second, apply, read_cpu, in_flight=in_flight),
        deleted=await find_pace(second[::-1], delete, read_cpu, in_flight=in_flight),
    )


async def find_pace(
    items: Sequence[Item],
    do: Callable[[Item], Awaitable[None]],
    read_cpu: ReadCpu,
    *,
    in_flight: int = IN_FLIGHT,
    objects: int | None = None,
) -> Pace:
    """The rate of that action on all of them. objects: the number of objects they count as; None: one each."""
    begun, cpu_before = time.perf_counter(), read_cpu()
    await bare_api.for_each(items, do, in_flight=in_flight)
    seconds, cpu_after = time.perf_counter() - begun, read_cpu()
    is_known = cpu_before is not None and cpu_after is not None
    count = objects or len(items)
    cpu_ms = 1000 * ((cpu_after or 0.0) - (cpu_before or 0.0)) / count
    return Pace(rate=count / seconds, cpu_ms=cpu_ms if is_known else None)
