"""B10: deciding without a cluster: a template of 2,000 resources is compiled, converged, and checked again.

It shows the CPU cost of decisions, measured in the processor time of this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.instruments import usage, workload
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions
from hearth.template.blueprint import Blueprint, Definition
from hearth.template.compiler import compiler
from support.units import blueprints
from support.units.blueprints import World

OBJECTS, QUICK = 2000, 50
ROUNDS = 5
EVENTS = 500


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """A phase for each form of the template: flat, and in layers."""
    count = QUICK if options.quick else OBJECTS
    flat = workload.make_flat_template(count)
    layers = workload.make_layered_template(count // 10, width=10)
    return [
        make_phase(name, form, template["resources"], measure_template(template))
        for form, template in (("flat", flat), ("layers of 10", layers))
    ]


def measure_template(template: dict[str, object]) -> dict[str, float]:
    """Milliseconds of CPU to compile it, decide until it has converged, pass over all resources, and handle one event."""
    definition = Definition(template=template, parameters={"value": "one"})
    compiled: list[Blueprint] = []
    world = World()

    def compile_it() -> None:
        compiled.append(compiler.compile_template(definition, stack=blueprints.STACK, kinds=workload.SomeKinds()))

    compiling = find_cpu_ms(compile_it)
    blueprint = compiled[0]
    planner = blueprints.make_planner(blueprint)
    converging = find_cpu_ms(lambda: world.settle(planner))
    looking = min(find_cpu_ms(lambda: world.refresh(planner)) for _ in range(ROUNDS))
    names = list(blueprint.resources)[:EVENTS]
    hearing = find_cpu_ms(lambda: [world.refresh(planner, each) for each in names]) / len(names)
    return {
        "compile ms": compiling,
        "plan until converged ms": converging,
        "reconcile all ms": looking,
        "one event ms": hearing,
    }


def find_cpu_ms(work: Callable[[], object]) -> float:
    """Milliseconds of CPU that the call takes."""
    begun = time.process_time()
    work()
    return 1000 * (time.process_time() - begun)


def make_phase(benchmark: str, form: str, resources: object, found: dict[str, float]) -> Phase:
    """The figures in the form of other benchmarks."""
    objects = len(resources) if isinstance(resources, dict) else 0
    seconds = sum(found.values()) / 1000
    return Phase(
        benchmark=benchmark,
        name=form,
        stacks=1,
        objects=objects,
        seconds=seconds,
        operator_cpu=seconds,
        control_plane_cpu=None,
        others_share=0.0,
        peak_rss=usage.read_peak_memory(usage.OURSELVES),
        requests={},
        found=found,
    )


BENCHMARKS = (
    Benchmark(
        id="B10",
        work=f"a template of {OBJECTS:,} resources compiled, planned until all resources are ready, and reconciled again",
        measure=measure,
    ),
)
