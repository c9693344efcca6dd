"""The effort limit for the mistakes and rules of one definition: hints, comparisons. Must not know their content."""

from __future__ import annotations

from collections.abc import Iterable

from hearth.model import limits
from hearth.template.schema.json_schema import Budget
from hearth.template.text import error_hints


class Effort:
    """The remaining effort for one template."""

    def __init__(self) -> None:
        self.hints = limits.HINTED_MISTAKES
        """Misspelled words that are compared with the known ones."""
        self.budget = Budget()

    def hint(self, word: str, candidates: Iterable[str]) -> str:
        """Return a hint, or nothing."""
        if self.hints <= 0:
            return ""
        self.hints -= 1
        return error_hints.did_you_mean(word, candidates)
