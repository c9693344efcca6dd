"""Adaptive limit of concurrent writes of children, based on the responses of the API server.

The limit starts low and grows by one with every response until one of these signals lowers it:

- Flow control: the API server throttles a write. The limit halves, and no write starts during the requested pause.
- No response, while no other write gets one either: the API server is unavailable. A few writes suffice to detect
  its return.
- Latency: even the fastest response of a round takes several times as long as the fastest response on record for that
  class of write. This indicates a queue at the API server, which delays all clients. The limit drops slightly, and stays
  there only if the throughput does not suffer. Slow responses alone are not a signal, because a webhook or another
  client's work may be slow.

Pure arithmetic with the clock as an argument, so tests run it in simulated time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

INITIAL_LIMIT = 4
"""Initial number of writes in flight: enough to keep a small API server busy, few enough to measure its fastest
answers."""
MIN_LIMIT = 1
PROBE_LIMIT = 4
"""Limit while the API server does not answer. One write that hangs for half a minute must not hide that others are
answered again."""
MIN_LIMIT_BY_LATENCY = 8
"""Minimum limit for latency cuts: it keeps the cores of a small API server busy."""
SLOWDOWN_FACTOR = 4.0
"""Multiple of the fastest time of its class that indicates a queue.

Twice the time is noise, or an etcd that batches writes.
"""
MIN_SLOWDOWN = 0.1
"""Minimum slowdown in seconds, because no client notices faster answers. A small Stack needs about seven requests and
waits a second between two statuses anyway."""
DECREASE_FACTOR = 0.7
"""Fraction of the limit that remains after a latency cut."""
SAME_THROUGHPUT = 0.9
"""Minimum fraction of the previous throughput. Below it, the cut has a cost and is reverted.

Other clients that start to write at that time also take a share.
"""
SETTLE_TIME = 15.0
"""Seconds without latency cuts after a cut that did not help. At this interval, a trial costs one percent."""
THROTTLED_FACTOR = 0.5
SAFE_FACTOR = 0.8
"""Fraction of the throttled limit up to which the limit grows with every answer."""
GROWTH = 7.0
"""Seconds after which the limit exceeds the safe limit by one; by 8 after twice, by 27 after three times as long.

Growth is slow near a throttled limit, and fast toward the maximum once the API server stops throttling.
"""
MAX_PAUSE = 60.0
"""Seconds; the maximum pause even if the API server asks for more."""
LEAST_ROUND = 8
"""Minimum number of answers in a measurement."""
SHORTEST_ROUND = 0.5
"""Minimum seconds of a measurement; shorter ones are too noisy."""
SHORTEST = 0.001
"""Lower bound of the fastest times in seconds. Shorter times do not indicate anything about the API server."""
FADING = 600.0
"""Seconds after which the fastest times count double, unless they are measured again."""


class ConcurrencyLimiter:
    """The concurrency limit for one API server. Times are monotonic seconds."""

    def __init__(self, *, most: int) -> None:
        """most: maximum writes in flight, regardless of the API server's capacity."""
        self._most = float(most)
        self._limit = min(float(INITIAL_LIMIT), self._most)
        self._safe = min(max(THROTTLED_FACTOR * self._most, float(MIN_LIMIT_BY_LATENCY)), self._most)
        """Limit based on latency, up to which every answer adds one. At first half of the maximum."""
        self._borne = self._most
        """The same limit, based on the API server's flow control."""
        self._cut_at = -math.inf
        self._has_borne = False
        """Whether a write started after the last cut was accepted."""
        self._held_until = -math.inf
        self._answered_at = -math.inf
        """Time of the last answer of any kind."""
        self._quickest: dict[Hashable, float] = {}
        """The fastest time in seconds by class of write."""
        self._fade_at = math.inf
        self._settled_until = -math.inf
        self._before: tuple[float, float] | None = None
        """The limit before a latency cut on trial, and the writes per second before the first such cut."""
        self._begin_round(-math.inf)

    @property
    def limit(self) -> int:
        """Maximum number of writes in flight outside a pause; at least one."""
        return int(self._limit)

    def find_limit(self, now: float) -> int:
        """Return the maximum number of writes in flight now; 0 during a pause."""
        return int(self._limit) if now >= self._held_until else 0

    def find_pause(self, now: float) -> float:
        """Return the seconds left of the pause that the API server requested."""
        return max(0.0, self._held_until - now)

    def on_success(self, sort: Hashable, *, begun: float, now: float, in_flight: int) -> None:
        """Record an accepted write. sort: class of writes with similar latency; in_flight: includes this write."""
        self._answered_at = now
        seconds = now - begun
        if seconds < self._quickest.get(sort, math.inf):
            self._quickest[sort] = seconds
        if begun >= self._cut_at:
            self._has_borne = True
            # An unused limit gives no evidence that the API server can take more.
            if self._limit < self._most and 2 * in_flight >= self._limit:
                self._grow(now)
        self._answers += 1
        if begun >= self._round_at:
            self._note(sort, seconds, now)

    def on_rejected(self, *, now: float) -> None:
        """Record a write rejected for its content; it only shows that the API server answers."""
        self._answered_at = now

    def on_throttled(self, after: float, *, begun: float, now: float, in_flight: int) -> None:
        """Record a throttled write and pause for `after` seconds."""
        self._answered_at = now
        self._held_until = max(self._held_until, now + min(after, MAX_PAUSE))
        if begun <= self._cut_at:
            # This answer refers to the limit before the last cut.
            return
        reached = min(self._limit, float(in_flight))
        if self._has_borne:
            # Otherwise, the API server accepts nothing at any limit, which does not indicate its normal capacity.
            self._borne = max(SAFE_FACTOR * reached, float(MIN_LIMIT))
        self._before = None
        self._cut(max(THROTTLED_FACTOR * reached, float(MIN_LIMIT)), now)

    def on_no_answer(self, *, begun: float) -> None:
        """Record a write without an answer."""
        # If other writes were answered in the meantime, a component behind the API server hangs.
        if begun > self._answered_at:
            self._limit = min(self._limit, float(PROBE_LIMIT))

    def _grow(self, now: float) -> None:
        allowed = min(self._safe, self._borne)
        if self._limit + 1 > allowed:
            allowed += ((now - self._cut_at) / GROWTH) ** 3 if self._cut_at > -math.inf else 0.0
        before, self._limit = self._limit, max(self._limit, min(self._limit + 1, allowed, self._most))
        if before < self._safe <= self._limit:
            # The limit has reached the safe limit, so a round now gives evidence.
            self._begin_round(now)

    def _cut(self, limit: float, now: float) -> None:
        self._limit, self._cut_at, self._has_borne = limit, now, False
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        """Start a round: writes started from now on measure this limit."""
        self._round_at, self._began_with = now, self._limit
        self._round: dict[Hashable, float] = {}
        """The fastest time in seconds by class of write."""
        self._first_at = math.inf
        """Time of the first answer in the round; throughput counts from there."""
        self._answers = 0

    def _note(self, sort: Hashable, seconds: float, now: float) -> None:
        """Record an answer to a write started in this round."""
        if seconds < self._round.get(sort, math.inf):
            self._round[sort] = seconds
        if self._first_at == math.inf:
            self._first_at, self._answers = now, 0
        elif self._answers >= max(LEAST_ROUND, self._limit) and now - self._first_at >= SHORTEST_ROUND:
            self._end_round(now)

    def _end_round(self, now: float) -> None:
        """Decide whether the API server has a queue, and whether a lower limit shortens it at no cost."""
        slowness = min(seconds / max(self._quickest[sort], SHORTEST) for sort, seconds in self._round.items())
        done = self._answers / (now - self._first_at)
        before, self._before = self._before, None
        if before is not None and done < SAME_THROUGHPUT * before[1]:
            # The lower limit reduced the throughput, so a higher limit may increase it.
            self._limit, self._safe = max(self._limit, before[0]), min(2 * before[0], self._most)
            self._settled_until = now + SETTLE_TIME
        elif slowness > SLOWDOWN_FACTOR and min(self._round.values()) > MIN_SLOWDOWN and self._may_cut(now):
            # Keep the best throughput as the reference, so that several cuts in a row cannot add up to a larger loss.
            self._before = self._limit, max(done, before[1] if before is not None else 0.0)
            self._safe = max(DECREASE_FACTOR * self._limit, float(MIN_LIMIT_BY_LATENCY))
            self._cut(self._safe, now)
        elif self._cut_at == -math.inf and self._is_steady:
            self._safe = self._most
        self._fade(now)
        self._begin_round(now)

    def _may_cut(self, now: float) -> bool:
        """Return whether a latency cut is allowed."""
        return self._is_steady and self._limit > MIN_LIMIT_BY_LATENCY and now >= self._settled_until

    @property
    def _is_steady(self) -> bool:
        """Whether the limit stayed constant in the round. Otherwise its fastest answers predate the growth."""
        return int(self._limit) == int(self._began_with)

    def _fade(self, now: float) -> None:
        if now >= self._fade_at:
            self._quickest = {sort: 2 * seconds for sort, seconds in self._quickest.items()}
        if now >= self._fade_at or self._fade_at == math.inf:
            self._fade_at = now + FADING
