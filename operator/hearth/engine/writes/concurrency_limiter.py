"""How many writes of children may be on their way to the API server at once, learnt from how it answers.

Pure arithmetic: the clock is an argument, so it is tried in simulated time. Must not know Stacks, queues or requests.

It begins with few and lets one more go for every answer, as long as nothing speaks against it. Against it speak
- the server's own flow control, which turns requests away: half as many from then on, and none at all for as long as
  the server asks for;
- silence while nobody else is answered either: the server is away, and few are enough to see when it is back;
- time: where even the quickest answer of a round takes several times as long as that sort of write ever did, there is a
  queue before the server, in which everybody else waits as well. So there are a few less, and that stays so only where
  as much is done as before. Slow answers alone are no reason: a webhook may be slow, or another one's work.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

INITIAL_LIMIT = 4
"""Writes in flight at first: enough to keep a small server busy, and so few that it shows how quick it can be."""
MIN_LIMIT = 1
PROBE_LIMIT = 4
"""While the server is away: that one which hangs for half a minute does not hide that others are answered again."""
MIN_LIMIT_BY_LATENCY = 8
"""However long answers take, so many may go: they keep the cores of a small server busy."""
SLOWDOWN_FACTOR = 4.0
"""Times the quickest of its sort, from which an answer has waited in a queue: two are nothing but chance, or an etcd that
writes several things in one go."""
MIN_SLOWDOWN = 0.1
"""Seconds; where the quickest come sooner, nobody is kept waiting: a small Stack needs some seven requests, and waits a second
between two statuses anyway."""
DECREASE_FACTOR = 0.7
"""Of the limit, that a cut because of time leaves."""
SAME_THROUGHPUT = 0.9
"""Of what was done in the same time before: less than that means that the cut costs something, and it is taken back.
Others who begin to write at such a moment take a part, too."""
SETTLE_TIME = 15.0
"""Seconds for which nothing is cut because of time once that was of no use: trying it costs a hundredth then."""
THROTTLED_FACTOR = 0.5
SAFE_FACTOR = 0.8
"""Of the number at which the server turned one away: up to here it grows with every answer."""
GROWTH = 7.0
"""Seconds after which the safe number is exceeded by one; by eight after twice as long, by 27 after thrice: long enough
near a number that the server refuses, soon at the top where it no longer does."""
MAX_PAUSE = 60.0
"""Seconds; a server that asks for more is asked again nevertheless."""
LEAST_ROUND = 8
"""Answers from which something can be told."""
SHORTEST_ROUND = 0.5
"""Seconds; what is done in less hangs on chance."""
SHORTEST = 0.001
"""Seconds; what is quicker was not quicker for the server's sake."""
FADING = 600.0
"""Seconds after which the quickest answers are believed half as much, unless there were such again."""


class ConcurrencyLimiter:
    """The number for one API server. Moments are monotonic seconds."""

    def __init__(self, *, most: int) -> None:
        """most: writes in flight, whatever the server bears."""
        self._most = float(most)
        self._limit = min(float(INITIAL_LIMIT), self._most)
        self._safe = min(max(THROTTLED_FACTOR * self._most, float(MIN_LIMIT_BY_LATENCY)), self._most)
        """Up to here it grows with every answer, as far as the time of answers goes: to half before that is known."""
        self._borne = self._most
        """The same, as far as the server's flow control goes."""
        self._cut_at = -math.inf
        self._has_borne = False
        """Whether anything was accepted of what was begun after the last cut."""
        self._held_until = -math.inf
        self._answered_at = -math.inf
        """When the server said anything at all."""
        self._quickest: dict[Hashable, float] = {}
        """By sort of write the seconds that the quickest of them took."""
        self._fade_at = math.inf
        self._settled_until = -math.inf
        self._before: tuple[float, float] | None = None
        """The limit before a cut because of time that is on trial, and the writes a second before the first of them."""
        self._begin_round(-math.inf)

    @property
    def limit(self) -> int:
        """Writes that may be in flight, apart from any hold; at least one."""
        return int(self._limit)

    def find_limit(self, now: float) -> int:
        """Writes that may be in flight now; 0 while the server wants none."""
        return int(self._limit) if now >= self._held_until else 0

    def find_pause(self, now: float) -> float:
        """Seconds for which the server wants none."""
        return max(0.0, self._held_until - now)

    def on_success(self, sort: Hashable, *, begun: float, now: float, in_flight: int) -> None:
        """A write was accepted. sort: what takes about as long as others of that sort; in_flight: this one included."""
        self._answered_at = now
        seconds = now - begun
        if seconds < self._quickest.get(sort, math.inf):
            self._quickest[sort] = seconds
        if begun >= self._cut_at:
            self._has_borne = True
            # Where the limit is not made use of, nothing tells whether more would be borne.
            if self._limit < self._most and 2 * in_flight >= self._limit:
                self._grow(now)
        self._answers += 1
        if begun >= self._round_at:
            self._note(sort, seconds, now)

    def on_rejected(self, *, now: float) -> None:
        """A write was refused for what it is: the server is there, and that is all."""
        self._answered_at = now

    def on_throttled(self, after: float, *, begun: float, now: float, in_flight: int) -> None:
        """The server's flow control turned a write away, and wants none for `after` seconds."""
        self._answered_at = now
        self._held_until = max(self._held_until, now + min(after, MAX_PAUSE))
        if begun <= self._cut_at:
            # It tells of the number before that.
            return
        reached = min(self._limit, float(in_flight))
        if self._has_borne:
            # Else it takes nothing at all, whatever the number, and says nothing of what it bears at better times.
            self._borne = max(SAFE_FACTOR * reached, float(MIN_LIMIT))
        self._before = None
        self._cut(max(THROTTLED_FACTOR * reached, float(MIN_LIMIT)), now)

    def on_no_answer(self, *, begun: float) -> None:
        """No answer came to a write."""
        # Where others were answered meanwhile, it is something behind the server that hangs.
        if begun > self._answered_at:
            self._limit = min(self._limit, float(PROBE_LIMIT))

    def _grow(self, now: float) -> None:
        allowed = min(self._safe, self._borne)
        if self._limit + 1 > allowed:
            allowed += ((now - self._cut_at) / GROWTH) ** 3 if self._cut_at > -math.inf else 0.0
        before, self._limit = self._limit, max(self._limit, min(self._limit + 1, allowed, self._most))
        if before < self._safe <= self._limit:
            # Grown as far as is safe: from here on a round has something to tell.
            self._begin_round(now)

    def _cut(self, limit: float, now: float) -> None:
        self._limit, self._cut_at, self._has_borne = limit, now, False
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        """What is begun from now on tells what this limit does."""
        self._round_at, self._began_with = now, self._limit
        self._round: dict[Hashable, float] = {}
        """By sort of write the seconds that the quickest of them took."""
        self._first_at = math.inf
        """When the first answer of the round came; what is done is counted from there."""
        self._answers = 0

    def _note(self, sort: Hashable, seconds: float, now: float) -> None:
        """An answer to what was begun in this round."""
        if seconds < self._round.get(sort, math.inf):
            self._round[sort] = seconds
        if self._first_at == math.inf:
            self._first_at, self._answers = now, 0
        elif self._answers >= max(LEAST_ROUND, self._limit) and now - self._first_at >= SHORTEST_ROUND:
            self._end_round(now)

    def _end_round(self, now: float) -> None:
        """Whether there is a queue before the server, and whether fewer make it shorter at no cost."""
        slowness = min(seconds / max(self._quickest[sort], SHORTEST) for sort, seconds in self._round.items())
        done = self._answers / (now - self._first_at)
        before, self._before = self._before, None
        if before is not None and done < SAME_THROUGHPUT * before[1]:
            # If less does less, more may do more.
            self._limit, self._safe = max(self._limit, before[0]), min(2 * before[0], self._most)
            self._settled_until = now + SETTLE_TIME
        elif slowness > SLOWDOWN_FACTOR and min(self._round.values()) > MIN_SLOWDOWN and self._may_cut(now):
            # Of several cuts in a row none may cost more than that, and neither may all of them.
            self._before = self._limit, max(done, before[1] if before is not None else 0.0)
            self._safe = max(DECREASE_FACTOR * self._limit, float(MIN_LIMIT_BY_LATENCY))
            self._cut(self._safe, now)
        elif self._cut_at == -math.inf and self._is_steady:
            self._safe = self._most
        self._fade(now)
        self._begin_round(now)

    def _may_cut(self, now: float) -> bool:
        """Whether there may be fewer because of time."""
        return self._is_steady and self._limit > MIN_LIMIT_BY_LATENCY and now >= self._settled_until

    @property
    def _is_steady(self) -> bool:
        """Whether the round tells of one number: its quickest answers are those from before it grew."""
        return int(self._limit) == int(self._began_with)

    def _fade(self, now: float) -> None:
        if now >= self._fade_at:
            self._quickest = {sort: 2 * seconds for sort, seconds in self._quickest.items()}
        if now >= self._fade_at or self._fade_at == math.inf:
            self._fade_at = now + FADING
