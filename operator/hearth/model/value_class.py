"""The decorator for value classes: frozen to the type checker, plain when running.

Two hundred frozen dataclasses take 2 MiB more, because each has methods of its own that refuse assignments, and a frozen
one takes three times as long to make, because it sets each field by a function call. Nothing else differs: such values
are compared, hashed and replaced like frozen ones, and the type checker refuses every assignment.
"""

from __future__ import annotations

import dataclasses
import reprlib
from typing import TYPE_CHECKING, Any

__all__ = ("dataclass",)

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, **options: Any) -> Any:
        """Make a dataclass with the hash of a frozen one, unless it compares by identity or hashes itself."""

        def decorate(cls: type) -> type:
            is_hashable = frozen and options.get("eq", True) and "__hash__" not in cls.__dict__
            if "__repr__" not in cls.__dict__:
                cls.__repr__ = write
            return dataclasses.dataclass(unsafe_hash=is_hashable, repr=False, **options)(cls)

        return decorate


@reprlib.recursive_repr()
def write(self: Any) -> str:
    """Write a value as dataclasses do; one function for all classes, where each would have its own."""
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"
