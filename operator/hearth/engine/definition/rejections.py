"""Messages for the author of a Stack whose definition cannot be accepted."""

from __future__ import annotations

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import Revision
from hearth.model import limits
from hearth.model.errors import (
    InvalidDefinition,
    RollbackRevisionNotFound,
    SourceForbidden,
    SourceNotFound,
    TamperedRevision,
)
from hearth.plan.status.ready_condition import DefinitionRejection

TAMPERED = "RevisionTampered"
"""Rejection reason for a definition whose revision is not as this operator stored it."""
LIMIT_REACHED = "LimitReached"
"""Rejection reason for a definition whose namespace has no memory left."""
UNCHANGED = "the active revision is unchanged"
NOTHING_ACTIVE = "nothing is applied"
"""How a rejection message ends, with and without an active revision."""


def reject_definition(
    error: InvalidDefinition | SourceForbidden | SourceNotFound | TamperedRevision, *, is_active: bool
) -> DefinitionRejection:
    """Explain why the definition in the spec cannot be read, compiled or stored.

    is_active: whether the Stack has an active revision, which stays.
    """
    match error:
        case InvalidDefinition():
            message = describe_mistakes(error, consequence=UNCHANGED if is_active else NOTHING_ACTIVE)
            return DefinitionRejection(reason="InvalidTemplate", message=message)
        case SourceForbidden():
            return DefinitionRejection(reason="SourceForbidden", message=str(error))
        case SourceNotFound():
            return DefinitionRejection(reason="SourceNotFound", message=str(error))
        case TamperedRevision():
            return DefinitionRejection(reason=TAMPERED, message=str(error))


def reject_revision(
    error: InvalidDefinition | SourceNotFound | TamperedRevision, *, number: int, action: str
) -> DefinitionRejection:
    """Explain why the revision of this number cannot be activated. action: the intended action, e.g. `roll back to`."""
    cause = describe_mistakes(error) if isinstance(error, InvalidDefinition) else str(error)
    return DefinitionRejection(
        reason=TAMPERED if isinstance(error, TamperedRevision) else "RevisionUnavailable",
        message=f"cannot {action} revision {number}: {cause}",
    )


def reject_rollback_request(error: RollbackRevisionNotFound, revision: Revision | None) -> DefinitionRejection:
    """Explain why a requested rollback is impossible. revision: the unverified revision of that number."""
    if revision is None:
        return DefinitionRejection(reason="RevisionNotFound", message=str(error))
    return DefinitionRejection(
        reason=TAMPERED, message=f"spec.rollback.toRevision: {verified_revisions.explain(revision)}"
    )


def describe_mistakes(error: InvalidDefinition, *, consequence: str = UNCHANGED) -> str:
    """Describe all errors, one per line. The first line has the first error, because lists show only that line."""
    count = len(error.mistakes)
    first, *others = [str(mistake)[: limits.MISTAKE_LENGTH] for mistake in error.mistakes[: limits.MISTAKES]]
    head = f"{first} ({consequence})" if count == 1 else f"{first} (1 of {count} errors; {consequence})"
    rest = [f"- and {count - limits.MISTAKES} more, at least"] if count > limits.MISTAKES else []
    return "\n".join([head, *(f"- {other}" for other in others), *rest])
