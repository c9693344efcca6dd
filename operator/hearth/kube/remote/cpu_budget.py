"""Budget of CPU time that one source of work may take. Pure arithmetic; times are monotonic seconds."""

from __future__ import annotations

import math


class CpuBudget:
    """A bucket of seconds that refills at a share of the elapsed time."""

    def __init__(self, *, share: float, burst: float) -> None:
        """share: of one core; burst: seconds that a full bucket holds."""
        self.share = share
        self._burst = burst
        self._left = burst
        self._at = -math.inf
        """When the bucket was refilled last."""

    def charge(self, begun: float, now: float) -> float:
        """Take the time since `begun`; return the seconds to pause until the bucket is not overdrawn."""
        elapsed = begun - self._at
        self._left = min(self._burst, self._left + elapsed * self.share) if elapsed > 0 else self._left
        self._at = max(self._at, begun)
        self._left -= now - begun
        return max(0.0, -self._left / self.share)
