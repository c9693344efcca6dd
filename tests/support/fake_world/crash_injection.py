"""Plays every story with a disturbance at one write: the operator is killed before or after it, or the write is lost or
refused.

The result must be the same as without a disturbance, and nothing may be created twice.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from support import virtual_time
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import request_faults
from support.server.request_faults import Interruption, Request
from support.stories import story
from support.stories.story import Story
from support.stories.story_runner import Play

KILLS = ("kill-before", "kill-after")
FAULTS = ("lost", "unreachable", "server-error", "internal", "unavailable", "busy", "conflict")
WAYS = (*KILLS, *FAULTS)
CONCURRENCIES = (1, 2, 5, 64)
"""Limits of child writes in flight; one is chosen if requests take different times."""
AT_ONCE = 0.02
"""Maximum seconds between two writes between which only events in transit can arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The outcome of a story."""

    writes: tuple[str, ...]
    """The verbs of its writes, in order."""
    made: Counter[tuple[str, ...]]
    """Number of creations of each object."""
    wrong: str = ""
    """The difference from the story, or ""."""


def perform(
    played: Story,
    *,
    delay: float | None = None,
    lengths: random.Random | None = None,
    interruption: Interruption | None = None,
    log: Log | None = None,
    play_as: type[Play] = Play,
) -> Performance:
    """Play a story in a fresh world, with this performance.

        delay: seconds that events travel; lengths: of requests, from a millisecond to a second each way; log: is
    notified of every write.
    """
    worlds: list[FakeWorld] = []

    async def play(world: FakeWorld) -> None:
        worlds.append(world)
        world.traffic.interruption = interruption
        if log is not None:
            log.follow(world)
        world.event_delay = delay
        if lengths is not None:
            world.concurrency = lengths.choice(CONCURRENCIES)
            world.find_latency = lambda: 10 ** lengths.uniform(-3, 0)
        is_strict = interruption is None and delay is None and lengths is None
        await play_as(played, world, is_strict=is_strict).perform()

    wrong = ""
    try:
        fake_world.run(play)
    except (AssertionError, virtual_time.NothingLeft) as error:
        wrong = str(error) or repr(error)
    (world,) = worlds
    verbs = tuple(request.verb for request in world.traffic.requests if request.verb in request_faults.WRITES)
    return Performance(writes=verbs, made=world.witness.made, wrong=wrong)


class Log:
    """The writes that need not be disturbed, because another one is equivalent. The first write of a story is
    number 1.
    """

    def __init__(self) -> None:
        self.following: set[int] = set()
        """Writes that follow the previous one so closely that a crash before them equals a crash after the previous
        one."""
        self.refused: set[int] = set()
        """Writes that are rejected even without disturbance: a crash after them equals a crash before them, and another
        rejection changes nothing."""
        self._before: tuple[float, object] = (-math.inf, None)

    def follow(self, world: FakeWorld) -> None:
        """Be notified of that world's writes."""
        self.refused = world.traffic.refused

        def note(request: Request) -> None:
            if request.verb not in request_faults.WRITES:
                return
            now, circumstances = virtual_time.get_loop().time(), world.circumstances
            then, before = self._before
            if circumstances == before and now - then < AT_ONCE:
                # Count the write after every listener was notified of it.
                self.following.add(world.traffic.writes + 1)
            self._before = (now, circumstances)

        world.traffic.listeners.append(note)

    def has_other(self, write: int, how: str) -> bool:
        """Whether another disturbance is equivalent to this one at that write."""
        if write in self.refused and how != "kill-before":
            return True
        return write in self.following and how == "kill-before"


def choose_ways(number: int, verb: str) -> tuple[str, ...]:
    """Choose how to disturb one write in the long tests; `main` tries every way at every write.

        All kinds of death at every second write, so that the operator dies once between any two writes, and a fault at
    every fourth write, in turn. A death after a status write mostly equals a death before the next write, and little
    depends on statuses, so only every fourth status is refused. number: the index of the write among statuses, or among
    all others.
    """
    if number % 2:
        return ()
    fault = () if number % 4 else (FAULTS[number // 4 % len(FAULTS)],)
    return fault if verb == "status" else (*KILLS, *fault)


def choose_some(number: int, verb: str) -> tuple[str, ...]:
    """Choose ways only for every eighth write. number: see `choose_ways`."""
    return () if number % 8 else choose_ways(number, verb)


def disturb(
    played: Story,
    *,
    choose: Callable[[int, str], tuple[str, ...]] = choose_ways,
    play_as: type[Play] = Play,
    unrefused: Collection[str] = (),
) -> Iterator[str]:
    """Play a story with every write disturbed in each chosen way; return the failures, one per line.

    unrefused: verbs of writes that are only disturbed by deaths.
    """
    log = Log()
    usual = perform(played, log=log, play_as=play_as)
    if usual.wrong:
        yield f"undisturbed: {usual.wrong}"
    # Writes that repeat even without disturbance repeat for as long as the story lasts.
    retried = {whose[:2] for whose, made in usual.made.items() if made > 1}
    # Start each story with a different fault. Otherwise, some faults would only occur at the end of the longest
    # stories.
    begin = zlib.crc32(played.slug.encode())
    statuses, others = itertools.count(begin), itertools.count(begin)
    for write, verb in enumerate(usual.writes, 1):
        for how in choose(next(statuses if verb == "status" else others), verb):
            is_refusal = how not in KILLS
            if log.has_other(write, how) or (is_refusal and verb in unrefused):
                continue
            if is_refusal and verb in request_faults.CHILD_WRITES and played.counts_each_failure:
                continue
            where = f"{how} at write {write} of {len(usual.writes)} ({verb})"
            found = perform(played, interruption=Interruption(write=write, how=how), play_as=play_as)
            if found.wrong:
                yield f"{where}: {found.wrong}"
                continue
            for whose, made in found.made.items():
                # A resource whose stated name moves may create its next object under the former incarnation.
                is_more = count_made(found, whose) > count_made(usual, whose)
                if made > max(1, usual.made[whose]) and is_more and whose[:2] not in retried:
                    yield f"{where}: {whose[1]} was made {made} times"


def count_made(performance: Performance, whose: tuple[str, ...]) -> int:
    """Return how many objects were created for the resource of that object, in all incarnations."""
    return sum(made for each, made in performance.made.items() if each[:2] == whose[:2])


def main(slugs: list[str]) -> None:
    """Disturb these stories (default: all) in every way at every write, and print the failures."""
    for played in story.load_all():
        if not slugs or played.slug in slugs:
            print(f"{played.slug}: {played.title}")
            for text in disturb(played, choose=lambda write, verb: WAYS):
                print(f"  {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
