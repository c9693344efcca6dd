"""Names of types in arguments, for example `stack` in `stack/shop`. Small, because each start of the CLI imports it."""

from __future__ import annotations

from typing import Final

STACK: Final = frozenset({"stack", "stacks", "stk", "stack.hearth.dev", "stacks.hearth.dev"})
GROUP: Final = frozenset(
    {"rg", "resourcegroup", "resourcegroups", "resourcegroup.hearth.dev", "resourcegroups.hearth.dev"}
)
