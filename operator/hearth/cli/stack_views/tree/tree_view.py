"""Formats a view as a tree of lines, or as lines about the changes since the previous view."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final, TypeAlias

from hearth.cli.stack_views import ages
from hearth.cli.stack_views.tree.stack_view import SEVERITY, ResourceRow, RowState, StackView
from hearth.model import value_class

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
    RowState.EXTERNAL: ("◇", "cyan"),
}
GAP: Final = "  "
AGE_WIDTH: Final = 5
"""Width of an age, e.g. `3d22h`."""
AGED_WIDTH: Final = 100
"""Minimum width of a terminal to show ages."""
MIN_WIDTH: Final = 12
"""Width below which text is neither cut nor wrapped."""


def draw(
    view: StackView,
    *,
    seconds: float | None = None,
    now: float | None = None,
    width: int | None = None,
    height: int | None = None,
) -> list[Line]:
    """Return the lines of the Stack, its resources, its message and its outputs.

    seconds: the time to show at the Stack; now: seconds since the epoch, to show the age of each object; width: columns
    of the terminal, so that a long reason continues below its resource; height: the maximum number of lines. Resources
    that need attention remain, and ready ones are counted.
    """
    rows = list(flatten(view.rows))
    foot = draw_foot(view, width=width)
    hidden = 0
    if height is not None:
        # Draw only one line per resource, otherwise an explanation would displace another resource.
        foot = foot[: max(2, height // 3)]
        room = max(1, height - 1 - len(foot))
        if len(rows) > room:
            rows, hidden = choose(rows, room - 1), len(rows) - room + 1
    columns = Columns.of(rows, with_age=now is not None and (width is None or width >= AGED_WIDTH), width=width)
    lines = [draw_head(view, seconds=seconds)]
    for indent, row in rows:
        lines += draw_row(row, columns, indent=indent, now=now, is_wrapped=height is None)
    if hidden:
        lines.append([(f"{hidden} more resources, which need less attention", "dim")])
    return lines + foot


def draw_foot(view: StackView, *, width: int | None) -> list[Line]:
    """Return the message, the outputs, and the parts that could not be shown."""
    lines: list[Line] = []
    if view.exists:
        style = "red" if view.is_stalled else "dim"
        lines += [[("", "")], *([(line, style)] for text in view.message.split("\n") for line in wrap(text, width))]
    lines += [[(f"{name}: ", "dim"), (value, "cyan")] for name, value in view.outputs]
    return lines + [[(omission, "yellow")] for omission in view.omissions]


def choose(rows: list[tuple[str, ResourceRow]], count: int) -> list[tuple[str, ResourceRow]]:
    """Return the rows that need attention most, up to a number, in their original order."""
    urgent = sorted(range(len(rows)), key=lambda at: (-SEVERITY.index(rows[at][1].state), at))
    return [rows[at] for at in sorted(urgent[:count])]


def wrap(text: str, width: int | None, *, indent: int = 0) -> list[str]:
    """Return a text in lines that fit; the whole text without a width."""
    if width is None:
        return [text]
    return textwrap.wrap(text, max(MIN_WIDTH, width - indent - 1), break_on_hyphens=False) or [""]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The widths of a table of resources."""

    resource: int
    object: int
    state: int
    with_age: bool
    width: int | None
    """Width of the terminal."""

    @classmethod
    def of(cls, rows: list[tuple[str, ResourceRow]], *, with_age: bool, width: int | None) -> Columns:
        """Return the widths for these rows. On a narrow terminal, objects are shortened."""
        resource = max_length(indent + row.resource for indent, row in rows)
        state = max_length(row.state for _, row in rows)
        object_ = max_length(row.object for _, row in rows)
        if width is not None:
            taken = 2 + resource + 2 * len(GAP) + state + (AGE_WIDTH + len(GAP)) * with_age
            object_ = min(object_, max(MIN_WIDTH, width - 1 - taken))
        return cls(resource=resource, object=object_, state=state, with_age=with_age, width=width)

    @property
    def end(self) -> int:
        """Return the column where a reason begins."""
        return 2 + self.resource + self.object + self.state + 3 * len(GAP) + (AGE_WIDTH + len(GAP)) * self.with_age


def flatten(rows: tuple[ResourceRow, ...], *, before: str = "") -> Iterator[tuple[str, ResourceRow]]:
    """Yield each row with the branches in front of it, the rows of a nested Stack below its own."""
    for row in rows:
        is_last = row is rows[-1]
        yield f"{before}{'└─ ' if is_last else '├─ '}", row
        yield from flatten(row.nested, before=f"{before}{'   ' if is_last else '│  '}")


def draw_head(view: StackView, *, seconds: float | None) -> Line:
    """Return the line of the Stack itself."""
    if not view.exists:
        return [(view.title, "bold"), (f"{GAP}is deleted", "magenta")]
    style = "green" if view.is_ready else "red" if view.is_stalled else "yellow"
    parts: Line = [(view.title, "bold"), (f" in {view.namespace}", "dim"), (f"{GAP}{view.phase}", style)]
    if view.summary:
        parts.append((f"{GAP}{view.summary}", style))
    if view.revision is not None:
        parts.append((f"{GAP}revision {view.revision}", "dim"))
    return [*parts, (f"{GAP}{seconds:.0f} s", "dim")] if seconds is not None else parts


def draw_row(
    row: ResourceRow, columns: Columns, *, indent: str, now: float | None, is_wrapped: bool = True
) -> list[Line]:
    """Return the line of one resource in its columns, and below it the rest of a reason that does not fit."""
    sign, style = SIGNS[row.state]
    line: Line = [
        (indent, "dim"),
        (f"{sign} ", style),
        (row.resource.ljust(columns.resource - len(indent)), "bold"),
        (f"{GAP}{shorten(row.object, columns.object).ljust(columns.object)}", ""),
        (f"{GAP}{row.state.ljust(columns.state)}", style),
    ]
    if columns.with_age and now is not None:
        age = ages.describe(row.created, now=now) if row.created else ""
        line.append((f"{GAP}{age.ljust(AGE_WIDTH)}", "dim"))
    if not row.note:
        return [line]
    fits = columns.width is None or columns.end + len(row.note) < columns.width
    if fits or not is_wrapped:
        return [[*line, (f"{GAP}{row.note}", "dim")]]
    before = "".join("│" if sign in "│├" else " " for sign in indent)
    below = wrap(row.note, columns.width, indent=len(before) + 2)
    return [line, *([(before, "dim"), (f"  {text}", "dim")] for text in below)]


def shorten(text: str, width: int) -> str:
    """Return the text, shortened in the middle to fit a width, because both ends distinguish objects."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def max_length(texts: Iterator[str]) -> int:
    """Return the length of the longest text; 0 without any."""
    return max((len(text) for text in texts), default=0)


def describe_changes(before: StackView | None, after: StackView) -> Iterator[str]:
    """Describe each change since the previous view: the phase, and each resource that changed."""
    if not after.exists:
        if before is None or before.exists:
            yield f"{after.title} is deleted"
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
