"""Collections that grow with the lists they read, and their limits."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from hearth.engine.read_circles import GROWN_MEMBERS, MEMBERS_FOR_EACH, Maker, ReadCircles, StackReading


@dataclass
class Others:
    """The nested Stacks, and the Stacks that are not loaded yet."""

    parents: dict[str, str] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)

    def find_parent(self, uid: str) -> str:
        return self.parents.get(uid, "")

    def is_awaited(self, uid: str) -> bool:
        return uid in self.awaited


def read(**makers: list[Maker]) -> StackReading:
    """The objects that a Stack reads, by resource."""
    stacks = frozenset(uid for found in makers.values() for uid, _ in found)
    return StackReading(stacks=stacks, makers={name: frozenset(found) for name, found in makers.items()})


MIRRORS = {"a": read(copy=[("b", "offer")]), "b": read(copy=[("a", "offer")])}
MUTUAL = {"a": read(c=[("b", "c")]), "b": read(c=[("a", "c")])}
THREE = {"a": read(c=[("b", "c")]), "b": read(c=[("d", "c")]), "d": read(c=[("a", "c")])}
ITSELF = {"a": read(c=[("a", "c")])}
OUTPUTS = {"a": read(c=[("b", "")]), "b": read(x=[("a", "c")])}
NESTED = {
    "a": read(c=[("inner", "c")]),
    "b": StackReading(makers={"n": frozenset({("a", "c")})}, nested={"inner": "n"}),
}
OTHER_RESOURCE = {"a": NESTED["a"], "b": StackReading(makers={"x": frozenset({("a", "c")})}, nested={"inner": "n"})}


@pytest.mark.parametrize(
    ("readings", "maker", "root", "is_growing"),
    [
        pytest.param(MIRRORS, ("b", "offer"), "copy", False, id="copies of what the other one offers"),
        pytest.param(MUTUAL, ("b", "c"), "c", True, id="of each other"),
        pytest.param(THREE, ("b", "c"), "c", True, id="of three Stacks"),
        pytest.param(ITSELF, ("a", "c"), "c", True, id="of itself"),
        pytest.param(OUTPUTS, ("b", ""), "c", True, id="of outputs"),
        pytest.param(NESTED, ("inner", "c"), "c", True, id="of a nested Stack"),
        pytest.param(OTHER_RESOURCE, ("inner", "c"), "c", False, id="beside a nested Stack"),
        pytest.param({"a": MUTUAL["a"]}, ("b", "c"), "c", False, id="one way"),
    ],
)
def test_only_a_collection_that_is_made_from_its_own_members_has_a_limit(
    readings: dict[str, StackReading], maker: Maker, root: str, *, is_growing: bool
) -> None:
    circles = ReadCircles()
    for uid, reading in readings.items():
        circles.note(uid, reading)
    others = Others({"inner": "b"})
    found = circles.find_growing("a", {maker: 5, None: 3}, live=[root], given=[], others=others)
    most = {name: each.most for name, each in found.items()}
    assert most == ({root: GROWN_MEMBERS + 3 * MEMBERS_FOR_EACH} if is_growing else {})


def test_a_nested_stack_is_limited_by_the_lists_of_the_stack_around_it() -> None:
    circles = ReadCircles()
    circles.note("a", StackReading(makers={"n": frozenset({("b-inner", "c")})}, nested={"a-inner": "n"}))
    circles.note("b", StackReading(makers={"n": frozenset({("a-inner", "c")})}, nested={"b-inner": "n"}))
    others = Others({"a-inner": "a", "b-inner": "b"})
    found = circles.find_growing("a-inner", {}, live=[], given=["c"], others=others)
    assert found["c"].most == GROWN_MEMBERS


def test_a_stack_that_is_not_loaded_yet_may_read_everything() -> None:
    circles = ReadCircles()
    circles.note("a", MUTUAL["a"])
    others = Others(awaited={"b"})
    assert "c" in circles.find_growing("a", {("b", "c"): 1}, live=["c"], given=[], others=others)
    assert circles.note("b", StackReading()) == {"a"}
    assert not circles.find_growing("a", {("b", "c"): 1}, live=["c"], given=[], others=others)


def test_the_stacks_of_a_limit_look_again_when_one_of_them_reads_something_else() -> None:
    circles = ReadCircles()
    for uid, reading in THREE.items():
        circles.note(uid, reading)
    circles.find_growing("a", {("b", "c"): 1}, live=["c"], given=[], others=Others())
    assert "a" in circles.note("d", read(c=[("z", "c")]))


def test_a_stack_that_also_reads_its_own_objects_is_in_the_circle_of_the_others() -> None:
    circles = ReadCircles()
    circles.note("a", StackReading(stacks=frozenset({"a", "b"})))
    circles.note("b", StackReading(stacks=frozenset({"a", "b"})))
    assert (circles.find("a"), circles.find("b")) == (("b",), ("a",))
