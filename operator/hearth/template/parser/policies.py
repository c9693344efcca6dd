"""The values of the adoption and deletion policies in templates and Stacks."""

from __future__ import annotations

from typing import Any

RETAIN = "Retain"
DELETION = ("Delete", RETAIN)
"""The values of a resource's `deletionPolicy`."""
ABANDON = "Abandon"
ADOPT = "Adopt"
ADOPTION = ("Refuse", ADOPT)
"""The values of `adoptionPolicy`."""


def adopts(stated: str | None) -> bool | None:
    """Return whether an `adoptionPolicy` allows adopting an existing object; None if it is not set."""
    return None if stated is None else stated == ADOPT


def find_retained(template: Any) -> frozenset[str]:
    """Find the resources that a template retains, if readable; mistakes elsewhere in it do not matter."""
    resources = template.get("resources") if isinstance(template, dict) else None
    if not isinstance(resources, dict):
        return frozenset()
    return frozenset(
        name
        for name, resource in resources.items()
        if isinstance(name, str) and isinstance(resource, dict) and resource.get("deletionPolicy") == RETAIN
    )
