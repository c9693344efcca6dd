"""Environments: the resources that a rule selects, the part that nested Stacks inherit, and cleared breakpoints."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from hearth.plan.environment import active_environment, environment_rules, inherited_rules
from hearth.plan.environment.active_environment import LIMIT, ClearedBreakpoints
from hearth.plan.environment.environment_rules import Action
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.target import target_choice, target_status
from hearth.plan.target.target import Target, TargetCause

# ---------------------------------------------------------------- resources that a rule selects


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
    rules = environment_rules.parse({"restrictedActions": [{"resource": glob, "deny": ["Delete"]}]})
    assert bool(list(rules.find_unmatched({"web", "shop"}, nested={"shop"}))) is is_idle


def test_a_rule_counts_for_what_it_says_alone() -> None:
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
    assert environment_rules.parse(None).is_empty
    assert environment_rules.parse({"breakpoints": []}).is_empty


def test_a_glob_is_compared_in_linear_time() -> None:
    rules = environment_rules.parse({"breakpoints": [{"resource": "*a" * 120 + "b", "at": ["PreCreate"]}]})
    begun = time.thread_time()
    assert not rules.breakpoints[0].fits("a" * 40)
    assert rules.breakpoints[0].fits("a" * 120 + "b")
    assert time.thread_time() - begun < 0.1


# ---------------------------------------------------------------- the environment of a nested Stack

RULES: dict[str, Any] = {
    "breakpoints": [
        {"resource": "cache", "at": ["PreUpdate"]},
        {"resource": "cache/db", "at": ["PreUpdate", "PostCreate"]},
        {"resource": "c?che/deep/*", "at": ["PreDelete"]},
        {"resource": "other/db", "at": ["PreCreate"]},
    ],
    "restrictedActions": [{"resource": "*/db", "deny": ["Delete"]}],
}
GIVEN = {
    "breakpoints": [
        {"resource": "db", "at": ["PostCreate", "PreUpdate"]},
        {"resource": "deep/*", "at": ["PreDelete"]},
    ],
    "restrictedActions": [{"resource": "db", "deny": ["Delete"]}],
}


def find(rules: dict[str, Any], resource: str = "cache") -> InheritedRules | None:
    """The environment of that resource under these rules."""
    return inherited_rules.find(environment_rules.parse(rules), resource)


def test_a_nested_stack_is_given_the_rest_of_each_path_that_leads_into_it() -> None:
    given = find(RULES)
    assert given is not None
    assert given.merge_into({"kind": "Stack"}) == {"kind": "Stack", "spec": {"environment": GIVEN}}


def test_what_the_manifest_states_itself_stays_before_it() -> None:
    given = find({"breakpoints": [{"resource": "cache/db", "at": ["PreUpdate"]}]})
    own = {"breakpoints": [{"resource": "x", "at": ["PreCreate"]}], "restrictedActions": []}
    manifest = {"spec": {"environment": own, "parameters": {"a": 1}}}
    assert given is not None
    laid = given.merge_into(manifest)
    assert laid["spec"]["environment"]["breakpoints"] == [*own["breakpoints"], {"resource": "db", "at": ["PreUpdate"]}]
    assert (laid["spec"]["parameters"], laid["spec"]["environment"]["restrictedActions"]) == ({"a": 1}, [])
    assert manifest["spec"]["environment"] is own
    assert len(own["breakpoints"]) == 1


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param({"spec": "x"}, id="a spec that is no map"),
        pytest.param({"spec": {"environment": "x"}}, id="an environment that is no map"),
        pytest.param({"spec": {"environment": {"breakpoints": "x"}}}, id="a list that is none"),
    ],
)
def test_what_cannot_take_it_is_left_to_the_server_to_refuse(manifest: dict[str, Any]) -> None:
    given = find({"breakpoints": [{"resource": "cache/db", "at": ["PreUpdate"]}]})
    assert given is not None
    assert given.merge_into(manifest) == manifest


def test_the_record_is_of_what_was_given() -> None:
    more = {**RULES, "breakpoints": [*RULES["breakpoints"], {"resource": "x", "at": ["PreCreate"]}]}
    first, same, other = find(RULES), find(more), find({**RULES, "restrictedActions": []})
    assert first is not None
    assert other is not None
    assert first == same
    assert first.digest != other.digest
    assert find({}) is None


def test_what_was_given_is_no_other_clients() -> None:
    given = find(RULES)
    assert inherited_rules.is_inherited(("spec", "environment", "breakpoints"), given)
    assert not inherited_rules.is_inherited(("spec", "parameters"), given)
    assert not inherited_rules.is_inherited(("spec", "environment"), None)


# ---------------------------------------------------------------- cleared breakpoints

SOME = active_environment.NONE_CLEARED.clear("web", "PreUpdate").add_post_delete({"db": ("config",)})
TARGET = Target(revision=3, cause=TargetCause.SPEC, since=60.0, cleared=SOME)


def test_a_status_tells_what_was_passed() -> None:
    assert target_status.encode(TARGET)["controllerState"]["clearedBreakpoints"] == ["web/PreUpdate"]
    assert target_status.encode(TARGET)["controllerState"]["postDelete"] == [{"resource": "db", "requires": ["config"]}]
    assert target_status.decode(target_status.encode(TARGET)) == TARGET


def test_a_status_that_makes_no_sense_tells_nothing() -> None:
    assert (
        target_status.decode({**target_status.encode(TARGET), "controllerState": {"postDelete": [{"ghost": 1}]}})
        is None
    )


def test_the_next_target_begins_with_nothing_passed() -> None:
    same = target_choice.start_target(
        target_choice.TargetChoice(cause=TargetCause.SPEC),
        revision=3,
        before=TARGET,
        context=target_choice.TargetContext(now=100.0),
    )
    other = target_choice.start_target(
        target_choice.TargetChoice(cause=TargetCause.SPEC),
        revision=4,
        before=TARGET,
        context=target_choice.TargetContext(now=100.0),
    )
    assert (same.cleared, other.cleared) == (SOME, active_environment.NONE_CLEARED)


def test_the_oldest_are_forgotten_first() -> None:
    many = active_environment.NONE_CLEARED
    for number in range(LIMIT + 2):
        many = many.clear(f"r{number}", "PreCreate")
    assert (len(many.keys), many.keys[0]) == (LIMIT, "r2/PreCreate")


def test_passing_twice_is_passing_once() -> None:
    assert SOME.clear("web", "PreUpdate") == SOME


def test_who_must_be_looked_at_again() -> None:
    assert SOME.find_changed(SOME.clear("a", "PreCreate")) == {"a"}
    assert SOME.find_changed(ClearedBreakpoints()) == {"web"}


def test_a_target_with_cleared_breakpoints_differs_for_the_status() -> None:
    assert dataclasses.replace(TARGET, cleared=active_environment.NONE_CLEARED) != TARGET
