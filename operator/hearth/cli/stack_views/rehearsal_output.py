"""Formats a rehearsal as styled text or JSON: one line for each interruption, followed by what does not come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from hearth.cli.stack_views import preview_output, safe_text
from hearth.cli.stack_views.preview_output import Line
from hearth.model import names
from hearth.model.child import Object
from hearth.preview.changes import Action, Change

if TYPE_CHECKING:
    from hearth.preview.rehearsals import Interruption, Rehearsal

DIFFERENCES: Final[Mapping[Action, str]] = {
    Action.CREATE: "is left behind",
    Action.UPDATE: "differs",
    Action.REPLACE: "is a new object",
    Action.DELETE: "is missing",
}
NESTED: Final = "note: the content of nested Stacks is not rehearsed"
LIMITS: Final = "A rehearsal cannot know what controllers do, or which data the objects hold."


def list_lines(rehearsal: Rehearsal) -> Iterator[Line]:
    """Yield the lines of a rehearsal."""
    preview = rehearsal.preview
    yield [(preview_output.describe(preview), "bold")]
    if preview.rejection:
        yield from preview_output.list_mistakes(preview)
        return
    last: list[Line] = []
    for each in rehearsal.interruptions:
        details = list(list_details(each))
        is_known = bool(details) and details == last
        verdict = "back as before" if each.is_reverted else "does not come back completely"
        style = "green" if each.is_reverted else "red"
        yield [(f"{describe(each, rehearsal.total)}: ", ""), (verdict + (", as above" if is_known else ""), style)]
        if not is_known:
            yield from details
        last = details
    for note in preview.notes:
        yield [(f"note: {safe_text.one_line(note)}", "")]
    for change in rehearsal.unrehearsed:
        reason = f": {safe_text.one_line(change.reason or change.hook)}" if change.reason or change.hook else ""
        yield [(f"not rehearsed: {name(change)}{reason}", "red")]
    if has_nested(rehearsal):
        yield [(NESTED, "")]
    yield [(summarize(rehearsal), "")]
    yield [(LIMITS, "dim")]


def describe(interruption: Interruption, total: int) -> str:
    """Return the point of the interruption: `after 3 of 7 steps (change web)`."""
    text = f"after {interruption.steps} of {total} steps"
    last = interruption.last
    if last is None:
        return text
    return f"{text} ({last.verb} {safe_text.one_line(last.ref)})"


def list_details(interruption: Interruption) -> Iterator[Line]:
    """Yield what does not come back."""
    for each in interruption.differences:
        yield [(f"  {name(each)} {DIFFERENCES[each.action]}", "")]
        for field in each.fields:
            yield from preview_output.list_field(field)
    for message in interruption.failures:
        yield [(f"  the rollback does not end: {safe_text.one_line(message)}", "")]
    for each in interruption.irreversible:
        if each.undo is not None:
            undo = preview_output.describe_undo(each.undo).removeprefix("undo: ")
            yield [(f"  {name(each)} is graded {safe_text.one_line(undo)}", "")]


def name(change: Change) -> str:
    """Return the resource with its object: `web (service/shop-web)`."""
    named = preview_output.describe_objects(change)
    return safe_text.one_line(change.resource) + (f" ({named})" if named else "")


def has_nested(rehearsal: Rehearsal) -> bool:
    """Return whether the change is about a nested Stack or group."""
    refs = [each.ref for each in rehearsal.preview.changes if each.ref is not None]
    return any(names.is_stack(ref.group, ref.kind) for ref in refs)


def summarize(rehearsal: Rehearsal) -> str:
    """Return the conclusion, compared with the grade of the change."""
    runs, total = len(rehearsal.interruptions), rehearsal.total
    chosen = "" if runs == total + 1 else f" (evenly chosen from {total + 1}; --all rehearses each)"
    bad = sum(1 for each in rehearsal.interruptions if not each.is_reverted)
    undo = rehearsal.preview.undo
    grade = f"; the grade of the change is {undo}" if undo is not None else ""
    if not bad and rehearsal.unrehearsed:
        return f"not everything is rehearsed; the rest comes back after each of {runs} interruptions{chosen}{grade}"
    if not bad:
        return f"everything comes back after each of {runs} interruptions{chosen}{grade}"
    return f"something does not come back after {bad} of {runs} interruptions{chosen}{grade}"


def to_output(rehearsal: Rehearsal) -> Object:
    """Return the rehearsal as JSON."""
    preview = rehearsal.preview
    return {
        "kind": preview.kind,
        "namespace": preview.namespace,
        "name": preview.name,
        "new": preview.is_new,
        "steps": rehearsal.total,
        "reverted": rehearsal.is_reverted,
        **({"undo": str(preview.undo)} if preview.undo is not None else {}),
        "interruptions": [write_interruption(each) for each in rehearsal.interruptions],
        "unrehearsed": [preview_output.write_change(each) for each in rehearsal.unrehearsed],
        "notes": list(preview.notes),
        **({"rejection": preview.rejection} if preview.rejection else {}),
    }


def write_interruption(interruption: Interruption) -> Object:
    """Return one interruption; empty parts are omitted."""
    last = interruption.last
    written = {
        "lastStep": {"verb": last.verb, "object": preview_output.write_ref(last.ref)} if last is not None else None,
        "differences": [preview_output.write_change(each) for each in interruption.differences],
        "failures": list(interruption.failures),
        "irreversible": [preview_output.write_change(each) for each in interruption.irreversible],
    }
    kept = {key: value for key, value in written.items() if value}
    return {"steps": interruption.steps, "reverted": interruption.is_reverted, **kept}
