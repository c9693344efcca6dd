"""`docs/performance.md`, made of the runs that are kept. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import plots
import tables
from results import Run
from tables import Rows

HEAD = """\
# How fast it is

Made by `tests/bench/run.py --write-docs` of the runs in `tests/bench/history/`; `make bench` makes another one.

A rate means something only beside what the machine can do at all: single runs differ by half, machines by twice. So
each figure stands beside the **ceiling**, a bare loop (asyncio, aiohttp, uvloop, orjson) that writes the very same
objects, to the last label, into another namespace with as many requests in flight; it runs right before and right after,
and the mean of both counts. *Ratio* is the operator's rate as a part of that. Where there are many Stacks (B1), the loop
also sends what is about the Stacks themselves, the user's requests and the operator's.

- *seconds*: from the user's first request until every Stack says that it is as wanted, or is gone. Statuses are written
  once a second at most, which weighs on short phases: *until written* ends with the last change of a child.
- *ms/object*: CPU, user and system, of the operator, and of API server and etcd. Requests on Stacks, revisions and
  Events are part of it, as are the user's own. *Bare* is the same of the loop and the control plane.
- *CPU ratio*: the CPU that the bare loop and the control plane take for an object, as a part of what the operator and
  the control plane take. Where CPU is the limit it is what the ratio comes to, and noise disturbs it least.
- *requests/stack*: all but Events. *Writes* are counted with them.
- *others' CPU*: the part of the machine's CPU that went to what has nothing to do with it. Above a tenth or so the rates
  are disturbed; CPU per object is less so.
"""
FOLLOWED = (("B1", "created"), ("B3", "created"))
"""The phases whose history is drawn: many Stacks, and a large one."""
DISTURBED = 0.15
"""The part of the CPU from which on the page says so itself."""


def make(runs: Sequence[Run], *, known: Sequence[str]) -> str:
    """The page; the newest run comes last in `runs`. known: the benchmarks that there are, in their order."""
    begun = find_begun(runs)
    run = gather(runs, begun, known)
    parts = [
        HEAD,
        "## The newest figures\n",
        ", ".join(f"{name} {value}" for name, value in run.circumstances.items()) + ".\n",
        "\n".join(f"- **{name}** ({begun[name]}): {work}" for name, work in run.works.items()) + "\n",
        plots.draw_ratios(run),
        plots.draw_cost(run),
        tables.as_markdown(tables.make_figures(run.phases)) + "\n",
        *name_disturbed(run),
        *show_found(run),
        "What the operator sent:\n",
        tables.as_markdown(tables.make_requests(run.phases)) + "\n",
    ]
    if len(runs) > 1:
        parts += ["## Ratio, run by run\n", tables.as_markdown(make_history(runs, run)) + "\n"]
        parts += [plots.draw_history(runs, *phase) for phase in FOLLOWED]
    return "\n".join(parts)


def find_begun(runs: Sequence[Run]) -> dict[str, str]:
    """By benchmark when it ran last."""
    return {name: run.begun for run in runs for name in run.works}


def gather(runs: Sequence[Run], begun: Mapping[str, str], known: Sequence[str]) -> Run:
    """The newest run, with what it has not measured and an earlier one has. begun: see `find_begun`."""
    latest = {name: run for run in runs for name in run.works if begun[name] == run.begun and name in known}
    works = {name: latest[name].works[name] for name in known if name in latest}
    phases = [each for name in works for each in latest[name].phases if each.benchmark == name]
    return dataclasses.replace(runs[-1], works=works, phases=phases)


def show_found(run: Run) -> list[str]:
    """What was measured besides, if anything."""
    rows = tables.make_found(run.phases)
    return ["What else was measured:\n", tables.as_markdown(rows) + "\n"] if len(rows) > 1 else []


def name_disturbed(run: Run) -> list[str]:
    """A sentence about the phases in which the machine had much else to do."""
    names = [f"{each.benchmark} {each.name}" for each in run.phases if each.others_share > DISTURBED]
    return [f"Disturbed by other work on the machine: {', '.join(names)}.\n"] if names else []


def make_history(runs: Sequence[Run], shown: Run) -> Rows:
    """By phase that is shown the ratio in each run."""
    by_run = [{(each.benchmark, each.name): each.ratio for each in run.phases} for run in runs]
    phases = [(each.benchmark, each.name) for each in shown.phases if each.ratio is not None]
    head = ["benchmark", "phase", *(run.begun for run in runs)]
    return [head, *([*phase, *(tables.number(ratios.get(phase), 2) for ratios in by_run)] for phase in phases)]
