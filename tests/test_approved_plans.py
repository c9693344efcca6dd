"""Random edits with approved plans: nothing is written outside of the plan, even if a hostile writer acts meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis
from hypothesis import HealthCheck, settings, strategies

from support.stateful import approved_session, preview_session, random_templates
from support.stateful.approved_session import ApprovedSession, Deed
from support.stateful.random_templates import Drafts, Edit

QUICK = settings(
    max_examples=60,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
SHARE = 0.95
"""Share of edits that need one approval only, if no other client interferes."""
EDITS = strategies.lists(preview_session.edits, min_size=1, max_size=3)
QUIET: Any = strategies.lists(strategies.tuples(EDITS, strategies.just([])), min_size=1, max_size=3)
HOSTILE = strategies.lists(strategies.tuples(EDITS, approved_session.deeds), min_size=1, max_size=3)


def check(
    first: Drafts, planned: Sequence[tuple[Sequence[Edit], Sequence[Deed]]], deeds: Sequence[Deed] = ()
) -> ApprovedSession:
    """A new Stack, then each edit of it. deeds: the acts of the hostile writer during the creation."""
    session = ApprovedSession()
    try:
        session.begin(first, deeds)
        for changes, acts in planned:
            session.edit(changes, acts)
    finally:
        session.close()
    return session


@hypothesis.seed(7)
@settings(QUICK)
@hypothesis.given(first=random_templates.beginnings, planned=HOSTILE, deeds=approved_session.deeds)
def test_nothing_outside_of_the_plan_is_written_beside_a_hostile_writer(
    first: Drafts, planned: Any, deeds: Sequence[Deed]
) -> None:
    check(first, planned, deeds)


def test_one_approval_is_enough_without_a_hostile_writer() -> None:
    plans: list[int] = []

    @hypothesis.seed(7)
    @settings(QUICK)
    @hypothesis.given(first=random_templates.beginnings, planned=QUIET)
    def play(first: Drafts, planned: Any) -> None:
        plans.extend(check(first, planned).approvals)

    play()
    assert plans.count(1) >= SHARE * len(plans)
