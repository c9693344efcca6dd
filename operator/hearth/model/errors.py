"""Error classes, one for each necessary reaction, and `Mistake`, an error in a definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hearth.model import limits, value_class


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A fault in a definition that only its author can fix."""

    path: str
    """The path as kubectl writes it, from the root of the Stack: `spec.template.resources.web.manifest.spec.replicas`.
    """
    message: str
    """The fault, the value found, and the next step; without a path and without a final period."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class HearthError(Exception):
    """Base class of all errors that Hearth raises on purpose."""


class InvalidDefinition(HearthError):
    """A definition that the user must edit; carries every mistake that was found."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(str(mistake) for mistake in self.mistakes[: limits.MISTAKES]))


class SourceNotFound(HearthError):
    """A source of the definition that does not exist (yet); retry when it changes."""


class SourceForbidden(SourceNotFound):
    """A source that the account of the Stack is not allowed to read; retry when its rights change."""


class KubeconfigRefused(HearthError):
    """A kubeconfig that the operator does not accept. The message lists all mistakes and contains no credentials."""


class TooManyClusters(HearthError):
    """The number of clusters exceeds a limit; retry when another Stack releases its cluster."""


class NoRoom(HearthError):
    """The Stacks of a namespace use too much memory to load another definition."""


class TamperedRevision(HearthError):
    """A stored revision that differs from the one this operator wrote. It is never used, and the status reports it."""


class RollbackRevisionNotFound(HearthError):
    """A revision that a rollback requests but that does not exist; the message lists the available ones."""


class SnapshotNotUsable(HearthError):
    """A StackSnapshot that a restore requests and that cannot be restored now."""

    def __init__(self, reason: str, message: str) -> None:
        """reason: one CamelCase word for the status of the Stack."""
        super().__init__(message)
        self.reason = reason


class ApiStatusError(HearthError):
    """A response of the API server other than 2xx; `hearth.plan.retry.api_errors` classifies it."""

    def __init__(self, *, code: int, status: Mapping[str, Any] | None, retry_after: float | None = None) -> None:
        """Store the response.

        code: the HTTP code; status: the body if it is a `Status` object, otherwise None; retry_after: seconds, if the
        server specified them.
        """
        self.code = code
        self.status = status
        self.retry_after = retry_after
        super().__init__(str((status or {}).get("message") or f"HTTP {code}"))

    @property
    def is_not_found(self) -> bool:
        """Return whether the object or its kind does not exist."""
        return self.code == 404

    @property
    def is_forbidden(self) -> bool:
        """Return whether the user of the request lacks a right, or an admission plugin denied it."""
        return self.code == 403

    @property
    def is_conflict(self) -> bool:
        """Return whether the request contradicts the stored object: an old version, an existing name, a field's owner."""
        return self.code == 409

    @property
    def is_already_exists(self) -> bool:
        """Return whether a create failed only because the object exists, which the API server checks last."""
        status = self.status or {}
        is_named = bool((status.get("details") or {}).get("name"))
        return self.code == 409 and status.get("reason") == "AlreadyExists" and is_named


class Unreachable(HearthError):
    """No response arrived, so it is unknown whether the request took effect. Retry after a delay."""

    retry_after: float | None = None
    """None, because no server specified a delay."""


class AnswerTooLarge(Unreachable):
    """A response that is too large to read; immediately retry with a smaller request."""
