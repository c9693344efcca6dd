"""Notifications that wait: their order, their limits, and the shares of namespaces."""

from __future__ import annotations

import itertools

from hearth.notifications import fair_queue
from hearth.notifications.fair_queue import FairQueue
from hearth.notifications.messages import Message


def make_message(namespace: str = "a", id_: str = "1") -> Message:
    return Message(id=id_, namespace=namespace, type="", content=b"", content_type="")


def take_all(queue: FairQueue, *, now: float) -> list[str]:
    """`namespace/id` of all that are due, in order."""
    taken = iter(lambda: queue.take(now=now), None)
    return [f"{each.message.namespace}/{each.message.id}" for each in taken]


def fill(queue: FairQueue, namespace: str, number: int) -> list[Message]:
    """The dropped notifications of as many, slowly enough for the rate."""
    pause = fair_queue.RATE_SECONDS / fair_queue.RATE
    put = (queue.put(make_message(namespace, str(each)), now=each * pause) for each in range(number))
    return [each for each in put if each is not None]


def test_namespaces_take_turns() -> None:
    queue = FairQueue()
    for namespace, id_ in [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1")]:
        assert queue.put(make_message(namespace, id_), now=0.0) is None

    assert take_all(queue, now=0.0) == ["a/1", "b/1", "c/1", "a/2", "a/3"]


def test_a_namespace_beyond_its_rate_loses_only_its_own() -> None:
    queue = FairQueue()
    dropped = [queue.put(make_message("a", str(each)), now=0.0) for each in range(1000)]

    assert [each for each in dropped if each is None] == [None] * fair_queue.RATE
    assert queue.put(make_message("b"), now=0.0) is None
    assert queue.put(make_message("a"), now=fair_queue.RATE_SECONDS + 1) is None


def test_the_rate_forgets_namespaces_that_are_quiet() -> None:
    queue = FairQueue()
    for number in range(1000):
        queue.put(make_message(f"n{number}"), now=number * fair_queue.RATE_SECONDS)

    assert len(queue._accepted) == 1


def test_a_full_namespace_drops_its_oldest() -> None:
    queue = FairQueue()
    queue.put(make_message("b"), now=0.0)

    dropped = fill(queue, "a", fair_queue.MAX_PER_NAMESPACE + 2)

    assert [each.id for each in dropped] == ["0", "1"]
    assert len(queue) == fair_queue.MAX_PER_NAMESPACE + 1


def test_a_full_queue_drops_from_the_namespace_with_the_most() -> None:
    queue = FairQueue()
    fill(queue, "greedy", fair_queue.MAX_PER_NAMESPACE)
    numbers = itertools.count()
    while len(queue) < fair_queue.MAX_WAITING:
        queue.put(make_message(f"n{next(numbers)}"), now=0.0)

    dropped = queue.put(make_message("late"), now=0.0)

    assert dropped is not None
    assert (dropped.namespace, len(queue)) == ("greedy", fair_queue.MAX_WAITING)


def test_a_failed_notification_waits_longer_each_time_and_delays_no_other() -> None:
    queue = FairQueue()
    queue.put(make_message("a", "poison"), now=0.0)
    waiting = queue.take(now=0.0)
    assert waiting is not None
    assert queue.put_back(waiting, now=0.0)
    queue.put(make_message("a", "fine"), now=0.0)

    assert (take_all(queue, now=0.5), queue.find_next_due()) == (["a/fine"], 1.0)
    assert queue.take(now=1.0) is waiting
    queue.put_back(waiting, now=1.0)
    assert queue.find_next_due() == 3.0


def test_a_notification_is_given_up_after_its_lifetime() -> None:
    queue, now, attempts = FairQueue(), 0.0, 0
    queue.put(make_message(), now=now)
    while (due := queue.find_next_due()) is not None:
        now = due
        waiting = queue.take(now=now)
        assert waiting is not None
        attempts += 1
        queue.put_back(waiting, now=now)

    assert (len(queue), attempts) == (0, 15)
    assert now <= fair_queue.LIFETIME
