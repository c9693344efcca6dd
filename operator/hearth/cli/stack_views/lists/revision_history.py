"""The revisions of a Stack as rows, and the difference between two definitions as lines.

Sensitive values are never shown. A difference only reports that they changed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.cli.stack_views import ages, safe_text, stated_values
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.text_table import Cell
from hearth.model import names, object_fields
from hearth.model.child import Object
from hearth.model.text import redaction
from hearth.template.compiler import secret_literals
from hearth.template.text import kubectl_yaml

HEADER: Final = ("REVISION", "STATUS", "AUTHOR", "COMMIT", "AGE", "NAME")
DEFINITION: Final = "DEFINITION"
"""The additional column heading for instances: the revision of the StackDefinition."""
PREVIOUS: Final = "PREVIOUS"
"""The column heading for the previously active revision, shown if that is not the one with the preceding number."""
COMMIT_LENGTH: Final = 12
"""Characters of a commit in the table, as git abbreviates them in large repositories."""
HASH_LENGTH: Final = 8


def make_row(number: int, revision: Object, state: tuple[str, str], *, now: float) -> list[Cell]:
    """Return the cells of one revision. state: its outcome and color."""
    annotations = object_fields.mapping(revision, "metadata", "annotations")
    return [
        (str(number), ""),
        state,
        (safe_text.one_line(object_fields.text(annotations, names.ANNOTATION_AUTHOR)) or "<unknown>", ""),
        (safe_text.one_line(object_fields.text(annotations, names.ANNOTATION_COMMIT))[:COMMIT_LENGTH], ""),
        (ages.describe(object_fields.text(revision, "metadata", "creationTimestamp"), now=now), ""),
        (safe_text.one_line(object_fields.text(revision, "metadata", "name")), "dim"),
    ]


def find_definition_revision(revision: Object) -> str:
    """Return the StackDefinition revision that an instance's revision uses; "" for a revision of a Stack."""
    return safe_text.one_line(
        object_fields.text(revision, "metadata", "annotations", names.ANNOTATION_DEFINITION_REVISION)
    )


def find_previous(number: int, revisions: Mapping[int, Object]) -> int | None:
    """Return the revision that was active when this one was accepted; None if there is none or it is not stored.

    Revisions from earlier versions of Hearth do not record it. For them, the revision with the preceding number is
    returned.
    """
    annotations = object_fields.mapping(revisions[number], "metadata", "annotations")
    recorded = object_fields.text(annotations, names.ANNOTATION_PREVIOUS_REVISION)
    if recorded:
        return int(recorded) if recorded in map(str, revisions) else None
    return max((each for each in revisions if each < number), default=None)


def describe_state(number: int, stack: StackState) -> tuple[str, str]:
    """Return the outcome of a revision, and its color."""
    status = stack.status
    words = []
    if number == stack.target_revision:
        cause = {"Rollback": "active, rolled back to", "AutomaticRollback": "active, rolled back to automatically"}
        words.append(cause.get(stack.target_cause, "active"))
    completed: set[object] = {
        object_fields.number(status, key) for key in ("lastCompletedRevision", "previousCompletedRevision")
    }
    earlier = object_fields.find(status, "earlierCompletedRevisions")
    completed.update(earlier if isinstance(earlier, list) else ())
    has_failed = number == object_fields.number(status, "lastFailedRevision")
    if number in completed:
        # It failed first, and completed later.
        is_past = number == stack.target_revision and stack.is_ready
        words.append("completed, failed before" if has_failed and not is_past else "completed")
    elif has_failed:
        words.append("failed")
    color = "red" if words[-1:] == ["failed"] else "green" if "completed" in words else ""
    return ", ".join(words), color


def to_output(number: int, revision: Object, state: tuple[str, str], *, previous: int | None) -> Object:
    """Return a revision for programs. state: as for `make_row`; previous: the revision that was active before."""
    annotations = object_fields.mapping(revision, "metadata", "annotations")
    return {
        "revision": number,
        "status": state[0],
        **({"previous": previous} if previous is not None else {}),
        "author": object_fields.text(annotations, names.ANNOTATION_AUTHOR),
        "commit": object_fields.text(annotations, names.ANNOTATION_COMMIT),
        **({"definitionRevision": found} if (found := find_definition_revision(revision)) else {}),
        "created": object_fields.text(revision, "metadata", "creationTimestamp"),
        "name": object_fields.text(revision, "metadata", "name"),
    }


def show_definition(definition: Mapping[str, Any]) -> Object:
    """Return template and parameters of a stored definition without sensitive values.

    Each value is replaced by its source and a part of its keyed hash, so that changes are visible.
    """
    template, hidden = stated_values.hide_defaults(object_fields.mapping(definition, "template"))
    parameters = dict(object_fields.mapping(definition, "parameters"))
    for name, entry in object_fields.mapping(definition, "sensitive").items():
        source, hashed = object_fields.text(entry, "from"), object_fields.text(entry, "hash")
        parameters[name] = f"(sensitive, from {source}, hash {hashed[-HASH_LENGTH:]})"
    shown: Object = {"parameters": dict(sorted(parameters.items())), "template": secret_literals.hide(template)}
    result: Object = redaction.redact_within(shown, hidden)
    return result


def compare(
    before: Mapping[str, Any], after: Mapping[str, Any], *, titles: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the lines of a unified difference with their colors; nothing if the definitions are equal."""
    old, new = (safe_text.clean(kubectl_yaml.write(show_definition(each))).splitlines() for each in (before, after))
    for line in difflib.unified_diff(old, new, *titles, lineterm=""):
        if line.startswith(("---", "+++")):
            yield line, "bold"
        else:
            yield line, {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
