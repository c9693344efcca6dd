"""Runs the benchmarks: `run.py [ID …]`. Each one is a separate module, listed in `catalogue.py`.

Needs a cluster that may be filled and emptied at will, which HEARTH_TEST_KUBECONFIG names; `make bench` sets it.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import platform
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
import uvloop

import hearth
from bench.cases import catalogue
from bench.instruments import bare_api, place, profiles, usage
from bench.instruments.lab import Benchmark, BenchmarkOptions
from bench.report import page, results, tables
from bench.report.results import Run

VARIABLE = "HEARTH_TEST_KUBECONFIG"
HERE = Path(__file__).resolve().parent
HISTORY = HERE / "history"
PROFILES = HERE / "results"
PAGE = HERE.parents[1] / "docs" / "performance.md"


def main() -> int:
    """Run the command line; returns the exit code."""
    arguments = make_parser().parse_args()
    if arguments.write_docs:
        write_page()
        return 0
    try:
        chosen = catalogue.choose(arguments.names)
        options = make_wish(arguments)
    except (catalogue.NoSuchBenchmark, bare_api.Disturbed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    # However this process ends, stop the operator and delete the namespaces.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            run = runner.run(measure_all(options, chosen))
    except KeyboardInterrupt:
        say("stopped; nothing is left behind")
        return 130
    except (ExceptionGroup, bare_api.Disturbed) as error:
        print(*(f"error: {reason}" for reason in bare_api.find_reasons(error)), sep="\n", file=sys.stderr)
        return 1
    tell(run, options)
    keep(run, arguments)
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description="Measure the operator beside a bare loop over the same objects.")
    names = ", ".join(each.id if each.is_usual else f"({each.id})" for each in catalogue.ALL)
    parser.add_argument("names", nargs="*", metavar="ID", help=f"which benchmarks; all but those in brackets: {names}")
    parser.add_argument("--quick", action="store_true", help="with a few objects: to see that it works, not how fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    parser.add_argument("--account", action="store_true", help="let each Stack name a ServiceAccount")
    parser.add_argument("--keep", action="store_true", help="add the results to history/, and write the page of them")
    parser.add_argument("--write-docs", action="store_true", help="only write the page of what is in history/")
    parser.add_argument("--profile", action="store_true", help=f"profile the operator, into {PROFILES.name}/; slower")
    return parser


def make_wish(arguments: argparse.Namespace) -> BenchmarkOptions:
    """The options of a run. Raises Disturbed if this machine does not support them."""
    kubeconfig = os.environ.get(VARIABLE)
    if kubeconfig is None:
        raise bare_api.Disturbed(f"{VARIABLE} names no cluster; `make bench` sets it")
    if not usage.PROC.exists():
        raise bare_api.Disturbed("CPU and memory are read from /proc, which only Linux has")
    if arguments.profile:
        PROFILES.mkdir(exist_ok=True)
    profiles = PROFILES if arguments.profile else None
    return BenchmarkOptions(
        kubeconfig=Path(kubeconfig).resolve(),
        quick=arguments.quick,
        profiles=profiles,
        say=say,
        as_account=arguments.account,
    )


async def measure_all(options: BenchmarkOptions, chosen: Sequence[Benchmark]) -> Run:
    """The results of the chosen benchmarks, one after the other."""
    begun = datetime.datetime.now(tz=datetime.UTC)
    circumstances = await describe_circumstances(options)
    phases = []
    for each in chosen:
        say(f"{each.id}: {each.work}")
        phases += await each.measure(options, each.id)
    return Run(
        begun=begun.strftime("%Y-%m-%d %H:%M"),
        circumstances=circumstances,
        works={each.id: each.work for each in chosen},
        phases=phases,
        is_quick=options.quick,
    )


async def describe_circumstances(options: BenchmarkOptions) -> dict[str, str]:
    """Circumstances outside our code that affect the results."""
    async with bare_api.connected(str(options.kubeconfig)) as api:
        version = orjson.loads(await api.send("GET", "/version"))["gitVersion"]
        adds = "the API server" if await place.has_policies(api) else "the operator"
    return {
        "Hearth": hearth.__version__,
        "Kubernetes": version,
        "Python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "finalizers by": adds,
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def tell(run: Run, options: BenchmarkOptions) -> None:
    """Print the results."""
    print(tables.as_text(tables.make_figures(run.phases)))
    print()
    print(tables.as_text(tables.make_requests(run.phases)))
    if any(each.found for each in run.phases):
        print()
        print(tables.as_text(tables.make_found(run.phases)))
    if run.is_quick:
        print("\nquick: this shows that everything works, and says nothing of speed")
    for name in run.works if options.profiles else ():
        print(f"\n{profiles.describe(profiles.path_of(PROFILES, name))}")


def keep(run: Run, arguments: argparse.Namespace) -> None:
    """Write the results to the requested file."""
    if arguments.json:
        arguments.json.write_bytes(results.to_json(run))
    if arguments.keep:
        HISTORY.mkdir(exist_ok=True)
        (HISTORY / f"{run.begun.replace(' ', '-').replace(':', '')}.json").write_bytes(results.to_json(run))
        write_page()


def write_page() -> None:
    """Make the page of all runs that are kept, in the order of their dates."""
    runs = [results.from_json(file.read_bytes()) for file in sorted(HISTORY.glob("*.json"))]
    PAGE.write_text(page.make(runs, known=[each.id for each in catalogue.ALL]))
    say(f"wrote {PAGE}")


def say(sentence: str) -> None:
    """Print a progress line, separate from the results."""
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
