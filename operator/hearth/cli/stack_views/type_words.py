"""The words before the slash of `stack/shop` and `rg/queue`, in lower case. Light, because every start of the program imports it."""

from __future__ import annotations

from typing import Final

STACK: Final = frozenset({"stack", "stacks", "stk", "stack.hearth.dev", "stacks.hearth.dev"})
GROUP: Final = frozenset(
    {"rg", "resourcegroup", "resourcegroups", "resourcegroup.hearth.dev", "resourcegroups.hearth.dev"}
)
