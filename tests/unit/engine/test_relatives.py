"""Membership of Stacks in a tree, and the proof of an offer between processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hearth.engine import relatives
from hearth.engine.services import Services
from hearth.model import names, signatures
from hearth.model.kinds import ObjectRef
from hearth.model.stack_tree import Node, NodeState, StackTree
from support.units.blueprints import HASHER

REF = ObjectRef(group="", kind="PersistentVolumeClaim", namespace="default", name="data")


def sign(parent: str, name: str) -> str:
    """The signature of a Stack that is nested in another one."""
    identity = names.identity(stack_uid=parent, group=names.GROUP, kind=names.STACK, namespace="default", name=name)
    return signatures.write(identity, resource="r", incarnation=1, requires="", signer=HASHER)


def make_services(*nodes: Node) -> Services:
    """Services that know these Stacks."""
    tree = StackTree()
    for node in nodes:
        tree.put(node)
    return cast(Services, SimpleNamespace(management_cluster=SimpleNamespace(tree=tree), hashes=HASHER))


PARENT = Node("p", "default", "parent", "")


@pytest.mark.parametrize(
    ("nested", "is_member"),
    [
        pytest.param(Node("c", "default", "child", "p", names.STACK, sign("p", "child")), True, id="signed"),
        pytest.param(Node("c", "default", "child", "p"), False, id="only labeled"),
        pytest.param(Node("c", "default", "evil", "p", names.STACK, sign("p", "child")), False, id="copied signature"),
        pytest.param(Node("c", "other", "child", "p", names.STACK, sign("p", "child")), False, id="another namespace"),
        pytest.param(Node("c", "default", "child", "p", names.STACK, sign("q", "child")), False, id="another parent"),
    ],
)
def test_only_a_signature_makes_a_stack_a_member_of_a_tree(nested: Node, *, is_member: bool) -> None:
    services, tree = make_services(PARENT, nested), relatives.Relatives()
    assert ("c" in tree.find_tree("p", services)) == is_member
    assert ("p" in tree.find_tree("c", services)) == is_member


def make_live(text: str, uid: str = "u") -> dict[str, Any]:
    """An object with an offer."""
    return {"metadata": {"uid": uid, "annotations": {names.ANNOTATION_OFFERED: text}}}


@pytest.mark.parametrize(
    ("text", "uid", "is_valid"),
    [
        pytest.param("own", "u", True, id="as offered"),
        pytest.param("own", "another", False, id="on another object"),
        pytest.param("older", "u", False, id="of an older definition"),
        pytest.param("other", "u", False, id="of another Stack"),
        pytest.param("3/forged", "u", False, id="forged"),
        pytest.param("3/" + "x" * 5000, "u", False, id="long"),
        pytest.param("", "u", False, id="none"),
    ],
)
def test_an_offer_holds_for_one_object_and_one_definition(text: str, uid: str, *, is_valid: bool) -> None:
    services = make_services(PARENT)
    services.management_cluster.tree.states["p"] = NodeState(3, 3, 0)
    child = cast(Any, SimpleNamespace(ref=REF, uid="u"))
    offers = {
        "own": relatives.make_offer(child, owner="p", generation=3, signer=HASHER),
        "older": relatives.make_offer(child, owner="p", generation=2, signer=HASHER),
        "other": relatives.make_offer(child, owner="q", generation=3, signer=HASHER),
    }
    assert relatives.is_offer_valid(make_live(offers.get(text, text), uid), REF, PARENT, services) == is_valid


@pytest.mark.parametrize(
    ("text", "is_offer"), [("own", True), ("other", False), ("2/forged", False), ("x/y", False), ("", False)]
)
def test_an_offer_of_any_definition_tells_that_a_parent_let_a_nested_stack_go(text: str, *, is_offer: bool) -> None:
    nested = Node("c", "default", "child", "p")
    child = cast(Any, SimpleNamespace(ref=relatives.refer(nested), uid="c"))
    offers = {
        "own": relatives.make_offer(child, owner="p", generation=2, signer=HASHER),
        "other": relatives.make_offer(child, owner="q", generation=2, signer=HASHER),
    }
    services, ref = make_services(PARENT, nested), relatives.refer(nested)
    assert relatives.is_offered_once(offers.get(text, text), ref, "c", owner="p", services=services) == is_offer


# ---------------------------------------------------------------- nested Stacks


def make(*nodes: tuple[str, str]) -> StackTree:
    """A tree of Stacks, each with its parent."""
    tree = StackTree()
    for uid, parent in nodes:
        tree.put(Node(uid, "default", uid, parent))
    return tree


def test_the_way_up_is_the_innermost_first() -> None:
    tree = make(("a", "gone"), ("b", "a"), ("c", "b"))
    assert [node.uid for node in tree.climb("c", most=9)] == ["c", "b", "a"]
    assert [node.uid for node in tree.climb("c", most=2)] == ["c", "b"]
    assert list(tree.climb("ghost", most=9)) == []


def test_labels_that_form_a_cycle_end_no_search() -> None:
    tree = make(("a", "b"), ("b", "a"), ("c", "c"))
    assert [node.uid for node in tree.climb("a", most=5)] == ["a", "b", "a", "b", "a"]
    assert [node.uid for node in tree.climb("c", most=3)] == ["c", "c", "c"]


def test_a_circle_is_found_from_every_stack_in_it() -> None:
    tree = make(("a", "c"), ("b", "a"), ("c", "b"), ("below", "a"), ("self", "self"), ("top", "gone"), ("mid", "top"))
    found = {uid: [node.uid for node in tree.find_circle(uid)] for uid in ("a", "b", "below", "self", "mid", "ghost")}
    assert found == {"a": ["a", "c", "b"], "b": ["b", "a", "c"], "below": [], "self": ["self"], "mid": [], "ghost": []}


def test_what_is_nested_follows_the_labels() -> None:
    tree = make(("b", "a"), ("c", "a"), ("a", ""))
    assert set(tree.find_nested("a")) == {"b", "c"}
    tree.put(Node("c", "default", "c", "b"))
    tree.drop("b")
    assert (set(tree.find_nested("a")), set(tree.find_nested("b"))) == (set(), {"c"})
    assert tree.find("b") is None


def test_the_generation_tells_a_change_and_nothing_else() -> None:
    tree = make(("a", ""))
    before = tree.generation
    tree.put(Node("a", "default", "a", ""))
    tree.drop("ghost")
    assert tree.generation == before
    tree.put(Node("a", "default", "a", "x"))
    assert tree.generation > before
