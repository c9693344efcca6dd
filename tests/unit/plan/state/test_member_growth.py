"""The members of a growing collection that are created."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from hearth.plan.state.member_growth import GrowthLimit, MemberGrowth
from hearth.plan.state.memory import ObservedChildren
from hearth.template.blueprint import Blueprint, CollectionBlueprint

WANTED = ("c[a]", "c[b]", "c[d]", "c[e]")
BLUEPRINT = cast(
    Blueprint,
    SimpleNamespace(collections={"c": CollectionBlueprint(name="c", index=1, members=WANTED, dependents=())}),
)


def observe(*present: str) -> ObservedChildren:
    return cast(ObservedChildren, SimpleNamespace(resources=lambda: present))


def test_members_beyond_the_limit_are_held_until_it_is_gone() -> None:
    growth, limits = MemberGrowth(), {"c": GrowthLimit(most=3, makers="Stack b")}
    assert growth.update(BLUEPRINT, observe("c[a]"), {}) == set()
    # Unwanted members also count; members of other collections do not.
    assert growth.update(BLUEPRINT, observe("c[a]", "c[old]", "other[x]"), limits) == {"c[d]", "c[e]"}
    assert "it may have at most 3 members" in growth.explain("c[d]")
    assert growth.explain("c[b]") == ""
    assert growth.update(BLUEPRINT, observe("c[a]", "c[old]"), {}) == {"c[d]", "c[e]"}
    assert growth.explain("c[d]") == ""
