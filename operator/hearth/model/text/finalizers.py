"""Describes the finalizers that delay the deletion of an object."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

FOREGROUND: Final = "foregroundDeletion"
"""Kubernetes removes it once every object that it owns is deleted, its Pods for example."""


def describe_hold(finalizers: Collection[str]) -> str:
    """Return the text that explains why the deletion waits: `held by example.com/backup`, or "" if it does not wait."""
    others = find_others(finalizers)
    waits = "waits for its Pods to end" if len(others) < len(finalizers) else ""
    return ", and ".join(filter(None, (waits, f"held by {', '.join(others)}" if others else "")))


def find_others(finalizers: Collection[str]) -> list[str]:
    """Return the finalizers that hold up a deletion for more than the time that Pods take to end."""
    return [each for each in finalizers if each != FOREGROUND]
