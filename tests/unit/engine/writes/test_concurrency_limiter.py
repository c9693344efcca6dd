"""The limit of writes in flight follows the capacity of the server: tested against simulated servers, in simulated
time.
"""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Callable

import pytest

from hearth.engine.writes.concurrency_limiter import MIN_LIMIT_BY_LATENCY, ConcurrencyLimiter

MOST = 32


class Server:
    """Serves several requests at a time, in order of arrival, and rejects requests when its queue is full."""

    def __init__(self, *, cores: int, seconds: Callable[[str], float], bears: int = 1_000_000) -> None:
        """seconds: work per request, by sort; bears: the maximum number of requests, served and waiting."""
        self.cores = cores
        self.seconds = seconds
        self.bears = bears
        self.wait: Callable[[str], float] = lambda sort: 0.0
        """Extra seconds per request that do not occupy the server: a webhook, network latency."""
        self.is_away = False


class Run:
    """A client with endless work that keeps as many requests in flight as the limiter allows."""

    def __init__(self, server: Server, *, sorts: tuple[str, ...] = ("apply",), most: int = MOST) -> None:
        self.server = server
        self.limiter = ConcurrencyLimiter(most=most)
        self.sorts = sorts
        self.now = 0.0
        self.done = 0
        self.refused = 0
        self.in_flight = 0
        self.latest = 0.0
        """Seconds until the last response."""
        self._sent = 0
        self._free = [0.0] * server.cores
        self._ends: list[tuple[float, int, str, float, str]] = []

    def _send(self) -> None:
        sort = self.sorts[self._sent % len(self.sorts)]
        self._sent += 1
        self.in_flight += 1
        how, end = "done", self.now + 0.001
        if self.server.is_away:
            how = "silent"
        elif self.in_flight > self.server.bears:
            how = "busy"
        else:
            begun = max(self.now, heapq.heappop(self._free))
            end = begun + self.server.seconds(sort)
            heapq.heappush(self._free, end)
            end += self.server.wait(sort)
        heapq.heappush(self._ends, (end, self._sent, how, self.now, sort))

    def go_on(self, seconds: float) -> int:
        """Let time pass; return the number of writes that were accepted."""
        until, before = self.now + seconds, self.done
        while True:
            while self.in_flight < self.limiter.find_limit(self.now):
                self._send()
            next_end = self._ends[0][0] if self._ends else float("inf")
            hold = self.limiter.find_pause(self.now)
            moment = min(next_end, self.now + hold if hold else float("inf"))
            if moment > until:
                self.now = until
                return self.done - before
            self.now = moment
            if moment == next_end:
                self._answer()

    def _answer(self) -> None:
        _, _, how, begun, sort = heapq.heappop(self._ends)
        in_flight, self.in_flight = self.in_flight, self.in_flight - 1
        self.latest = self.now - begun
        if how == "done":
            self.done += 1
            self.limiter.on_success(sort, begun=begun, now=self.now, in_flight=in_flight)
        elif how == "busy":
            self.refused += 1
            self.limiter.on_throttled(1.0, begun=begun, now=self.now, in_flight=in_flight)
        else:
            self.limiter.on_no_answer(begun=begun)


def work(seconds: float) -> Callable[[str], float]:
    """All requests take this amount of work."""
    return lambda sort: seconds


def test_it_settles_where_a_small_server_is_busy_and_answers_soon() -> None:
    run = Run(Server(cores=2, seconds=work(0.04)))
    assert run.go_on(12) == pytest.approx(600, rel=0.02)
    assert run.limiter.limit == MIN_LIMIT_BY_LATENCY
    assert run.latest == pytest.approx(0.16)


def test_the_same_where_no_two_requests_are_alike() -> None:
    chance = random.Random(7)
    run = Run(Server(cores=2, seconds=lambda sort: chance.uniform(0.02, 0.06)))
    limits = []
    for _ in range(30):
        run.go_on(2)
        limits.append(run.limiter.limit)
    assert run.done == pytest.approx(3000, rel=0.05)
    assert statistics.median(limits) < MOST * 3 / 4


def test_no_cut_stays_that_costs_something() -> None:
    server = Server(cores=1, seconds=work(0.0))
    run = Run(server)
    # All writes in flight share the server, so one of many takes six times as long as a single write.
    server.wait = lambda sort: 0.02 + 0.1 * (run.in_flight / MOST)
    run.go_on(3)
    done = [run.go_on(1) for _ in range(20)]
    assert sum(done) > 0.9 * len(done) * MOST / 0.12


@pytest.mark.parametrize(
    ("cores", "seconds", "way"),
    [pytest.param(16, 0.004, 0.0, id="a large server"), pytest.param(2, 0.001, 0.05, id="a server far away")],
)
def test_all_are_in_flight_where_a_server_bears_them(cores: int, seconds: float, way: float) -> None:
    server = Server(cores=cores, seconds=work(seconds))
    server.wait = lambda sort: way
    run = Run(server)
    run.go_on(0.9)
    assert run.limiter.limit == MOST
    run.go_on(0.5)
    assert run.limiter.limit == MOST


def test_a_webhook_that_becomes_slow_is_no_reason_to_go_slower_for_long() -> None:
    server = Server(cores=16, seconds=work(0.02))
    run = Run(server)
    run.go_on(1)
    server.wait = lambda sort: 0.5
    assert run.go_on(60) > 0.95 * 60 * MOST / 0.54
    server.wait = lambda sort: 0.0
    run.go_on(1)
    assert run.limiter.limit == MOST


def test_one_slow_kind_throttles_no_other_kind() -> None:
    server = Server(cores=16, seconds=work(0.004))
    run = Run(server, sorts=("slow", "quick"))
    run.go_on(1)
    server.wait = lambda sort: 0.5 if sort == "slow" else 0.0
    for _ in range(20):
        run.go_on(0.2)
        assert run.limiter.limit == MOST


def test_a_server_that_turns_requests_away_is_asked_for_less_and_no_more_than_now_and_then_for_too_much() -> None:
    run = Run(Server(cores=2, seconds=work(0.004), bears=6))
    run.go_on(3)
    before = run.refused
    assert run.go_on(24) > 0.8 * 24 * 500
    assert run.refused - before <= 8


def test_nothing_is_begun_while_the_server_wants_nothing_and_never_nothing_at_all() -> None:
    run = Run(Server(cores=2, seconds=work(0.004), bears=0))
    run.go_on(20)
    assert run.limiter.limit == 1
    assert run.refused == 4 + 2 + 18
    run.server.bears = 1_000_000
    assert run.go_on(2) > 450


def test_a_server_that_is_away_is_asked_by_few_and_at_once_by_all_when_it_is_back() -> None:
    run = Run(Server(cores=16, seconds=work(0.004)))
    run.go_on(1)
    run.server.is_away = True
    run.go_on(5)
    assert run.limiter.limit == 4
    run.server.is_away = False
    run.go_on(0.1)
    assert run.limiter.limit == MOST


def test_silence_behind_the_server_is_not_its_own() -> None:
    limiter = ConcurrencyLimiter(most=MOST)
    for moment in range(100):
        limiter.on_success("quick", begun=moment, now=moment + 0.004, in_flight=MOST)
    assert limiter.limit == MOST
    limiter.on_no_answer(begun=70.0)
    assert limiter.limit == MOST
    limiter.on_no_answer(begun=100.0)
    assert limiter.limit < MOST


def test_what_is_refused_for_itself_changes_nothing() -> None:
    limiter = ConcurrencyLimiter(most=MOST)
    for _ in range(100):
        limiter.on_rejected(now=1.0)
    assert limiter.limit == 4


def test_a_limit_that_is_not_made_use_of_stays() -> None:
    limiter = ConcurrencyLimiter(most=MOST)
    for moment in range(100):
        limiter.on_success("apply", begun=moment, now=moment + 0.004, in_flight=1)
    assert limiter.limit == 4


@pytest.mark.parametrize("most", [1, 2, 3])
def test_few_are_allowed_where_the_user_wants_few(most: int) -> None:
    run = Run(Server(cores=1, seconds=work(0.004), bears=1), most=most)
    for _ in range(20):
        run.go_on(0.2)
        assert 1 <= run.limiter.limit <= most
    assert run.done > 30
