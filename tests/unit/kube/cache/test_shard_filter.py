"""A cache for a share of all Stacks: it holds its own, and knows that the others exist."""

from __future__ import annotations

from typing import Any

from hearth.kube.cache.shard_filter import ShardFilter
from hearth.model import names
from hearth.model.sharding import Place, Share
from hearth.model.stack_tree import Node, StackTree

SHARE = Share(index=0, count=2)
OWN = "11111111-1111-4111-8111-111111111111"
FOREIGN, NEXT = "22222222-2222-4222-8222-222222222222", "a"
"""UIDs in the other half, see `unit/model/test_sharding.py`."""


def stack(uid: str, name: str = "shop") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "namespace": "a", "name": name, "resourceVersion": "5"}}


class Inner:
    """The events that pass the filter. Like a store, it ignores deletions of unknown objects."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_list_started(self) -> None:
        self.heard.append("listing")

    def on_object(self, raw: dict[str, Any]) -> None:
        self.heard.append(raw["metadata"]["uid"])

    def on_deleted(self, raw: dict[str, Any]) -> None:
        if raw["metadata"]["uid"] in self.heard:
            self.heard.append(f"-{raw['metadata']['uid']}")

    def on_synced(self, version: int | None) -> None:
        self.heard.append("synced")


def test_only_its_own_come_through() -> None:
    inner = Inner()
    others = ShardFilter(inner, SHARE, StackTree())

    others.on_list_started()
    others.on_object(stack(OWN))
    others.on_object(stack(FOREIGN, "other"))
    others.on_synced(5)
    others.on_deleted(stack(FOREIGN, "other"))
    others.on_deleted(stack(OWN))

    assert inner.heard == ["listing", OWN, "synced", f"-{OWN}"]


def test_a_stack_that_gets_a_kubeconfig_is_handed_over_and_back() -> None:
    here, there = Inner(), Inner()
    calls: list[str] = []
    home = ShardFilter(here, Share(place=Place.HERE), StackTree(), on_elsewhere=lambda: calls.append("elsewhere"))
    away = ShardFilter(there, Share(place=Place.ELSEWHERE), StackTree())
    plain, remote = stack(OWN), {**stack(OWN), "spec": {"kubeConfig": {"secretRef": {"name": "east"}}}}

    for event in (plain, remote, plain):
        home.on_object(event)
        away.on_object(event)

    assert (here.heard, there.heard) == ([OWN, f"-{OWN}", OWN], [OWN, f"-{OWN}"])
    assert calls == ["elsewhere"]
    assert (home.elsewhere, home.has_uid(OWN), away.has_uid(OWN)) == (set(), False, True)


def test_the_others_are_known_by_uid_and_name() -> None:
    others = ShardFilter(Inner(), SHARE, StackTree())

    others.on_object(stack(FOREIGN))
    others.on_object(stack(FOREIGN))
    others.on_object(stack(NEXT))
    others.on_deleted(stack(FOREIGN))

    assert (others.has_uid(FOREIGN), others.has_uid(NEXT), others.has_name("a", "shop")) == (False, True, True)
    others.on_deleted(stack(NEXT))
    assert (others.has_uid(NEXT), others.has_name("a", "shop")) == (False, False)
    assert not others.has_name("a", "never")


def test_what_a_fresh_list_does_not_show_is_gone() -> None:
    others = ShardFilter(Inner(), SHARE, StackTree())
    others.on_object(stack(FOREIGN))
    others.on_object(stack(NEXT, "next"))

    others.on_list_started()
    others.on_object(stack(NEXT, "next"))
    others.on_synced(9)

    assert (others.has_uid(FOREIGN), others.has_name("a", "shop")) == (False, False)
    assert (others.has_uid(NEXT), others.has_name("a", "next")) == (True, True)


def test_the_tree_of_all_stacks_knows_the_others_too() -> None:
    tree = StackTree()
    others = ShardFilter(Inner(), SHARE, tree)
    labelled = {"metadata": {**stack(NEXT, "next")["metadata"], "labels": {names.LABEL_STACK_UID: FOREIGN}}}

    others.on_object(stack(FOREIGN))
    others.on_object(stack(NEXT, "next"))
    others.on_object(labelled)
    others.on_object(stack(OWN))

    assert (set(tree.find_nested(FOREIGN)), tree.find(OWN)) == ({NEXT}, None)
    assert tree.find(NEXT) == Node(NEXT, "a", "next", FOREIGN)
    others.on_deleted(labelled)
    assert (set(tree.find_nested(FOREIGN)), tree.find(NEXT)) == (set(), None)
