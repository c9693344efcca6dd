"""Builds the ValidatingAdmissionPolicy that limits which account and kubeconfig the author of an instance may set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.model import instance_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import ADMISSION_POLICY, ADMISSION_POLICY_BINDING, STACK_DEFINITION

ACCOUNT: Final = "serviceAccountName"
KUBECONFIG: Final = "kubeConfig"
STACK: Final = f"object.spec.{instance_fields.OPTIONS}"
IN_NAMESPACE: Final = "namespace(request.namespace)"
MAY_IMPERSONATE: Final = f'authorizer.group("").resource("serviceaccounts").{IN_NAMESPACE}.name({STACK}.{ACCOUNT}).check("impersonate").allowed()'
MAY_RUN_PODS: Final = f'authorizer.group("").resource("pods").{IN_NAMESPACE}.check("create").allowed()'
SECRET_NAME: Final = f"{STACK}.{KUBECONFIG}.secretRef.name"
CHECKS: Final = {
    ACCOUNT: (
        f"{MAY_IMPERSONATE} || {MAY_RUN_PODS}",
        f'"ServiceAccount " + {STACK}.{ACCOUNT} + "; this needs the verb impersonate on it, or the right to create Pods"',
    ),
    KUBECONFIG: (
        f'authorizer.group("").resource("secrets").{IN_NAMESPACE}.name({SECRET_NAME}).check("get").allowed()',
        f'"the kubeconfig in Secret " + {SECRET_NAME} + "; this needs the verb get on it"',
    ),
}
"""The CEL condition under which an author may set an option that selects other rights, and the right it requires, by
option.
"""


def make_policy(spec: Mapping[str, Any], *, owner: Mapping[str, Any]) -> tuple[tuple[Kind, Object], ...]:
    """Make the policy of a kind and its binding, each with its kind; nothing if instances cannot select other rights.

    owner: the metadata of the StackDefinition. Both objects are deleted with it.
    """
    options = [name for name in CHECKS if name in (spec.get("options") or ()) and name not in (spec.get("final") or ())]
    if not options:
        return ()
    name = owner["name"]
    reference = {
        "apiVersion": STACK_DEFINITION.api_version,
        "kind": STACK_DEFINITION.name,
        "name": name,
        "uid": owner["uid"],
    }
    metadata = {"name": name, "ownerReferences": [reference]}
    rule = {
        "apiGroups": [spec["group"]],
        "apiVersions": ["*"],
        "resources": [spec["names"]["plural"]],
        "operations": ["CREATE", "UPDATE"],
    }
    conditions = [
        {"name": "spec-changes", "expression": 'request.operation == "CREATE" || object.spec != oldObject.spec'},
        {"name": "sets-options", "expression": f"has(object.spec) && has({STACK})"},
    ]
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": conditions,
        "validations": [make_validation(option) for option in options],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return tuple(
        (kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": body})
        for kind, body in ((ADMISSION_POLICY, policy), (ADMISSION_POLICY_BINDING, binding))
    )


def make_validation(option: str) -> Object:
    """Make the rule for one option."""
    allowed, needs = CHECKS[option]
    prefix = f'"spec.{instance_fields.OPTIONS}.{option}: user " + request.userInfo.username + " may not use " + '
    return {
        "expression": f"!has({STACK}.{option}) || {allowed}",
        "reason": "Forbidden",
        "messageExpression": f'{prefix}{needs} + " in namespace " + request.namespace',
    }
