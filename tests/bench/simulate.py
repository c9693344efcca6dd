"""Finds the limit that a tree of very many resources reaches first: `simulate.py [--resources N …] [--shards N …]`.

Two results side by side: the engine itself on the fake cluster in virtual time (`simulated.py`), for a number of
resources that takes minutes; and a model of the measurements (`scale_model.py`), which continues from there. Needs no
cluster; the virtual part is the same in every run, the CPU seconds belong to this machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import sys
from pathlib import Path
from typing import Any

import orjson

from bench.report import tables
from bench.scale import scale_tables, simulated
from bench.scale.scale_costs import Costs
from bench.scale.scale_model import Tree, find_breaks, find_load
from bench.scale.scale_tables import Simulated
from bench.scale.simulated import Found
from hearth import app
from support import repository

PAGE = repository.DOCS / "scale.md"
RESOURCES = (1_000, 10_000)
SHARDS = (1, 10)
MODELLED = 1_000_000
MODELLED_SHARDS = (1, 10, 100)


def main() -> int:
    """Run the command line; returns the exit code."""
    arguments = make_parser().parse_args()
    costs = Costs()
    gc.set_threshold(app.GC_THRESHOLD, *gc.get_threshold()[1:])  # as in a process of the operator
    try:
        kept = [each for file in arguments.beside for each in read(file, costs)]
        runs = [*kept, *([] if arguments.model_only else run_all(arguments, costs))]
    except simulated.Uneven as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("stopped")
        return 130
    shown = scale_tables.make_all(runs, arguments.target, arguments.per_stack, arguments.fan_out, costs=costs)
    for title, rows in shown.items():
        print(f"\n{title}\n\n{tables.as_text(rows)}")
    if arguments.json:
        arguments.json.write_bytes(orjson.dumps(describe(runs, arguments, costs), option=orjson.OPT_INDENT_2))
    if arguments.write_docs:
        PAGE.write_text(scale_tables.fill(PAGE.read_text(), shown))
        say(f"wrote {PAGE}")
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The words of the command line."""
    parser = argparse.ArgumentParser(
        description="Run trees of Stacks through the engine in virtual time, and extrapolate from there.",
    )
    parser.add_argument(
        "--resources", type=int, nargs="+", default=RESOURCES, metavar="N", help="how many to run (%(default)s)"
    )
    parser.add_argument("--shards", type=int, nargs="+", default=SHARDS, metavar="N", help="and by how many processes")
    parser.add_argument("--per-stack", type=int, default=100, metavar="N", help="resources of a Stack (%(default)s)")
    parser.add_argument("--fan-out", type=int, default=100, metavar="N", help="Stacks within a Stack (%(default)s)")
    parser.add_argument(
        "--phases", nargs="+", default=simulated.PHASES, choices=simulated.PHASES, help="created always comes first"
    )
    parser.add_argument("--groups", action="store_true", help="with ResourceGroups in place of the lowest Stacks")
    parser.add_argument("--target", type=int, default=MODELLED, metavar="N", help="how many to estimate (%(default)s)")
    parser.add_argument("--model-only", action="store_true", help="run nothing")
    parser.add_argument(
        "--beside", type=Path, nargs="+", default=(), metavar="FILE", help="show the runs of earlier --json as well"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    parser.add_argument("--write-docs", action="store_true", help=f"put the tables into docs/{PAGE.name}")
    return parser


def run_all(arguments: argparse.Namespace, costs: Costs) -> list[Simulated]:
    """Every tree with every number of processes, the small ones first."""
    runs = []
    for resources in arguments.resources:
        tree = Tree(resources=resources, per_stack=min(arguments.per_stack, resources), fan_out=arguments.fan_out)
        for shards in arguments.shards:
            say(f"{resources:,} resources in {tree.stacks:,} Stacks, {shards} processes")
            phases = simulated.run(
                tree,
                shards=shards,
                costs=costs,
                say=say,
                phases=arguments.phases,
                in_groups=arguments.groups and tree.stacks > 1,
            )
            runs.append(Simulated(load=find_load(tree, shards=shards, costs=costs), phases=phases))
    return runs


def read(file: Path, costs: Costs) -> list[Simulated]:
    """The stored runs, with the current predictions of the model."""
    found = []
    for run in orjson.loads(file.read_bytes())["runs"]:
        load = find_load(Tree(**run["load"]["tree"]), shards=run["load"]["shards"], costs=costs)
        found.append(Simulated(load=load, phases=[Found(**phase) for phase in run["phases"]]))
    return found


def describe(runs: list[Simulated], arguments: argparse.Namespace, costs: Costs) -> dict[str, Any]:
    """Everything, for other programs."""
    shape = {"per_stack": arguments.per_stack, "fan_out": arguments.fan_out}
    tree = Tree(resources=arguments.target, **shape)
    return {
        "costs": dataclasses.asdict(costs),
        "runs": [dataclasses.asdict(each) for each in runs],
        "loads": [dataclasses.asdict(find_load(tree, shards=shards, costs=costs)) for shards in MODELLED_SHARDS],
        "breaks": {str(shards): find_breaks(shards=shards, costs=costs, **shape) for shards in MODELLED_SHARDS},
    }


def say(sentence: str) -> None:
    """Print a progress line, separate from the results."""
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
