"""The previews of many instances as lines: those with the same changes together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.preview import preview_lines
from hearth.cli.stack_views.preview.preview_lines import Line
from hearth.model.errors import Mistake
from hearth.model.text import enumeration
from hearth.preview.changes import Preview

NAMED: Final = 3
"""Instances of a group that its title names."""
UNFIT: Final = 20
"""Instances that do not fit which are listed."""
PLACEHOLDER: Final = "NAME"
"""In the place of the name of an instance, so that equal changes look equal."""


def list_refusal(name: str, mistakes: Sequence[Mistake], unfit: Sequence[str]) -> Iterator[Line]:
    """Yield why a StackDefinition is refused."""
    yield [(f"stackdefinition/{safe_text.one_line(name)}: the definition is refused", "bold")]
    for mistake in mistakes:
        yield [(f"x {safe_text.one_line(mistake)}", "red")]
    for text in unfit[:UNFIT]:
        yield [(f"x {safe_text.one_line(text)}", "red")]
    if len(unfit) > UNFIT:
        yield [(f"x and {len(unfit) - UNFIT} more", "red")]


def list_lines(name: str, previews: Sequence[Preview], *, pinned: int) -> Iterator[Line]:
    """Yield the lines of a StackDefinition: of each group of instances its title, then its changes."""
    changing = sum(is_change(each) for each in previews)
    title = f"stackdefinition/{safe_text.one_line(name)}: {changing} of {len(previews)} objects change"
    yield [(title, "bold")]
    if pinned:
        yield [(f"note: {pinned} keep to their revision (spec.stack.definitionRevision)", "")]
    for group in group_previews(previews):
        first = group[0]
        listed = (f"{each.namespace}/{each.name}" for each in group)
        names = enumeration.enumerate_first(listed, count=len(group), most=NAMED)
        yield [("", "")]
        yield [(safe_text.one_line(f"{count_objects(len(group))}: {names}"), "bold")]
        for line in list_changes(first):
            yield [(replace_name(text, first), style) for text, style in line] if len(group) > 1 else line


def group_previews(previews: Sequence[Preview]) -> list[list[Preview]]:
    """Return the previews by equal changes, the largest group first, those without changes last."""
    groups: dict[str, list[Preview]] = {}
    for each in previews:
        text = "\n".join("".join(replace_name(part, each) for part, _ in line) for line in list_changes(each))
        groups.setdefault(text, []).append(each)
    return sorted(groups.values(), key=lambda group: (not is_change(group[0]), -len(group)))


def list_changes(preview: Preview) -> Iterator[Line]:
    """Yield the lines of a preview without its title."""
    lines = preview_lines.list_lines(preview)
    next(lines)
    yield from lines


def is_change(preview: Preview) -> bool:
    """Return whether anything happens to an instance, or is refused."""
    return preview.has_changes or bool(preview.rejection)


def count_objects(count: int) -> str:
    """Return `1 object`, `41 objects`."""
    return "1 object" if count == 1 else f"{count} objects"


def replace_name(text: str, preview: Preview) -> str:
    """Return a text of an instance without its name and namespace."""
    return text.replace(preview.name, PLACEHOLDER)
