"""What a rollout reads of one instance."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.rollouts import rollout_decision


@pytest.mark.parametrize(
    ("settings", "status", "is_held"),
    [
        ({}, {}, False),
        ({"paused": True}, {}, True),
        ({"suspended": True}, {}, True),
        ({}, {"phase": "UpdateStopped"}, True),
        ({"rollback": {"onFailure": True}}, {"target": {"cause": "Spec"}}, False),
        ({"rollback": {"toRevision": 0}}, {"target": {"cause": "Rollback"}}, True),
        ({"rollback": {"toSnapshot": "before"}}, {"target": {"cause": "Rollback"}}, True),
        ({"rollback": {"toRevision": 3}}, {"target": {"cause": "Spec"}}, False),
        ({"rollback": None}, {"target": None}, False),
    ],
)
def test_what_its_user_decided_holds_an_instance(settings: Any, status: Any, *, is_held: bool) -> None:
    """A request that a later change overrode holds nothing; a rollback to a snapshot is one like any other."""
    assert rollout_decision.is_held(settings, status) is is_held


def test_one_that_went_back_by_itself_says_what_made_it_go_back() -> None:
    """Not how it is since."""
    ready = [{"type": "Ready", "status": "True", "message": "all 2 resources are ready"}]
    target = {"cause": "AutomaticRollback", "message": "web: cannot apply"}
    assert rollout_decision.find_message({"conditions": ready}) == "all 2 resources are ready"
    assert rollout_decision.find_message({"conditions": ready, "target": target}) == "web: cannot apply"
    assert rollout_decision.find_message({"conditions": "?", "target": {"cause": 1}}) == ""
