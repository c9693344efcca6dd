"""Tables of simulated and computed trees, and the page that holds them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.report import tables
from bench.report.tables import Rows
from bench.scale import scale_costs
from bench.scale.scale_costs import GIB, KIB, MIB, Costs
from bench.scale.scale_model import LIMITS, Load, Tree, find_breaks, find_load
from bench.scale.simulated import Found

PROCESSES = (1, 10, 100)
MANY = (1, 2, 3, 4, 10, 30, 100, 256)
MARK = re.compile(r"<!-- (?P<title>[^>]+) -->\n.*?<!-- end -->", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A simulated tree, and the model's prediction for it."""

    load: Load
    phases: Sequence[Found]


def make_all(runs: Sequence[Simulated], target: int, per_stack: int, fan_out: int, *, costs: Costs) -> dict[str, Rows]:
    """All tables by title. Without runs, their table is omitted."""
    tree = Tree(resources=target, per_stack=per_stack, fan_out=fan_out)
    ran = {"Runs": make_runs(runs)} if runs else {}
    return ran | {
        "Totals": make_loads(tree, costs=costs),
        "Limits": make_breaks(per_stack=per_stack, fan_out=fan_out, costs=costs),
        "Many processes": make_processes(tree, costs=costs),
        "Input figures": make_costs(costs),
    }


def make_runs(runs: Sequence[Simulated]) -> Rows:
    """A row for each phase."""
    head = [
        *("resources", "Stacks", "processes", "phase", "writes", "writes/resource", "statuses", "virtual s"),
        *("model s", "server busy", "CPU ms/resource", "largest Stack KiB"),
    ]
    return [head, *(make_run(each, phase) for each in runs for phase in each.phases)]


def make_run(run: Simulated, phase: Found) -> list[str]:
    """One phase of a simulated tree; the model only predicts the first."""
    load, tree = run.load, run.load.tree
    is_created = phase.phase == "created"
    # The end of a restart is not awaited, so it has no duration.
    seconds = phase.virtual_seconds if phase.phase != "restarted" else None
    busy = phase.server_busy / seconds if seconds else None
    return [
        *(f"{tree.resources:,}", f"{tree.stacks:,}", f"{load.shards:,}", phase.phase, f"{phase.writes:,}"),
        tables.number(phase.writes / tree.resources, 2),
        f"{phase.requests.get('status', 0):,}",
        tables.number(seconds, 1),
        tables.number(load.seconds if is_created else None, 1),
        tables.NOTHING if busy is None else f"{min(busy, 1.0):.0%}",
        tables.number(1000 * phase.cpu / tree.resources, 2),
        tables.number(phase.largest.get("Stack", 0) / KIB, 1),
    ]


def make_loads(tree: Tree, *, costs: Costs) -> Rows:
    """A column for each number of processes."""
    loads = [find_load(tree, shards=shards, costs=costs) for shards in PROCESSES]
    shown: Mapping[str, Callable[[Load], str]] = {
        "writes to create it": lambda load: f"{load.writes:,}",
        "of these, statuses": lambda load: f"{load.statuses:,}",
        "time to create it, minutes": lambda load: tables.number(load.seconds / 60, 0),
        "bottleneck": lambda load: load.bottleneck,
        "server time for watches": lambda load: f"{load.watch_seconds / load.server_seconds:.0%}",
        "memory of a process, MiB": lambda load: tables.number(load.process_memory / MIB, 0),
        "restart of a process, CPU s": lambda load: tables.number(load.restart_seconds, 0),
        "all started at once: sent, GiB": lambda load: tables.number(load.restart_bytes / GIB, 2),
        "all started at once: server, CPU s": lambda load: tables.number(load.restart_server_seconds, 0),
        "store, GiB": lambda load: tables.number(load.stored / GIB, 2),
        "store while all objects change, GiB": lambda load: tables.number(load.stored_changing / GIB, 2),
        "Stacks to watches, MB/s": lambda load: tables.number(load.stack_traffic / 1e6, 1),
    }
    head = [f"{tree.resources:,} resources in {tree.stacks:,} Stacks", *(name_processes(each) for each in PROCESSES)]
    return [head, *([name, *(show(load) for load in loads)] for name, show in shown.items())]


def make_breaks(*, per_stack: int, fan_out: int, costs: Costs) -> Rows:
    """A row for each limit, the first one reached on top; the columns have the resources by number of processes."""
    by_shards = [find_breaks(shards=shards, costs=costs, per_stack=per_stack, fan_out=fan_out) for shards in PROCESSES]
    limits = {limit.name: limit for limit in LIMITS}
    head = ["limit", "at most", "why", *(name_processes(each) for each in PROCESSES)]
    rows = []
    for name in by_shards[0]:
        limit = limits[name]
        found = (breaks[name] for breaks in by_shards)
        rows.append([name, show_bound(limit.most, limit.unit), limit.why, *(show_count(each) for each in found)])
    return [head, *rows]


def make_processes(tree: Tree, *, costs: Costs) -> Rows:
    """A row for each number of processes."""
    head = [
        *("processes", "created in, minutes", "bottleneck", "server time for watches", "memory each, MiB"),
        *("memory of all, GiB", "restart of one, CPU s", "all at once: sent, GiB", "writes/s at rest", "watches"),
    ]
    loads = [find_load(tree, shards=shards, costs=costs) for shards in MANY]
    return [
        head,
        *(
            [
                *(f"{load.shards:,}", tables.number(load.seconds / 60, 0), load.bottleneck),
                f"{load.watch_seconds / load.server_seconds:.0%}",
                tables.number(load.process_memory / MIB, 0),
                tables.number(load.process_memory * load.shards / GIB, 1),
                tables.number(load.restart_seconds, 0),
                tables.number(load.restart_bytes / GIB, 2),
                tables.number(load.rest_writes, 1),
                f"{load.watches:,}",
            ]
            for load in loads
        ),
    ]


def make_costs(costs: Costs) -> Rows:
    """A row for each figure that everything is computed from."""
    rows = [
        [figure.says, show_cost(getattr(costs, figure.name), figure.unit), figure.source]
        for figure in scale_costs.FIGURES
    ]
    return [["what", "figure", "measured"], *rows]


def show_cost(value: float, unit: str) -> str:
    """A figure with its unit."""
    if unit == "bytes":
        return show_bound(value, unit)
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    return f"{value:g}"


def show_bound(value: float, unit: str) -> str:
    """A bound as people write it."""
    if unit == "bytes":
        size, name = next(
            (pair for pair in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")) if value >= pair[0]), (1, "bytes")
        )
        return f"{value / size:.3g} {name}"
    if unit == "bytes/s":
        return f"{value / 1e6:.0f} MB/s"
    return f"{value:g} {unit}"


def show_count(resources: int | None) -> str:
    """A number of resources to two figures, as the model knows no more."""
    if resources is None:
        return "never"
    digits = len(str(resources)) - 2
    return f"{round(resources, -digits):,}"


def name_processes(shards: int) -> str:
    return "1 process" if shards == 1 else f"{shards} processes"


def fill(page: str, shown: Mapping[str, Rows]) -> str:
    """Update the tables of the page: each between `<!-- title -->` and `<!-- end -->`."""

    def replace(found: re.Match[str]) -> str:
        title = found["title"]
        if title not in shown:
            return found[0]
        return f"<!-- {title} -->\n\n{tables.as_markdown(shown[title])}\n\n<!-- end -->"

    return MARK.sub(replace, page)
