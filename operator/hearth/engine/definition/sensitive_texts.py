"""Sensitive texts that a child's status may still contain."""

from __future__ import annotations

KEPT = 8
"""Number of definitions whose sensitive texts are redacted. Children no longer contain older ones."""


class SensitiveTexts:
    """The sensitive texts of the current and earlier definitions."""

    def __init__(self) -> None:
        """Begin without a definition."""
        self.kept: tuple[frozenset[str], ...] = ()

    def add(self, texts: frozenset[str]) -> None:
        """Add those of a definition that becomes active."""
        if texts and texts not in self.kept:
            self.kept = (*self.kept, texts)[-KEPT:]
