"""Which rights the author of an instance may choose."""

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
