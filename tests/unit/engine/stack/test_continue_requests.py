"""A request to continue names a resource, optionally a hook, and optionally a token that makes it a new request."""

from __future__ import annotations

import pytest

from hearth.engine.stack import stack_requests
from hearth.plan.environment import environment_rules
from hearth.plan.environment.active_environment import NONE_CLEARED, ActiveEnvironment
from hearth.plan.status import breakpoint_waits
from hearth.plan.status.breakpoint_waits import BreakpointWait
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
    assert stack_requests.parse_continue(order) == meant


@pytest.mark.parametrize(
    ("order", "passed"),
    [
        pytest.param("a", (("a", "PreCreate"),), id="what waits continues"),
        pytest.param("a/PreCreate@1", (("a", "PreCreate"),), id="who waits there"),
        pytest.param("a/PreUpdate", (), id="who waits elsewhere does not"),
        pytest.param("b", (), id="who does not wait does not"),
        pytest.param("a[*]", (), id="who is no collection does not"),
        pytest.param("*", (), id="all of a Stack do not"),
        pytest.param("x" * 500, (), id="who is not there does not"),
    ],
)
def test_who_continues(order: str, passed: tuple[tuple[str, str], ...]) -> None:
    planner = blueprints.make_planner(blueprints.make_blueprint({"a": [], "b": ["a"]}))
    rules = environment_rules.parse({"breakpoints": [{"resource": "a", "at": ["PreCreate"]}]})
    World().refresh(planner, environment=ActiveEnvironment(rules=rules))
    answer = stack_requests.answer_continue(
        order, planner, breakpoint_waits.StackAddress(name="shop", namespace="prod")
    )
    assert answer.passed == passed
    assert len(answer.message) < 500
    if not passed:
        assert "waiting breakpoints: a/PreCreate" in answer.message


def wait(*names: str, hook: str = "PreUpdate") -> list[BreakpointWait]:
    """Resources that wait at one hook."""
    return [BreakpointWait(resource=name, hook=hook) for name in names]


@pytest.mark.parametrize(
    ("resource", "hook", "passed"),
    [
        pytest.param("w[*]", "", (("w[*]", "PreUpdate"), ("w[*]", "PreDelete")), id="wherever they wait"),
        pytest.param("w[*]", "PreUpdate", (("w[*]", "PreUpdate"),), id="at one hook"),
        pytest.param("w[*]", "PostUpdate", (), id="not where none waits"),
        pytest.param("v[*]", "", (), id="not those of another collection"),
        pytest.param("w[a]", "", (), id="one member is no request for all"),
    ],
)
def test_all_members_continue_together(resource: str, hook: str, passed: tuple[tuple[str, str], ...]) -> None:
    """One entry applies to all members, also to members that reach the hook later."""
    waiting = [*wait("w[a]", "w[b]"), *wait("w[gone]", hook="PreDelete"), *wait("vault")]
    assert stack_requests.find_members(resource, hook, waiting) == passed


def test_an_asterisk_is_for_the_members_of_a_group() -> None:
    assert stack_requests.find_members("*", "", wait("0", "12")) == (("member[*]", "PreUpdate"),)
    cleared = NONE_CLEARED.clear("member[*]", "PreUpdate")
    assert (cleared.has("7", "PreUpdate"), cleared.has("7", "PostUpdate")) == (True, False)
    assert (cleared.has("member", "PreUpdate"), cleared.has("member[a]", "PreUpdate")) == (False, True)
