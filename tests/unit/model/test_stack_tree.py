"""Which Stack is nested in which."""

from __future__ import annotations

from hearth.model.stack_tree import Node, StackTree


def make(*nodes: tuple[str, str]) -> StackTree:
    """A tree of Stacks, each with its parent."""
    tree = StackTree()
    for uid, parent in nodes:
        tree.put(Node(uid, "default", uid, parent))
    return tree


def test_the_way_up_is_the_innermost_first() -> None:
    """And ends at the first Stack whose parent is not there."""
    tree = make(("a", "gone"), ("b", "a"), ("c", "b"))
    assert [node.uid for node in tree.climb("c", most=9)] == ["c", "b", "a"]
    assert [node.uid for node in tree.climb("c", most=2)] == ["c", "b"]
    assert list(tree.climb("ghost", most=9)) == []


def test_labels_that_form_a_cycle_end_no_search() -> None:
    """Anyone may write them."""
    tree = make(("a", "b"), ("b", "a"), ("c", "c"))
    assert [node.uid for node in tree.climb("a", most=5)] == ["a", "b", "a", "b", "a"]
    assert [node.uid for node in tree.climb("c", most=3)] == ["c", "c", "c"]


def test_a_circle_is_found_from_every_stack_in_it() -> None:
    """And from none that only hangs below it."""
    tree = make(("a", "c"), ("b", "a"), ("c", "b"), ("below", "a"), ("self", "self"), ("top", "gone"), ("mid", "top"))
    found = {uid: [node.uid for node in tree.find_circle(uid)] for uid in ("a", "b", "below", "self", "mid", "ghost")}
    assert found == {"a": ["a", "c", "b"], "b": ["b", "a", "c"], "below": [], "self": ["self"], "mid": [], "ghost": []}


def test_what_is_nested_follows_the_labels() -> None:
    """Also where a Stack is seen before its parent, or gets another one."""
    tree = make(("b", "a"), ("c", "a"), ("a", ""))
    assert set(tree.find_nested("a")) == {"b", "c"}
    tree.put(Node("c", "default", "c", "b"))
    tree.drop("b")
    assert (set(tree.find_nested("a")), set(tree.find_nested("b"))) == (set(), {"c"})
    assert tree.find("b") is None


def test_the_generation_tells_a_change_and_nothing_else() -> None:
    """What was counted in one generation holds until the next."""
    tree = make(("a", ""))
    before = tree.generation
    tree.put(Node("a", "default", "a", ""))
    tree.drop("ghost")
    assert tree.generation == before
    tree.put(Node("a", "default", "a", "x"))
    assert tree.generation > before
