"""The rights that the author of an instance may choose."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.template.instances import instance_policy

OWNER = {"name": "sites.platform.example", "uid": "u1"}


def make_spec(**fields: Any) -> dict[str, Any]:
    return {"group": "platform.example", "names": {"kind": "Site", "plural": "sites"}, **fields}


@pytest.mark.parametrize(
    ("fields", "checked"),
    [
        pytest.param({}, [], id="no options"),
        pytest.param({"options": ["timeout"]}, [], id="options that select no rights"),
        pytest.param({"options": ["serviceAccountName"]}, ["serviceAccountName"], id="account"),
        pytest.param({"options": ["kubeConfig"]}, ["kubeConfig"], id="kubeconfig"),
        pytest.param(
            {"options": ["kubeConfig", "serviceAccountName"], "final": ["kubeConfig"]},
            ["serviceAccountName"],
            id="only what instances can override",
        ),
    ],
)
def test_each_option_that_selects_rights_has_a_rule(fields: dict[str, Any], checked: list[str]) -> None:
    made = instance_policy.make_policy(make_spec(**fields), owner=OWNER)

    rules = [rule["expression"].split(" ")[0] for rule in made[0][1]["spec"]["validations"]] if made else []
    assert rules == [f"!has(object.spec.stack.{name})" for name in checked]
    assert [manifest["kind"] for _, manifest in made] == (
        ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] if checked else []
    )


def test_a_policy_that_cannot_be_evaluated_denies() -> None:
    (_, policy), (_, binding) = instance_policy.make_policy(make_spec(options=["serviceAccountName"]), owner=OWNER)

    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"] == {"policyName": OWNER["name"], "validationActions": ["Deny"]}


@pytest.mark.parametrize(
    ("fields", "is_protected"),
    [
        pytest.param({"defaults": {"protected": True}}, "true", id="the definition protects all"),
        pytest.param({"options": ["protected"]}, "oldObject.?spec.stack.protected.orValue(false)", id="a choice"),
        pytest.param(
            {"options": ["protected"], "defaults": {"protected": True}},
            "oldObject.?spec.stack.protected.orValue(true)",
            id="a choice with a default",
        ),
        pytest.param(
            {"options": ["protected"], "final": ["protected"], "defaults": {"protected": True}},
            "true",
            id="what instances cannot override",
        ),
    ],
)
def test_the_deletion_of_protected_instances_is_denied(fields: dict[str, Any], is_protected: str) -> None:
    (_, policy), _ = instance_policy.make_policy(make_spec(**fields), owner=OWNER)

    assert policy["spec"]["matchConstraints"]["resourceRules"][0]["operations"] == ["DELETE"]
    (rule,) = policy["spec"]["validations"]
    assert f"!({is_protected})" in rule["expression"]


def test_a_policy_that_is_no_longer_needed_denies_nothing() -> None:
    (_, policy), _ = instance_policy.make_policy(make_spec(), owner=OWNER, exists=True)

    assert "!(false)" in policy["spec"]["validations"][0]["expression"]


def test_rules_for_authors_do_not_apply_to_deletions() -> None:
    spec = make_spec(options=["protected", "serviceAccountName"])
    (_, policy), _ = instance_policy.make_policy(spec, owner=OWNER)

    conditional = [*policy["spec"]["matchConditions"], policy["spec"]["validations"][0]]
    assert all(each["expression"].startswith('request.operation == "DELETE" || ') for each in conditional)
