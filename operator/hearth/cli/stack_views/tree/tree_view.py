"""A view as a tree of lines, or as lines about the changes since the previous view. Pure; colors are only names.

Must not know what a terminal is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from hearth.cli.stack_views import ages
from hearth.cli.stack_views.tree.resource_state import RowState
from hearth.cli.stack_views.tree.stack_view import ResourceRow, StackView

Segment: TypeAlias = tuple[str, str]
"""A piece of text and its style, "" for none."""
Line: TypeAlias = list[Segment]

SIGNS: Final = {
    RowState.READY: ("✔", "green"),
    RowState.PROGRESSING: ("◐", "yellow"),
    RowState.WAITING: ("·", "dim"),
    RowState.STOPPED: ("■", "yellow"),
    RowState.FAILED: ("✘", "red"),
    RowState.EXCLUDED: (" ", "dim"),
    RowState.OBSOLETE: ("−", "magenta"),
    RowState.GONE: (" ", "dim"),
    RowState.FINISHED: ("✓", "green"),
}
GAP: Final = "  "
AGE_WIDTH: Final = 5
"""Columns of an age: `3d22h`."""


def draw(view: StackView, *, seconds: float | None = None, now: float | None = None) -> list[Line]:
    """Return the lines of the Stack, its resources, its message and its outputs.

    seconds: the time to show at the Stack; now: seconds since the epoch, to show the age of each object.
    """
    lines = [draw_head(view, seconds=seconds)]
    rows = list(flatten(view.rows))
    widths = (
        max_length(indent + row.resource for indent, row in rows),
        max_length(row.object for _, row in rows),
        max_length(row.state for _, row in rows),
    )
    lines += [[(indent, "dim"), *draw_row(row, widths, indent=indent, now=now)] for indent, row in rows]
    if view.exists:
        lines.append([("", "")])
        lines.append([(view.message, "red" if view.is_stalled else "dim")])
    lines += [[(f"{name}: ", "dim"), (value, "cyan")] for name, value in view.outputs]
    return lines + [[(omission, "yellow")] for omission in view.omissions]


def flatten(rows: tuple[ResourceRow, ...], *, before: str = "") -> Iterator[tuple[str, ResourceRow]]:
    """Yield each row with the branches in front of it, the rows of a nested Stack below its own."""
    for row in rows:
        is_last = row is rows[-1]
        yield f"{before}{'└─ ' if is_last else '├─ '}", row
        yield from flatten(row.nested, before=f"{before}{'   ' if is_last else '│  '}")


def draw_head(view: StackView, *, seconds: float | None) -> Line:
    """Return the line of the Stack itself."""
    if not view.exists:
        return [(view.title, "bold"), (f"{GAP}is gone", "magenta")]
    style = "green" if view.is_ready else "red" if view.is_stalled else "yellow"
    parts: Line = [(view.title, "bold"), (f" in {view.namespace}", "dim"), (f"{GAP}{view.phase}", style)]
    if view.summary:
        parts.append((f"{GAP}{view.summary}", style))
    if view.revision is not None:
        parts.append((f"{GAP}revision {view.revision}", "dim"))
    return [*parts, (f"{GAP}{seconds:.0f} s", "dim")] if seconds is not None else parts


def draw_row(row: ResourceRow, widths: tuple[int, int, int], *, indent: str, now: float | None) -> Line:
    """Return the line of one resource, in columns of those widths."""
    sign, style = SIGNS[row.state]
    line: Line = [
        (f"{sign} ", style),
        (row.resource.ljust(widths[0] - len(indent)), "bold"),
        (f"{GAP}{row.object.ljust(widths[1])}", ""),
        (f"{GAP}{row.state.ljust(widths[2])}", style),
    ]
    if now is not None:
        age = ages.describe(row.created, now=now) if row.created else ""
        line.append((f"{GAP}{age.ljust(AGE_WIDTH)}", "dim"))
    return [*line, (f"{GAP}{row.note}", "dim")] if row.note else line


def max_length(texts: Iterator[str]) -> int:
    """Return the length of the longest text; 0 if there is none."""
    return max((len(text) for text in texts), default=0)


def describe_changes(before: StackView | None, after: StackView) -> Iterator[str]:
    """Describe each change since the previous view: the phase, and each resource that changed."""
    if not after.exists:
        if before is None or before.exists:
            yield f"{after.title} is gone"
        return
    known = {(row.resource, row.object): row for row in before.rows} if before is not None else {}
    for row in after.rows:
        if row.state is not RowState.WAITING and known.get((row.resource, row.object)) != row:
            yield describe_row(row)
    if before is None or (before.phase, before.summary, before.is_ready) != (
        after.phase,
        after.summary,
        after.is_ready,
    ):
        yield describe_head(after)


def describe_row(row: ResourceRow) -> str:
    """Describe a resource: `web  deployment/shop-web  progressing  1 of 3 pods are ready`."""
    return GAP.join(part for part in (row.resource, row.object, str(row.state), row.note) if part)


def describe_head(view: StackView) -> str:
    """Describe the Stack: `stack/shop  CreateInProgress  3/7`."""
    return GAP.join(part for part in (view.title, view.phase, view.summary) if part)
