"""Mistakes and troubles as values: what, where, found, next step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """Something in a definition that only its author can mend."""

    path: str
    """As kubectl writes it, from the root of the Stack: `spec.template.resources.web.manifest.spec.replicas`."""
    message: str
    """What is wrong, what was found, and the next step; no path in it, no full stop at its end."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A trouble of one resource, for the list in status."""

    resource: str
    object: str
    """As kubectl names it: `deployment/web`."""
    reason: str
    """One CamelCase word."""
    message: str
