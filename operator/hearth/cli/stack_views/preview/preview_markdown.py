"""A preview as Markdown, for the comment of a pull request. Pure."""

from __future__ import annotations

import re
from typing import Final

from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.preview import preview_lines
from hearth.preview.changes import Action, Change, Preview

FENCES: Final = re.compile(r"`{3,}")
DIFF_MARKS: Final = {Action.CREATE: "+", Action.ADOPT: "+", Action.DELETE: "-", Action.FAIL: "-"}
"""The first character by which a `diff` block colors a line; ` !` for what changes."""
CHANGED: Final = frozenset({Action.UPDATE, Action.REPLACE, Action.STOP})


def write(preview: Preview) -> str:
    """Return a title, the count, and one block in the syntax of a diff."""
    title, summary = preview_lines.describe(preview), preview_lines.count(preview)
    lines = [f"### {escape(title)}", ""]
    if preview.rejection:
        body = ["".join(text for text, _ in line) for line in preview_lines.list_mistakes(preview)]
    else:
        lines += [f"**{summary}**", ""]
        body = [line for change in preview_lines.join_causes(preview.changes) for line in list_change(change)]
    if body:
        # Longer than any run in a value, so that no value ends the block.
        fence = "`" * max([3, *(len(run) + 1 for line in body for run in FENCES.findall(line))])
        lines += [f"{fence}diff", *body, fence]
    notes = [f"- {escape(note)}" for note in preview.notes] if not preview.rejection else []
    return "\n".join([*lines, *([""] if notes else []), *notes])


def list_change(change: Change) -> list[str]:
    """Return the lines of a change; the first character decides on the color."""
    first, *fields = ("".join(text for text, _ in line) for line in preview_lines.list_change(change))
    mark = DIFF_MARKS.get(change.action) or ("!" if change.action in CHANGED else " ")
    return [
        f"{mark} {first[2:]}",
        *(f"{line[4:5]}   {line[4:]}" if line[4:5] in "+-" else f" {line}" for line in fields),
    ]


def escape(text: str) -> str:
    """Return a text in which Markdown and HTML find nothing to interpret."""
    cleaned = safe_text.one_line(text)
    return re.sub(r"([\\`*_{}\[\]<>()#+!|@~&-])", r"\\\1", cleaned)
