"""The decorator for value classes that are made for every object: frozen to the type checker, plain when running.

A frozen dataclass sets each field by a function call, so that a Child takes three times as long to make. Nothing else
differs: such values are compared, hashed and replaced like frozen ones, and the type checker refuses every assignment.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

__all__ = ("dataclass",)

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, **options: Any) -> Any:
        """Make a dataclass with the hash of a frozen one."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)
