"""The options of a spec."""

from __future__ import annotations

from hearth.model import limits
from hearth.plan.stack import options
from hearth.plan.stack.options import ReconcileOptions


def test_without_a_word_the_defaults_hold() -> None:
    assert options.parse({}) == ReconcileOptions()
    assert (
        ReconcileOptions().retry_limit,
        ReconcileOptions().timeout,
        ReconcileOptions().history_limit,
        ReconcileOptions().rollback_on_failure,
    ) == (5, None, 10, False)


def test_everything_that_is_said_is_heard() -> None:
    spec = {
        "paused": True,
        "rollback": {"onFailure": True, "toRevision": 0},
        "retry": {"limit": 0, "maxBackoff": "1m30s"},
        "timeout": "1h",
        "revisionHistoryLimit": 0,
    }
    assert options.parse(spec) == ReconcileOptions(
        is_paused=True,
        rollback_on_failure=True,
        to_revision=0,
        retry_limit=0,
        max_backoff=90.0,
        timeout=3600.0,
        history_limit=0,
    )


def test_a_history_is_bounded_also_where_an_earlier_crd_accepted_more() -> None:
    assert options.parse({"revisionHistoryLimit": 2**31 - 1}).history_limit == limits.REVISION_HISTORY == 100
    assert options.parse({"revisionHistoryLimit": 99}).history_limit == 99
