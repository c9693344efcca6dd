"""The allowed cost of one object while an adversary undoes the writes to it, according to the step governor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hearth.model import retry_delays
from hearth.plan.retry import step_governor
from support.server.request_faults import Request
from support.stateful import adversaries

FOLLOWED_SECONDS = 30.0
"""Minimum seconds per write on average, if values change forever: one write in sixty seconds, plus the free writes that
it earns."""
PER_WRITE = 7
"""Maximum requests per write: the write, two dry runs, and reads for its reason, its obstacle and its message."""
WRITES = frozenset({"apply", "delete", "release"})


def find_bound(seconds: float) -> float:
    """How many writes one object may cost in that time, for any cause.

    Delays begin at the level `FREE` and double with each level, until they reach the maximum. A write of a definition
    that other values made another one adds `FOLLOWED` of a level. So there are `FREE / FOLLOWED` free writes, and for
    each doubling of the time `1 / FOLLOWED` more, then one in each maximum delay, or one in each half minute.
    """
    per_level = 1 / step_governor.FOLLOWED
    doublings = math.log2(1 + min(seconds, retry_delays.STEP.longest))
    return step_governor.FREE * per_level + per_level * doublings + seconds / FOLLOWED_SECONDS


def find_excess(requests: Sequence[Request], seconds: float, *, beginnings: int = 1) -> dict[str, int]:
    """The objects that exceed their allowed cost, with their writes or requests.

        beginnings: how often the count may have restarted: after a user's change, a granted permission, or with another
    operator.
    """
    sent = [each for each in requests if each.kind.name not in adversaries.OWN_KINDS]
    writes = adversaries.count_by_object([each for each in sent if each.verb in WRITES])
    bound = find_bound(seconds) * beginnings
    excess = {name: count for name, count in writes.items() if count > bound}
    excess |= {name: n for name, n in adversaries.count_by_object(sent).items() if n > PER_WRITE * bound}
    return excess
