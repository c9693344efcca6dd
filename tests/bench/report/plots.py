"""Results as plots, in the words of Mermaid, which Markdown pages draw. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.instruments.figures import Phase
from bench.report.results import Run


def draw_ratios(run: Run) -> str:
    """Of every phase that has a ceiling, the rate as a part of it."""
    bars = {name_phase(each): each.ratio for each in run.phases}
    return draw_bars("Rate relative to the ceiling", bars, unit="ratio")


def draw_cost(run: Run) -> str:
    """Of every phase with a ceiling, what one object costs the operator."""
    bars = {name_phase(each): each.operator_ms if each.ceiling else None for each in run.phases}
    return draw_bars("CPU of the operator for one object", bars, unit="ms")


def draw_history(runs: Sequence[Run], benchmark: str, phase: str) -> str:
    """Run by run the rate of one phase as a part of its ceiling, and below it the same by CPU."""
    found = {
        run.begun: each for run in runs for each in run.phases if (each.benchmark, each.name) == (benchmark, phase)
    }
    title = f"{benchmark} {phase}, all runs: rate (bars) and CPU (line), relative to the bare loop"
    bars = {begun: each.ratio for begun, each in found.items()}
    return draw_bars(title, bars, unit="ratio", line={begun: each.cpu_ratio for begun, each in found.items()})


def draw_bars(
    title: str, bars: Mapping[str, float | None], *, unit: str, line: Mapping[str, float | None] | None = None
) -> str:
    """A bar for each value that there is; with a line through others, where there are as many. Empty without any."""
    known = {name: value for name, value in bars.items() if value is not None}
    if not known:
        return ""
    names = ", ".join(f'"{name}"' for name in known)
    drawing = [f'title "{title}"', f"x-axis [{names}]", f'y-axis "{unit}"', f"bar [{join(known.values())}]"]
    traced = [value for name in known if (value := (line or {}).get(name)) is not None]
    if len(traced) == len(known):
        drawing.append(f"line [{join(traced)}]")
    return "\n".join(["```mermaid", "xychart-beta", *(f"    {each}" for each in drawing), "```", ""])


def name_phase(phase: Phase) -> str:
    """As an axis names it."""
    return f"{phase.benchmark} {phase.name}"


def join(values: Iterable[float]) -> str:
    """Numbers as Mermaid reads them."""
    return ", ".join(f"{value:.3f}" for value in values)
