"""Which resources a rule is about: by name, by wildcards within one part of a path, or in a nested stack."""

from __future__ import annotations

import time

import pytest

from hearth.plan.environment import environment_rules
from hearth.plan.environment.environment_rules import Action


def parse(resource: str) -> environment_rules.EnvironmentRule:
    """The rule of one breakpoint."""
    [rule] = environment_rules.parse({"breakpoints": [{"resource": resource, "at": ["PreUpdate"]}]}).breakpoints
    return rule


@pytest.mark.parametrize(
    ("glob", "fits", "fails"),
    [
        pytest.param("web", ["web"], ["webServer", "we"], id="a name is meant as a whole"),
        pytest.param("*", ["web", "a1"], [], id="a star is any name"),
        pytest.param("web*", ["web", "web1", "webServer"], ["aweb"], id="a star at the end"),
        pytest.param("*ar", ["bar", "ar"], ["arm"], id="a star at the beginning"),
        pytest.param("f?o", ["foo", "fao"], ["fo", "fooo"], id="a question mark is one character"),
        pytest.param("***********************a", ["a", "bba"], ["b" * 40], id="many stars are one, and cost as much"),
        pytest.param("workers[a]", ["workers[a]"], ["workers[b]", "workers[aa]", "workers"], id="a member by its key"),
        pytest.param("workers[*]", ["workers[a]", "workers[b-2]"], ["workers", "workers2[a]"], id="every member"),
        pytest.param("workers[?]", ["workers[a]"], ["workers[aa]", "workers[]"], id="a wildcard in a key"),
        pytest.param("workers*", ["workers[a]", "workers", "workersTwo[b-2]"], ["worker"], id="a star ends in a key"),
        pytest.param("workers", ["workers[a]", "workers"], ["workersTwo[a]"], id="a collection is all its members"),
        pytest.param("*", ["workers[a-1]", "web"], [], id="a star is any member"),
        pytest.param("workers[ab]", ["workers[ab]"], ["workers[a]"], id="brackets are no set of characters"),
        pytest.param("cache/db", [], ["cache", "db", "cache/db"], id="a path is about a nested stack's resources"),
        pytest.param("*/db", [], ["cache", "db"], id="a path with wildcards, too"),
    ],
)
def test_what_a_rule_fits(glob: str, fits: list[str], fails: list[str]) -> None:
    """Never a part of a name."""
    rule = parse(glob)
    assert [name for name in [*fits, *fails] if rule.fits(name)] == fits


@pytest.mark.parametrize(
    ("glob", "is_idle"),
    [
        pytest.param("web", False, id="there is such a resource"),
        pytest.param("w*", False, id="one of that kind"),
        pytest.param("db", True, id="there is none"),
        pytest.param("d*", True, id="none of that kind"),
        pytest.param("shop/db", False, id="a path begins with a nested stack"),
        pytest.param("s*/db", False, id="so does one with wildcards"),
        pytest.param("web/db", True, id="a path begins with a resource that is no stack"),
        pytest.param("w*/db", True, id="so does one with wildcards that fit no stack"),
        pytest.param("cache/db", True, id="a path begins with none that is there"),
    ],
)
def test_a_rule_about_nothing_is_found(glob: str, is_idle: bool) -> None:
    """It is warned of."""
    rules = environment_rules.parse({"restrictedActions": [{"resource": glob, "deny": ["Delete"]}]})
    assert bool(list(rules.find_unmatched({"web", "shop"}, nested={"shop"}))) is is_idle


def test_a_rule_counts_for_what_it_says_alone() -> None:
    """Another hook, or another action, is free."""
    rules = environment_rules.parse(
        {
            "breakpoints": [{"resource": "a", "at": ["PreCreate"]}, {"resource": "*", "at": ["PostDelete"]}],
            "restrictedActions": [{"resource": "a", "deny": ["Replace"]}],
        }
    )
    stopped = [hook for hook in ("PreCreate", "PostCreate", "PostDelete") if rules.find_breakpoint("a", hook)]
    denied = [action for action in Action if rules.find_restriction("a", action)]
    assert (stopped, denied) == (["PreCreate", "PostDelete"], [Action.REPLACE])


def test_no_environment_is_no_rule() -> None:
    """Whether it is missing or says nothing."""
    assert environment_rules.parse(None).is_empty
    assert environment_rules.parse({"breakpoints": []}).is_empty


def test_a_glob_is_compared_in_linear_time() -> None:
    """Each further star took six times as long."""
    rules = environment_rules.parse({"breakpoints": [{"resource": "*a" * 120 + "b", "at": ["PreCreate"]}]})
    begun = time.thread_time()
    assert not rules.breakpoints[0].fits("a" * 40)
    assert rules.breakpoints[0].fits("a" * 120 + "b")
    assert time.thread_time() - begun < 0.1
