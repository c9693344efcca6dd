"""What a process remembers of objects goes with them."""

from __future__ import annotations

from hearth.plan.state import memory as world_module
from support.units import blueprints
from support.units.blueprints import World

PAIR = blueprints.make_blueprint({"kept": [], "lost": []})


def test_what_is_made_again_and_again_is_forgotten_in_time() -> None:
    """Each time it is another object; nothing is lost of those that are there."""
    world, board = World(), blueprints.make_board(PAIR)
    world.settle(board)
    memory = world.memory
    [kept] = world.of("kept")
    memory.created.add(kept.uid)
    memory.ready.add(kept.uid)
    most = 0
    for number in range(3 * world_module.SLACK):
        gone = f"gone-{number}"
        memory.ownership_baseline[gone] = ("hash", kept.ownership)
        for uids in (memory.created, memory.ready, memory.counted_failures):
            uids.add(gone)
        memory.prune(world)
        most = max(
            most, len(memory.ownership_baseline), len(memory.created), len(memory.ready), len(memory.counted_failures)
        )

    assert most <= 2 * len(PAIR.resources) + world_module.SLACK + 1
    assert kept.uid in memory.created & memory.ready


def test_a_large_stack_is_not_looked_through_at_every_pass() -> None:
    """Only when about as much was added as was found the last time."""
    looks = 0

    class Counted(World):
        def resources(self) -> list[str]:
            nonlocal looks
            looks += 1
            return list(super().resources())

    world = Counted()
    world.settle(blueprints.make_board(blueprints.make_blueprint({f"a{number}": [] for number in range(1000)})))
    looks = 0
    uids = [child.uid for name in list(World.resources(world)) for child in world.of(name)]
    for uid in uids:
        world.memory.created.add(uid)
        world.memory.prune(world)

    assert looks <= 4
