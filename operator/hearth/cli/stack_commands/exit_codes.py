"""Exit codes of commands about Stacks."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
"""What was asked for is so."""
FAILED: Final = 1
"""It is not, or there is something that needs attention."""
