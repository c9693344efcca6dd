"""Results as tables: of text for a terminal, of Markdown for a page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from bench.instruments.figures import Phase

Rows: TypeAlias = Sequence[Sequence[str]]
"""The first row holds the headings."""

MEBIBYTE = 1024 * 1024
NOTHING = "–"
COLUMNS: Mapping[str, Callable[[Phase], str]] = {
    "benchmark": lambda phase: phase.benchmark,
    "phase": lambda phase: phase.name,
    "objects": lambda phase: f"{phase.objects:,}",
    "seconds": lambda phase: number(phase.seconds, 1),
    "objects/s": lambda phase: number(phase.rate if phase.ceiling else None, 0),
    "ceiling/s": lambda phase: number(phase.ceiling, 0),
    "ratio": lambda phase: number(phase.ratio, 2),
    "ratio until written": lambda phase: number(phase.written_ratio, 2),
    "CPU ratio": lambda phase: number(phase.cpu_ratio, 2),
    "operator CPU s": lambda phase: number(phase.operator_cpu, 2),
    "operator ms/object": lambda phase: number(phase.operator_ms, 2),
    "control plane ms/object": lambda phase: number(phase.control_plane_ms, 2),
    "bare ms/object": lambda phase: number(phase.ceiling_ms, 2),
    "peak RSS MiB": lambda phase: number(phase.peak_rss / MEBIBYTE, 0),
    "requests/stack": lambda phase: number(phase.requests_per_stack, 1),
    "writes": lambda phase: f"{phase.writes:,}",
    "others' CPU": lambda phase: f"{phase.others_share:.0%}",
}


def number(value: float | None, digits: int) -> str:
    """That many digits after the point; a dash for no value."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def make_figures(phases: Sequence[Phase]) -> Rows:
    """A row for each phase."""
    return [list(COLUMNS), *([show(phase) for show in COLUMNS.values()] for phase in phases)]


def make_requests(phases: Sequence[Phase]) -> Rows:
    """The operator's requests, one row per phase."""
    return [
        ["benchmark", "phase", "requests"],
        *([phase.benchmark, phase.name, name_requests(phase)] for phase in phases),
    ]


def make_found(phases: Sequence[Phase]) -> Rows:
    """A row for everything else that was measured."""
    rows = [
        [each.benchmark, each.name, name, number(value, 2)] for each in phases for name, value in each.found.items()
    ]
    return [["benchmark", "phase", "measured", "value"], *rows]


def name_requests(phase: Phase) -> str:
    """Every kind of request with its number, the most frequent first."""
    ordered = sorted(phase.requests.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count:,} {name}" for name, count in ordered) or "none"


def as_text(rows: Rows) -> str:
    """Columns side by side, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(align(cell, width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(rows: Rows) -> str:
    head, *rest = rows
    rule = ["--:" if rest and is_figure(cell) else "---" for cell in (rest[0] if rest else head)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rest))


def align(cell: str, width: int) -> str:
    """A cell as wide as its column."""
    return cell.rjust(width) if is_figure(cell) else cell.ljust(width)


def is_figure(cell: str) -> bool:
    """Whether a cell holds one number, or says that there is no number."""
    return cell == NOTHING or cell.replace(",", "").replace(".", "").rstrip("%").isdigit()
