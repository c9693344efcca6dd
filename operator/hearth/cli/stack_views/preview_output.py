"""Formats a preview as styled text, JSON or Markdown.

Each resource has one line, followed by its changed fields in the colors of `kubectl diff`.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from hearth.cli.stack_views import safe_text
from hearth.model import names
from hearth.model.child import Object
from hearth.model.errors import Mistake
from hearth.model.kinds import ObjectRef
from hearth.model.text import enumeration
from hearth.plan.ownership.field_changes import Absent, FieldChange
from hearth.plan.resource import reversal
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.preview.changes import Action, Change, Preview

Line: TypeAlias = list[tuple[str, str]]
"""Segments of text with their styles."""
MARKS: Final[Mapping[Action, tuple[str, str, str, str]]] = {
    Action.CREATE: ("+", "green", "create", "created"),
    Action.ADOPT: ("+", "green", "adopt", "adopted"),
    Action.UPDATE: ("~", "yellow", "change", "changed"),
    Action.REPLACE: ("±", "magenta", "replace", "replaced"),
    Action.DELETE: ("-", "red", "delete", "deleted"),
    Action.KEEP: ("=", "", "keep", "kept"),
    Action.STOP: ("!", "yellow", "stop", "stopped"),
    Action.FAIL: ("x", "red", "fail", "failed"),
    Action.WAIT: (".", "dim", "wait", "waiting"),
}
"""The mark, the style, the word and the counted word of each action."""
UNREACHED: Final = frozenset({Action.STOP, Action.WAIT})
"""Actions after which further changes may follow that the preview does not show."""
LONGEST_VALUE: Final = 200
"""Characters of a value in a line."""
WHITE_SPACE: Final = re.compile(r"[^\S \n]")
"""White space that looks like a blank but is another character."""


def list_lines(preview: Preview) -> Iterator[Line]:
    """Yield the lines of a preview."""
    yield [(describe(preview), "bold")]
    if preview.rejection:
        yield from list_mistakes(preview)
        return
    for change in join_causes(preview.changes):
        yield from list_change(change)
    for note in preview.notes:
        yield [(f"note: {safe_text.one_line(note)}", "")]
    yield [(summarize(preview), "")]
    for nested in preview.nested:
        yield [("", "")]
        for line in list_lines(nested):
            yield [("  ", ""), *line]


def join_causes(changes: Sequence[Change]) -> list[Change]:
    """Return the changes. Resources that fail or wait for the same cause are combined."""
    joined: dict[tuple[Any, ...], Change] = {}
    for at, change in enumerate(changes):
        is_halted = change.action in (Action.FAIL, Action.WAIT) and change.reason
        cause = find_cause(change) if is_halted else ""
        key = (change.action, change.is_uncertain, cause) if cause else (at,)
        first = joined.get(key)
        if first is None:
            joined[key] = change
        else:
            both = f"{first.resource}, {change.resource}"
            joined[key] = dataclasses.replace(first, resource=both, ref=None, reason=cause)
    return list(joined.values())


def find_cause(change: Change) -> str:
    """Return the reason without the name of its own object: `namespaces "prod" not found`."""
    own = f"cannot apply {change.ref}: " if change.ref is not None else ""
    return change.reason.removeprefix(own)


def describe(preview: Preview) -> str:
    """Return the title."""
    name = safe_text.one_line(f"{preview.kind.lower()}/{preview.name} in {preview.namespace}")
    if preview.rejection:
        return f"{name}: the definition is rejected"
    if preview.is_new:
        return f"{name}: new"
    return f"{name}: to revision {preview.revision}" if preview.revision is not None else name


def list_mistakes(preview: Preview) -> Iterator[Line]:
    """Yield a line for each mistake, otherwise the reason of the refusal."""
    for mistake in preview.mistakes:
        yield [(f"x {safe_text.one_line(mistake)}", "red")]
    if not preview.mistakes:
        yield [(f"x {safe_text.one_line(preview.rejection)}", "red")]


def list_change(change: Change) -> Iterator[Line]:
    """Yield the line of a resource, and the lines of its fields."""
    mark, style, verb, _ = MARKS[change.action]
    place = change.resource + (f"/{change.hook}" if change.hook else "")
    word = f"may {verb}" if change.is_uncertain else verb
    line: Line = [(f"{mark} {word:<11} ", style), (safe_text.one_line(place), "bold")]
    if named := describe_objects(change):
        line.append((f" ({named})", ""))
    if change.reason:
        line.append((f": {safe_text.one_line(change.reason)}", ""))
    yield line
    for each in change.fields:
        yield from list_field(each)
    if change.unchecked:
        yield [(f"    not checked by the API server: {safe_text.one_line(change.unchecked)}", "dim")]
    if change.undo is not None and change.undo != reversal.COMPLETE:
        yield [(f"    {safe_text.one_line(describe_undo(change.undo))}", "dim")]


def describe_undo(undo: Undo) -> str:
    """Return how a change is undone, with the field that prevents it, or the data that is lost."""
    if undo.grade is UndoGrade.ONE_WAY:
        named = f" ({undo.field})" if undo.field else ""
        return ": ".join(filter(None, ("undo", f"{undo.grade}{named}", undo.reason)))
    lost = f"lost: {enumeration.enumerate_names(undo.lost)}" if undo.lost else ""
    return f"undo: {'; '.join(filter(None, (undo.grade, undo.reason, lost)))}"


def describe_objects(change: Change) -> str:
    """Return the object; for a replacement, both objects."""
    named = [safe_text.one_line(ref) for ref in (change.old_ref, change.ref) if ref is not None]
    return " → ".join(dict.fromkeys(named))


def list_field(change: FieldChange) -> Iterator[Line]:
    """Yield the old and the new value of a field."""
    path = safe_text.one_line(change.text)
    texts = [None if isinstance(value, Absent) else write_whole(value) for value in (change.old, change.new)]
    start = find_first_difference(*texts)
    for mark, text, style in zip("-+", texts, ("red", "green"), strict=True):
        if text is not None:
            yield [(f"    {mark} {path}: {cut(text, start=start)}", style)]


def write_value(value: Any) -> str:
    """Return a value as one line of JSON, cut if it is long. Unambiguous texts have no quotes."""
    return cut(write_whole(value))


def write_whole(value: Any) -> str:
    """Return the whole value. A text gets quotes if it looks like another value, or contains special white space."""
    if isinstance(value, str) and is_plain(value):
        return safe_text.one_line(value)
    return safe_text.one_line(WHITE_SPACE.sub(write_escape, json.dumps(value, ensure_ascii=False)))


def is_plain(text: str) -> bool:
    """Return whether a text needs no quotes: it is neither empty nor JSON, and has no white space but single blanks."""
    if text == "" or text != text.strip() or WHITE_SPACE.search(text) or "\n" in text or "  " in text:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def write_escape(found: re.Match[str]) -> str:
    """Return a character as JSON escapes it."""
    return json.dumps(found[0])[1:-1]


def find_first_difference(old: str | None, new: str | None) -> int:
    """Return the position from which a cut value is shown, so that both show how they differ."""
    if old is None or new is None or max(len(old), len(new)) <= LONGEST_VALUE:
        return 0
    pairs = enumerate(zip(old, new, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
    return max(0, at - LONGEST_VALUE // 4)


def cut(text: str, *, start: int = 0) -> str:
    """Return the text from `start` on, limited in length."""
    if len(text) <= LONGEST_VALUE and not start:
        return text
    head = "… " if start else ""
    shown = text[start : start + LONGEST_VALUE]
    tail = " …" if start + LONGEST_VALUE < len(text) else ""
    return f"{head}{shown}{tail} ({len(text)} characters)"


def count(preview: Preview) -> str:
    """Return the counts of the changes as a sentence."""
    found = collections.Counter((change.action, change.is_uncertain) for change in preview.changes)
    counted = [
        f"{found[action, is_uncertain]} {'perhaps ' if is_uncertain else ''}{word}"
        for action, (_, _, _, word) in MARKS.items()
        for is_uncertain in (False, True)
        if found[action, is_uncertain]
    ]
    return ", ".join(counted) or "no change"


def summarize(preview: Preview) -> str:
    """Return the counts of the changes, and how a rollback undoes them."""
    counted = count(preview)
    if preview.undo is None:
        return counted
    return f"{counted}; can be undone: {describe_whole(preview)}"


def describe_whole(preview: Preview) -> str:
    """Return how a rollback undoes all changes, and whether some changes are unknown."""
    is_partial = any(each.undo is None and each.action in UNREACHED for each in preview.changes)
    left = ", as far as is known" if is_partial else ""
    match preview.undo:
        case UndoGrade.ONE_WAY:
            return f"not completely (one-way){left}"
        case UndoGrade.RECREATES:
            return f"with new objects (recreates){left}"
        case _:
            return f"yes (reversible){left}"


# The previews of the instances of a StackDefinition, grouped by equal changes.

NAMED: Final = 3
"""Instances of a group that its title names."""
UNFIT: Final = 20
"""Listed instances that do not match the definition."""
PLACEHOLDER: Final = "NAME"
"""Replaces the name of an instance, so that equal changes look equal."""


def list_refusal(name: str, mistakes: Sequence[Mistake]) -> Iterator[Line]:
    """Yield why a StackDefinition is refused."""
    yield [(f"stackdefinition/{safe_text.one_line(name)}: the definition is rejected", "bold")]
    for mistake in mistakes:
        yield [(f"x {safe_text.one_line(mistake)}", "red")]


def list_of_definition(
    name: str, previews: Sequence[Preview], *, pinned: int, unfit: Sequence[str] = (), notes: Sequence[str] = ()
) -> Iterator[Line]:
    """Yield the lines of a StackDefinition: for each group of instances, a title and the changes.

    pinned: how many instances stay at their revision; unfit: the mistakes of invalid instances, with their names;
    notes: about all instances.
    """
    yield from list_notes(name, previews, pinned=pinned, unfit=unfit, notes=notes)
    for group in group_previews(previews):
        first = group[0]
        listed = (f"{each.namespace}/{each.name}" for each in group)
        named = enumeration.enumerate_first(listed, count=len(group), most=NAMED)
        yield [("", "")]
        counted = "1 object" if len(group) == 1 else f"{len(group)} objects"
        yield [(safe_text.one_line(f"{counted}: {named}"), "bold")]
        for line in list_changes(first):
            yield [(replace_name(text, first), style) for text, style in line] if len(group) > 1 else line


def list_notes(
    name: str, previews: Sequence[Preview], *, pinned: int, unfit: Sequence[str] = (), notes: Sequence[str] = ()
) -> Iterator[Line]:
    """Yield the title of a StackDefinition and the notes about all instances, see `list_of_definition`."""
    changing = sum(is_change(each) for each in previews)
    title = f"stackdefinition/{safe_text.one_line(name)}: {changing} of {len(previews)} objects change"
    yield [(title, "bold")]
    yield from ([(f"note: {safe_text.one_line(note)}", "")] for note in notes)
    if pinned:
        yield [(f"note: {pinned} stay at their revision (spec.stack.definitionRevision)", "")]
    if unfit:
        yield [("objects that keep their revision, because their spec does not fit the new one:", "bold")]
    for text in unfit[:UNFIT]:
        yield [(f"x {safe_text.one_line(text)}", "red")]
    if len(unfit) > UNFIT:
        yield [(f"x and {len(unfit) - UNFIT} more", "red")]


def group_previews(previews: Sequence[Preview]) -> list[list[Preview]]:
    """Return the previews by equal changes, the largest group first, those without changes last."""
    groups: dict[str, list[Preview]] = {}
    for each in previews:
        text = "\n".join("".join(replace_name(part, each) for part, _ in line) for line in list_changes(each))
        groups.setdefault(text, []).append(each)
    return sorted(groups.values(), key=lambda group: (not is_change(group[0]), -len(group)))


def list_changes(preview: Preview) -> Iterator[Line]:
    """Yield the lines of a preview without its title."""
    lines = list_lines(preview)
    next(lines)
    yield from lines


def is_change(preview: Preview) -> bool:
    """Return whether an instance changes or is refused."""
    return preview.has_changes or bool(preview.rejection)


def replace_name(text: str, preview: Preview) -> str:
    """Return a text about an instance with a placeholder for its name."""
    return text.replace(preview.name, PLACEHOLDER)


# A preview for programs.


def write_definition(
    name: str, previews: Sequence[Preview], *, pinned: int, unfit: Sequence[str] = (), notes: Sequence[str] = ()
) -> Object:
    """Return the notes about all instances of a StackDefinition as JSON. The arguments are those of `list_of_definition`."""
    return {
        "kind": names.DEFINITION_KIND,
        "name": name,
        "changed": any(is_change(each) for each in previews) or bool(notes),
        "changes": [],
        "notes": list(notes),
        "pinned": pinned,
        "unfit": list(unfit),
    }


def write_refusal(name: str, mistakes: Sequence[Mistake]) -> Object:
    """Return why a StackDefinition is refused, as JSON."""
    return {
        "kind": names.DEFINITION_KIND,
        "name": name,
        "changed": False,
        "changes": [],
        "mistakes": [{"path": each.path, "message": each.message} for each in mistakes],
    }


def to_output(preview: Preview) -> Object:
    """Return the preview as JSON."""
    return {
        "kind": preview.kind,
        "namespace": preview.namespace,
        "name": preview.name,
        "new": preview.is_new,
        "revision": preview.revision,
        "changed": preview.has_changes,
        **({"undo": str(preview.undo)} if preview.undo is not None else {}),
        "changes": [write_change(each) for each in preview.changes],
        **({"nested": [to_output(each) for each in preview.nested]} if preview.nested else {}),
        "notes": list(preview.notes),
        **({"rejection": preview.rejection} if preview.rejection else {}),
        **({"mistakes": [{"path": each.path, "message": each.message} for each in preview.mistakes]} if preview.mistakes else {}),
    }  # fmt: skip


def write_change(change: Change) -> Object:
    """Return one change; empty parts are omitted."""
    written = {
        "action": str(change.action),
        "resource": change.resource,
        "object": write_ref(change.ref),
        "oldObject": write_ref(change.old_ref),
        "uncertain": change.is_uncertain,
        "breakpoint": change.hook,
        "reason": change.reason,
        "fields": [write_field(each) for each in change.fields],
        "unchecked": change.unchecked,
        "undo": write_undo(change.undo),
    }
    return {key: value for key, value in written.items() if value}


def write_undo(undo: Undo | None) -> Object | None:
    """Return how a change is undone; empty parts are omitted."""
    if undo is None:
        return None
    written = {"grade": str(undo.grade), "field": undo.field, "reason": undo.reason, "lost": list(undo.lost)}
    return {key: value for key, value in written.items() if value}


def write_ref(ref: ObjectRef | None) -> Object | None:
    """Return the object that a reference names."""
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name} if ref else None


def write_field(change: FieldChange) -> Object:
    """Return a changed field; an absent value has no key."""
    values = {"old": change.old, "new": change.new}
    return {"path": change.text, **{key: each for key, each in values.items() if not isinstance(each, Absent)}}


# A preview as Markdown, for the comment of a pull request.

FENCES: Final = re.compile(r"`{3,}")
DIFF_MARKS: Final = {Action.CREATE: "+", Action.ADOPT: "+", Action.DELETE: "-", Action.FAIL: "-"}
"""The first character that makes a `diff` block color a line; ` !` for changes."""
CHANGED: Final = frozenset({Action.UPDATE, Action.REPLACE, Action.STOP})


def write_markdown(preview: Preview) -> str:
    """Return a title, the count, and one block in the syntax of a diff."""
    title, summary = describe(preview), summarize(preview)
    lines = [f"### {escape(title)}", ""]
    if preview.rejection:
        body = ["".join(text for text, _ in line) for line in list_mistakes(preview)]
    else:
        lines += [f"**{summary}**", ""]
        body = [line for change in join_causes(preview.changes) for line in list_markdown(change)]
    lines += write_block(body)
    notes = [f"- {escape(note)}" for note in preview.notes] if not preview.rejection else []
    nested = [text for each in preview.nested for text in ("", write_markdown(each))]
    return "\n".join([*lines, *([""] if notes else []), *notes, *nested])


def write_block(body: Sequence[str]) -> list[str]:
    """Return the lines as a block of a diff, or nothing if there are none."""
    if not body:
        return []
    # Longer than any run in a value, so that no value ends the block.
    fence = "`" * max([3, *(len(run) + 1 for line in body for run in FENCES.findall(line))])
    return [f"{fence}diff", *body, fence]


def list_markdown(change: Change) -> list[str]:
    """Return the lines of a change; the first character decides on the color."""
    return to_markdown(change.action, list_change(change))


def to_markdown(action: Action, lines: Iterable[Line]) -> list[str]:
    """Return the line of a resource and the lines of its fields for a block in the syntax of a diff."""
    first, *fields = ("".join(text for text, _ in line) for line in lines)
    mark = DIFF_MARKS.get(action) or ("!" if action in CHANGED else " ")
    return [
        f"{mark} {first[2:]}",
        *(f"{line[4:5]}   {line[4:]}" if line[4:5] in "+-" else f" {line}" for line in fields),
    ]


def write_definition_markdown(
    name: str, previews: Sequence[Preview], *, pinned: int, unfit: Sequence[str] = (), notes: Sequence[str] = ()
) -> str:
    """Return the notes about all instances of a StackDefinition, see `list_of_definition`."""
    title, *rest = (
        "".join(text for text, _ in line)
        for line in list_notes(name, previews, pinned=pinned, unfit=unfit, notes=notes)
    )
    return "\n".join([f"### {escape(title)}", *([""] if rest else []), *(f"- {escape(each)}" for each in rest)])


def escape(text: str) -> str:
    """Return a text that Markdown and HTML show literally."""
    cleaned = safe_text.one_line(text)
    return re.sub(r"([\\`*_{}\[\]<>()#+!|@~&-])", r"\\\1", cleaned)
