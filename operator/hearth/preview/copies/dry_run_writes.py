"""What one request of the engine would write, as a preview notes it. Values only."""

from __future__ import annotations

from hearth.model import value_class
from hearth.model.child import Object


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DryRunWrite:
    """One write."""

    before: Object | None
    """The object in the copy; None if there was none."""
    after: Object | None
    """The object after the write; None if it is gone."""
    stated: Object | None = None
    """The manifest that was applied, with stand-ins."""
    unchecked: str = ""
    """Why the API server did not check the write; "" if it did."""
