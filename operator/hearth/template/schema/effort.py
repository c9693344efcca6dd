"""How much is spent on the mistakes and rules of one definition: hints, comparisons. Must not know what it is spent on."""

from __future__ import annotations

from collections.abc import Iterable

from hearth.model import limits
from hearth.template.schema.json_schema import Budget
from hearth.template.text import error_hints


class Effort:
    """What may still be spent on one template."""

    def __init__(self) -> None:
        self.hints = limits.HINTED_MISTAKES
        """Misspelt words that are compared with those that there are."""
        self.budget = Budget()

    def hint(self, word: str, candidates: Iterable[str]) -> str:
        """A hint, or nothing."""
        if self.hints <= 0:
            return ""
        self.hints -= 1
        return error_hints.did_you_mean(word, candidates)
