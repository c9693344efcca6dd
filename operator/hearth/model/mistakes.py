"""Mistakes and problems as values: object, location, fault, next step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A fault in a definition that only its author can fix."""

    path: str
    """The path as kubectl writes it, from the root of the Stack: `spec.template.resources.web.manifest.spec.replicas`.
    """
    message: str
    """The fault, the value found, and the next step; without a path and without a final period."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem of one resource, for the list in status."""

    resource: str
    object: str
    """The object as kubectl names it: `deployment/web`."""
    reason: str
    """One CamelCase word."""
    message: str
