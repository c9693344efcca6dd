"""State of one resource in a word and a note: from the Stack's status, else from its object by the engine's rules."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.model.text import enumeration
from hearth.plan.health import deletion_reports, health_rules
from hearth.plan.health.general import general_rule

NAMED_AT_MOST: Final = 3
"""Maximum number of names in a note, so that it fits on its line."""
PATIENT: Final = frozenset(
    {"KindNotServed", "FieldNotFound", "Replacing", "Terminating", "Evaluating", "ObjectNotFound", "ObjectNotReady"}
)
"""Reasons of problems that are no failure: something does not exist yet."""


class RowState(enum.StrEnum):
    """State of a resource in one word."""

    READY = "ready"
    PROGRESSING = "progressing"
    WAITING = "waiting"
    STOPPED = "stopped"
    """At a breakpoint."""
    FAILED = "failed"
    EXCLUDED = "excluded"
    """Its `when` is false."""
    OBSOLETE = "obsolete"
    """Obsolete, but not deleted yet."""
    GONE = "gone"
    FINISHED = "finished"
    """It ran once and succeeded; its object may be gone."""
    EXTERNAL = "external"
    """An object that the Stack only reads, and that is as it should be."""


def assess_problem(problem: Mapping[str, Any]) -> tuple[RowState, str]:
    """Return state and note of a resource that the status names as a problem."""
    reason, message = object_fields.text(problem, "reason"), object_fields.text(problem, "message")
    state = RowState.WAITING if reason in PATIENT else RowState.FAILED
    return state, safe_text.one_line(f"{reason}: {message}" if message else reason)


def assess_object(child: FoundChild) -> tuple[RowState, str]:
    """Return state and note by the default rule of the object's kind."""
    verdict = health_rules.assess(child.raw, kind=child.kind, schema=child.schema)
    note = safe_text.one_line(verdict.message)
    match verdict.state:
        case health_rules.HealthState.READY:
            return RowState.READY, ""
        case health_rules.HealthState.FAILED:
            return RowState.FAILED, note
        case _:
            return RowState.PROGRESSING, note


def says_nothing(child: FoundChild) -> bool:
    """Return whether only the schema of its kind shows whether the object is ready, or is not observed yet."""
    verdict = health_rules.assess(child.raw, kind=child.kind)
    return verdict.reason == general_rule.EXISTS and health_rules.is_general(child.kind)


def assess_rules(expressions_: Sequence[str], values: Mapping[str, Any]) -> tuple[RowState, str]:
    """Return state and note by the `readyWhen` of a resource. values: objects by resource."""
    # It takes some time to import, and most trees need none of it.
    from hearth.template.cel import cel_environment, expressions

    for text in expressions_:
        try:
            parsed = expressions.parse(text)
        except cel_environment.CelCompileError:
            return RowState.PROGRESSING, "its readyWhen rule is no expression"
        if not expressions.is_bounded(parsed):
            return RowState.PROGRESSING, "its readyWhen rule is too expensive to be evaluated here"
        missing = [str(read) for read in parsed.required if is_missing(read.root, read.path, values)]
        if missing:
            return RowState.PROGRESSING, f"waits for {enumeration.enumerate_names(missing, most=NAMED_AT_MOST)}"
        if expressions.run(parsed, values) is not True:
            return RowState.PROGRESSING, f"its readyWhen rule is not met yet: {safe_text.one_line(text)}"
    return RowState.READY, ""


def is_missing(root: str, path: Sequence[str], values: Mapping[str, Any]) -> bool:
    """Return whether an object has no such field."""
    return object_fields.find(values, root, *path) is None


def describe_deletion(child: FoundChild) -> str:
    """Describe the progress of an object's deletion."""
    if not child.is_deleting:
        return "to be deleted"
    finalizers = ", ".join(child.finalizers)
    report = deletion_reports.explain(child.kind.key, child.raw)
    held = f", held by {finalizers}" if finalizers else f", held up: {report}" if report else ""
    return safe_text.one_line(f"is being deleted{held}")
