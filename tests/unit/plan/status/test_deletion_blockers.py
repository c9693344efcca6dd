"""What holds up a deletion, named so that a user can act."""

from __future__ import annotations

import dataclasses

from hearth.model.child import Child
from hearth.plan.retry.attempt_ids import RemovalAttempt
from hearth.plan.retry.backoff import Attempt
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.status import deletion_blockers
from support.units import blueprints
from support.units.blueprints import World

DENIED = Attempt(
    attempt_id=RemovalAttempt(uid="uid-1"),
    failures=1,
    retry_at=9.0,
    reason="Denied",
    message="cannot delete configmap/shop-a",
    is_final=False,
)


def leaving(**change: object) -> tuple[World, StackPlanner, Child]:
    """A Stack of one object, `a`, that is being deleted."""
    world = World()
    world.settle(blueprints.make_board(blueprints.make_blueprint({"a": []})))
    child = dataclasses.replace(world.of("a")[0], **change)  # type: ignore[arg-type]  # a table
    world.children["a"] = [child]
    board = blueprints.make_board(blueprints.make_blueprint({}))
    world.refresh(board)
    return world, board, child


def test_nothing_holds_up_what_only_takes_time() -> None:
    """Neither what is still to be deleted nor what ends by itself."""
    for change in ({}, {"finalizers": ("x/y",)}, {"deleting": True}):
        world, board, _ = leaving(**change)
        assert deletion_blockers.find_deletion_block(board, world.memory, beyond="") is None


def test_finalizers_are_named_with_the_object_that_they_hold() -> None:
    """Anyone who put them there can be found."""
    world, board, _ = leaving(deleting=True, finalizers=("x/y", "x/z"))
    found = deletion_blockers.find_deletion_block(board, world.memory, beyond="")
    assert found is not None
    assert (found.type, found.reason, found.message) == (
        "DeletionBlocked",
        "HeldByFinalizers",
        "configmap/shop-a (held by x/y, x/z)",
    )


def test_a_refused_deletion_comes_first() -> None:
    """It is tried again, and needs a user all the same."""
    world, board, child = leaving()
    world.memory.attempts[child.uid] = DENIED
    found = deletion_blockers.find_deletion_block(board, world.memory, beyond="waits for probe/x")
    assert found is not None
    assert (found.reason, found.message) == ("Denied", "cannot delete configmap/shop-a")


def test_a_refusal_is_forgotten_once_the_object_goes() -> None:
    """Its answer may have been lost."""
    world, board, child = leaving()
    world.memory.attempts[child.uid] = DENIED
    world.children["a"] = [dataclasses.replace(child, deleting=True, resource_version=9)]
    world.refresh(board)
    assert board.find_failed_deletions(world.memory) == []


def test_what_only_the_server_knows_is_reported_where_nothing_else_is() -> None:
    """All that is known is gone, and yet there is something."""
    board = blueprints.make_board(blueprints.make_blueprint({}))
    found = deletion_blockers.find_deletion_block(board, World().memory, beyond="waits for probe/x")
    assert found is not None
    assert (found.reason, found.message) == ("NotGone", "waits for probe/x")


def test_no_more_are_named_than_a_person_reads() -> None:
    """The rest is a number."""
    _, _, child = leaving()
    assert deletion_blockers.describe_all(iter([child] * 7), count=7).endswith("configmap/shop-a and 2 more")
