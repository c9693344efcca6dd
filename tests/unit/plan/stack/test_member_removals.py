"""The members that are removed automatically if others determine the list of members."""

from __future__ import annotations

import pytest

from hearth.plan.stack import member_removals
from hearth.plan.stack.member_removals import SETTLED_AFTER, WINDOW, MemberRemovals
from hearth.template.blueprint import Blueprint, CollectionBlueprint

NAME = "quota"


def make_blueprint(*keys: str, most: int | str | None = "50%", unresolved: bool = False) -> Blueprint:
    """A blueprint with these members of one collection."""
    collection = CollectionBlueprint(
        name=NAME, index=9, members=tuple(f"{NAME}[{key}]" for key in keys), dependents=(), max_removed=most
    )
    found = {} if unresolved else {NAME: collection}
    return Blueprint(
        resources={}, outputs={}, reads={}, collections=found, unresolved=frozenset({NAME} if unresolved else ())
    )


def existing(*keys: str) -> dict[str, list[str]]:
    """The members with objects."""
    return {NAME: [f"{NAME}[{key}]" for key in keys]}


def find_held(removals: MemberRemovals, blueprint: Blueprint, *keys: str) -> list[str]:
    """The keys whose objects are kept."""
    return [key for key in keys if removals.holds(f"{NAME}[{key}]", blueprint)]


def decide(
    blueprint: Blueprint, *keys: str, now: float = 0.0, removals: MemberRemovals | None = None
) -> MemberRemovals:
    """The decision once it is settled and the kind is known to exist. keys: those with objects."""
    removals = removals or MemberRemovals()
    removals.update(blueprint, existing(*keys), now=now)
    removals.confirm(NAME)
    removals.update(blueprint, existing(*keys), now=now + SETTLED_AFTER)
    removals.confirm(NAME)
    removals.update(blueprint, existing(*keys), now=now + SETTLED_AFTER)
    return removals


@pytest.mark.parametrize(
    ("present", "wanted", "most", "held"),
    [
        pytest.param("abcd", "abcd", "50%", "", id="none is removed"),
        pytest.param("abcd", "cd", "50%", "", id="half"),
        pytest.param("abcd", "d", "50%", "abc", id="more than half: none of them"),
        pytest.param("abc", "bc", "50%", "", id="one of few"),
        pytest.param("abc", "c", "50%", "ab", id="several of few"),
        pytest.param("a", "", "50%", "", id="the only one"),
        pytest.param("abcdefghij", "fghij", "50%", "", id="half of ten"),
        pytest.param("abcdefghij", "", "50%", "abcdefghij", id="all"),
        pytest.param("abc", "", "100%", "", id="all, as stated"),
        pytest.param("abcdef", "def", 3, "", id="as many as stated"),
        pytest.param("abcdef", "ef", 3, "abcd", id="more than stated"),
        pytest.param("abcdef", "bcdef", 0, "a", id="never by itself"),
        pytest.param("abcde", "cde", "40%", "", id="a share, rounded down"),
        pytest.param("abcd", "cd", "49%", "ab", id="one more than a share"),
        pytest.param("abcd", "", None, "", id="without a limit"),
    ],
)
def test_how_many_go(present: str, wanted: str, most: int | str | None, held: str) -> None:
    blueprint = make_blueprint(*wanted, most=most)
    assert find_held(decide(blueprint, *present), blueprint, *present) == list(held)


def test_nothing_goes_before_it_is_settled_and_confirmed() -> None:
    removals, blueprint = MemberRemovals(), make_blueprint("b", "c", "d")
    assert removals.update(blueprint, existing(*"abcd"), now=0.0) == {"quota[a]"}
    assert (removals.wake_at, removals.is_undecided) == (SETTLED_AFTER, True)
    removals.confirm(NAME)
    removals.update(blueprint, existing(*"abcd"), now=1.0)
    assert removals.list_questions(now=1.0) == []
    removals.update(blueprint, existing(*"abcd"), now=SETTLED_AFTER)
    assert removals.list_questions(now=SETTLED_AFTER) == [NAME]
    assert find_held(removals, blueprint, *"abcd") == ["a"]
    removals.confirm(NAME)
    assert removals.update(blueprint, existing(*"abcd"), now=SETTLED_AFTER) == {"quota[a]"}
    assert find_held(removals, blueprint, *"abcd") == []


def test_one_that_comes_back_is_no_removal() -> None:
    removals, gone, back = MemberRemovals(), make_blueprint("b"), make_blueprint("a", "b")
    removals.update(gone, existing(*"ab"), now=0.0)
    assert removals.update(back, existing(*"ab"), now=1.0) == {"quota[a]"}
    removals.update(gone, existing(*"ab"), now=10.0)
    assert removals.wake_at == 10.0 + SETTLED_AFTER


def test_removals_within_ten_minutes_count_together() -> None:
    removals = decide(make_blueprint(*"cdef"), *"abcdef")
    later = make_blueprint("e", "f")
    assert find_held(decide(later, *"cdef", now=60.0, removals=removals), later, *"cdef") == ["c", "d"]
    assert find_held(decide(later, *"cdef", now=60.0 + WINDOW, removals=removals), later, *"cdef") == []


def test_the_user_lets_go() -> None:
    blueprint = make_blueprint("d")
    removals = decide(blueprint, *"abcd")
    assert "3 members are no longer wanted" in next(removals.describe("kubectl annotate"))
    removals.release(blueprint)
    assert removals.update(blueprint, existing(*"abcd"), now=9.0) == {f"quota[{key}]" for key in "abc"}
    assert (find_held(removals, blueprint, *"abcd"), removals.is_releasing) == ([], True)
    removals.update(blueprint, existing("d"), now=10.0)
    assert not removals.is_releasing

    restarted = MemberRemovals()
    restarted.release(blueprint)
    restarted.update(blueprint, existing(*"abcd"), now=0.0)
    assert find_held(restarted, blueprint, *"abcd") == []
    assert find_held(decide(make_blueprint(), *"efgh", now=99.0, removals=removals), make_blueprint(), *"efgh") == list(
        "efgh"
    )


def test_members_that_are_not_known_stay() -> None:
    blueprint = make_blueprint(unresolved=True)
    assert find_held(MemberRemovals(), blueprint, *"ab") == ["a", "b"]


def test_a_collection_that_leaves_the_template() -> None:
    blueprint = Blueprint(resources={}, outputs={}, reads={})
    removals = decide(make_blueprint("d"), *"abcd")
    removals.update(blueprint, {}, now=20.0)
    assert find_held(removals, blueprint, *"abcd") == []


def test_shares_of_few() -> None:
    assert [member_removals.is_within(count, of=3, most="50%") for count in (1, 2, 3)] == [True, False, False]
