"""Errors by the reaction they need, not by their cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hearth.model import limits
from hearth.model.mistakes import Mistake


class HearthError(Exception):
    """Any error that Hearth raises on purpose."""


class InvalidDefinition(HearthError):
    """The user must edit the definition; carries every mistake that was found."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(str(mistake) for mistake in self.mistakes[: limits.MISTAKES]))


class SourceNotFound(HearthError):
    """Something that the definition is read from is not there (yet); try again when it changes."""


class TamperedRevision(HearthError):
    """A stored revision is not as this operator wrote it: never use it, and name it in the status."""


class RollbackRevisionNotFound(HearthError):
    """There is no revision such as the user orders; the message says what there is."""


class ApiStatusError(HearthError):
    """The API server answered a request with anything but 2xx; `hearth.plan.retry.api_errors` says what that means."""

    def __init__(self, *, code: int, status: Mapping[str, Any] | None, retry_after: float | None = None) -> None:
        """Keep the answer.

        code: the HTTP code; status: the body where it is a `Status` object, else None;
        retry_after: seconds, where the server gave them.
        """
        self.code = code
        self.status = status
        self.retry_after = retry_after
        super().__init__(str((status or {}).get("message") or f"HTTP {code}"))


class Unreachable(HearthError):
    """No answer came; whether the request took effect is unknown. Try again after a delay."""

    retry_after: float | None = None
    """Nobody said anything."""


class AnswerTooLarge(Unreachable):
    """An answer came that nobody may read; ask for less at once."""
