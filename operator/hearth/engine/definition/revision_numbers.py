"""Numbers for new revisions of one Stack, of which no two share one.

A revision may be stored although its request failed, and the cache may not show it yet. So a number that was tried for
one definition is never tried for another. Must not know what is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class RevisionNumbers:
    """The numbers of one Stack's revisions, as far as this process knows them."""

    _last: int = 0
    """The highest number that may be in use."""
    _tried: tuple[str, int] = ("", 0)
    """Hash of the last definition that a number was assigned to, and that number."""

    def take(self, numbers: Iterable[int]) -> None:
        """Record numbers that are in use."""
        self._last = max([self._last, *numbers])

    def assign(self, hashed: str) -> int:
        """Return a new number for the definition with that hash; repeated attempts get the same one."""
        if self._tried != (hashed, self._last):
            self._last += 1
            self._tried = hashed, self._last
        return self._last
