"""An order to go on names a resource, perhaps a hook, and perhaps a token that makes it a new one."""

from __future__ import annotations

import pytest

from hearth.engine.stack.breakpoints import continue_requests
from hearth.plan.environment import environment_rules
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.status import breakpoint_waits
from support.units import blueprints
from support.units.blueprints import World


@pytest.mark.parametrize(
    ("order", "meant"),
    [
        pytest.param("web", ("web", ""), id="a resource, wherever it waits"),
        pytest.param("web/PreUpdate", ("web", "PreUpdate"), id="with its hook"),
        pytest.param("web@2", ("web", ""), id="with a token"),
        pytest.param("web/PreUpdate@2026-11-21T10:00:00Z", ("web", "PreUpdate"), id="with both"),
        pytest.param("cache/db", ("cache/db", ""), id="a path"),
        pytest.param("cache/db/PostCreate", ("cache/db", "PostCreate"), id="a path with a hook"),
        pytest.param("web/preupdate", ("web/preupdate", ""), id="no hook: no resource has this name"),
        pytest.param("@1", ("", ""), id="ghost"),
    ],
)
def test_what_an_order_means(order: str, meant: tuple[str, str]) -> None:
    """As it was written."""
    assert continue_requests.parse(order) == meant


@pytest.mark.parametrize(
    ("order", "passed"),
    [
        pytest.param("a", ("a", "PreCreate"), id="what waits continues"),
        pytest.param("a/PreCreate@1", ("a", "PreCreate"), id="who waits there"),
        pytest.param("a/PreUpdate", None, id="who waits elsewhere does not"),
        pytest.param("b", None, id="who does not wait does not"),
        pytest.param("x" * 500, None, id="who is not there does not"),
    ],
)
def test_who_continues(order: str, passed: tuple[str, str] | None) -> None:
    """And the answer says who waits, and is bounded."""
    board = blueprints.make_board(blueprints.make_blueprint({"a": [], "b": ["a"]}))
    board.set_environment(
        ActiveEnvironment(rules=environment_rules.parse({"breakpoints": [{"resource": "a", "at": ["PreCreate"]}]}))
    )
    World().refresh(board)
    answer = continue_requests.answer(order, board, breakpoint_waits.StackAddress(name="shop", namespace="prod"))
    assert answer.passed == passed
    assert len(answer.message) < 500
    if passed is None:
        assert "waiting breakpoints: a/PreCreate" in answer.message
