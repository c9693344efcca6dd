"""The results of one run, and their JSON form. Pure; presentation is in `tables` and `page`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from bench.instruments import figures
from bench.instruments.figures import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    begun: str
    """Day and time, UTC."""
    circumstances: Mapping[str, str]
    """The machine and the software: versions, cores, load."""
    works: Mapping[str, str]
    """Descriptions of the benchmarks."""
    phases: Sequence[Phase]
    is_quick: bool = False
    """The figures of a quick run show only that everything works, not its speed."""


def to_json(run: Run) -> bytes:
    """For people and programs to read."""
    document = {
        "begun": run.begun,
        "circumstances": dict(run.circumstances),
        "works": dict(run.works),
        "is_quick": run.is_quick,
        "phases": [figures.describe(phase) for phase in run.phases],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def from_json(text: bytes) -> Run:
    """Parse a run that `to_json` wrote."""
    document = orjson.loads(text)
    phases = [figures.parse(each) for each in document.pop("phases")]
    return Run(phases=phases, **document)
