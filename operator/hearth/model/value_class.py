"""A `dataclass` decorator for values: frozen for the type checker and in tests, but not in production.

Real frozen dataclasses would take 2 MiB more memory (about two hundred classes), and their instances take three times
as long to create. Comparison, hashing and `replace` are the same. With `HEARTH_CHECK_FROZEN=1`, which the tests set,
the classes are frozen and an assignment raises.
"""

from __future__ import annotations

import dataclasses
import os
import reprlib
from typing import TYPE_CHECKING, Any, Final

__all__ = ("dataclass",)

IS_CHECKED: Final = os.environ.get("HEARTH_CHECK_FROZEN") == "1"

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, **options: Any) -> Any:
        """Make a dataclass with the hash of a frozen one, unless it compares by identity or hashes itself."""

        def decorate(cls: type) -> type:
            is_hashable = frozen and options.get("eq", True) and "__hash__" not in cls.__dict__
            if "__repr__" not in cls.__dict__:
                cls.__repr__ = write
            how = {"frozen": frozen} if IS_CHECKED else {"unsafe_hash": is_hashable}
            return dataclasses.dataclass(repr=False, **how, **options)(cls)

        return decorate


@reprlib.recursive_repr()
def write(self: Any) -> str:
    """Write a value as dataclasses do.

    All classes share this function, while dataclasses would generate one for each.
    """
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"
