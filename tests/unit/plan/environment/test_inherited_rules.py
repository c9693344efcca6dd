"""What a nested Stack is given of its parent's environment, and what that makes of its manifest."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.environment import environment_rules, inherited_rules
from hearth.plan.environment.inherited_rules import InheritedRules

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
    """What that resource is given of these rules."""
    return inherited_rules.find(environment_rules.parse(rules), resource)


def test_a_nested_stack_is_given_the_rest_of_each_path_that_leads_into_it() -> None:
    """Not what is about itself, or about others."""
    given = find(RULES)
    assert given is not None
    assert given.merge_into({"kind": "Stack"}) == {"kind": "Stack", "spec": {"environment": GIVEN}}


def test_what_the_manifest_states_itself_stays_before_it() -> None:
    """And the manifest itself is not changed, as it is shared."""
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
    """It says what is wrong with it better than we could."""
    given = find({"breakpoints": [{"resource": "cache/db", "at": ["PreUpdate"]}]})
    assert given is not None
    assert given.merge_into(manifest) == manifest


def test_the_record_is_of_what_was_given() -> None:
    """Equal for equal rules, regardless of what else the parent's environment says."""
    more = {**RULES, "breakpoints": [*RULES["breakpoints"], {"resource": "x", "at": ["PreCreate"]}]}
    first, same, other = find(RULES), find(more), find({**RULES, "restrictedActions": []})
    assert first is not None
    assert other is not None
    assert first == same
    assert first.digest != other.digest
    assert find({}) is None


def test_what_was_given_is_no_other_clients() -> None:
    """Regardless of what a drift policy says of the rest."""
    given = find(RULES)
    assert inherited_rules.is_inherited(("spec", "environment", "breakpoints"), given)
    assert not inherited_rules.is_inherited(("spec", "parameters"), given)
    assert not inherited_rules.is_inherited(("spec", "environment"), None)
