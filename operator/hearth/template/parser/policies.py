"""The words that say whose an object is and what becomes of it, as templates and Stacks write them."""

from __future__ import annotations

from typing import Any

RETAIN = "Retain"
DELETION = ("Delete", RETAIN)
"""What `deletionPolicy` of a resource may say."""
ABANDON = "Abandon"
ADOPT = "Adopt"
ADOPTION = ("Refuse", ADOPT)
"""What `adoptionPolicy` may say."""


def adopts(stated: str | None) -> bool | None:
    """Whether an `adoptionPolicy` allows to take over what is there; None where nothing is stated."""
    return None if stated is None else stated == ADOPT


def find_retained(template: Any) -> frozenset[str]:
    """The resources that a template wants kept, as far as it can be read: mistakes anywhere in it do not matter."""
    resources = template.get("resources") if isinstance(template, dict) else None
    if not isinstance(resources, dict):
        return frozenset()
    return frozenset(
        name
        for name, resource in resources.items()
        if isinstance(name, str) and isinstance(resource, dict) and resource.get("deletionPolicy") == RETAIN
    )
