"""Numbers of revisions: none is ever given to two definitions."""

from __future__ import annotations

from hearth.engine.definition.revision_builder import RevisionNumbers


def test_the_next_number_is_the_one_after_the_highest() -> None:
    """Known numbers may come in any order, and again."""
    numbers = RevisionNumbers()
    numbers.take([2, 7])
    numbers.take([3])
    numbers.take([])
    assert numbers.assign("a") == 8


def test_repeated_attempts_get_the_same_number() -> None:
    """Otherwise an API server that is away for an hour uses up a thousand of them."""
    numbers = RevisionNumbers()
    assert [numbers.assign("a"), numbers.assign("a")] == [1, 1]


def test_another_definition_gets_another_number() -> None:
    """The first one may be stored, although its request failed and the cache does not show it."""
    numbers = RevisionNumbers()
    assert [numbers.assign("a"), numbers.assign("b"), numbers.assign("a")] == [1, 2, 3]


def test_a_number_that_others_use_is_left_to_them() -> None:
    """A definition that was tried before gets a new one."""
    numbers = RevisionNumbers()
    assert numbers.assign("a") == 1
    numbers.take([4])
    assert numbers.assign("a") == 5
