"""No namespace uses more than half of the memory that the others leave; collected objects no longer count."""

from __future__ import annotations

from hearth.model.memory_shares import SMALL, MemoryShares

TOTAL = 1024 * SMALL


class Owner:
    """An owner of bytes."""


def make_shares() -> MemoryShares:
    """Shares that hold nothing yet."""
    shares = MemoryShares()
    shares.total = TOTAL
    return shares


def test_each_namespace_leaves_half_of_what_is_free() -> None:
    shares, owner = make_shares(), Owner()
    rooms = []
    for namespace in ("a", "b", "c"):
        rooms.append(shares.find_room(namespace))
        shares.add(owner, namespace, rooms[-1])

    assert rooms == [TOTAL // 2, TOTAL // 4, TOTAL // 8]
    assert shares.find_room("a") == 0


def test_what_is_collected_is_released() -> None:
    shares, owner, other = make_shares(), Owner(), Owner()
    shares.keep(owner, "a", 2 * SMALL)
    shares.keep(owner, "a", 3 * SMALL)
    shares.keep(other, "b", SMALL + 1)
    del owner

    assert shares.total_held == SMALL + 1
    assert shares.find_room("a") == (TOTAL - SMALL - 1) // 2


def test_small_amounts_are_not_counted_until_they_grow() -> None:
    shares, owner = make_shares(), Owner()
    shares.keep(owner, "a", SMALL)
    assert shares.total_held == 0
    shares.keep(owner, "a", SMALL + 1)
    shares.keep(owner, "a", 1)
    assert shares.total_held == 1
