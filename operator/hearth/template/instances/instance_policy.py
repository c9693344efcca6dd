"""Builds the ValidatingAdmissionPolicy of a StackDefinition's kind.

It limits which account and kubeconfig the author of an instance may set, and rejects the deletion of protected
instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.model import instance_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import ADMISSION_POLICY, ADMISSION_POLICY_BINDING, STACK_DEFINITION

ACCOUNT: Final = "serviceAccountName"
KUBECONFIG: Final = "kubeConfig"
PROTECTED: Final = "protected"
IS_DELETION: Final = 'request.operation == "DELETE"'
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


def make_policy(
    spec: Mapping[str, Any], *, owner: Mapping[str, Any], checks_authors: bool = True, exists: bool = False
) -> tuple[tuple[Kind, Object], ...]:
    """Make the policy of a kind and its binding, each with its kind; nothing if they are not needed.

    They are needed if instances can select other rights, or can be protected. owner: the metadata of the
    StackDefinition, whose deletion also deletes both objects; exists: whether there is a policy that must follow the
    spec, even if it then denies nothing.
    """
    options = find_checked(spec) if checks_authors else []
    protection = find_protection(spec)
    if not options and not protection:
        if not exists:
            return ()
        protection = "false"
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
        "operations": [*(["CREATE", "UPDATE"] if options else []), *(["DELETE"] if protection else [])],
    }
    unless_deleted = f"{IS_DELETION} || " if protection else ""
    is_change = 'request.operation == "CREATE" || object.spec != oldObject.spec'
    conditions = [
        {"name": "spec-changes", "expression": f"{unless_deleted}{is_change}"},
        {"name": "sets-options", "expression": f"{unless_deleted}has(object.spec) && has({STACK})"},
    ]
    rules = [make_validation(option, prefix=unless_deleted) for option in options]
    if protection:
        rules.append(make_protection(protection))
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": conditions,
        "validations": rules,
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return tuple(
        (kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": body})
        for kind, body in ((ADMISSION_POLICY, policy), (ADMISSION_POLICY_BINDING, binding))
    )


def find_checked(spec: Mapping[str, Any]) -> list[str]:
    """Return the options with which instances can select other rights."""
    return [name for name in CHECKS if may_state(spec, name)]


def may_state(spec: Mapping[str, Any], option: str) -> bool:
    """Return whether an instance can set an option that its StackDefinition must list."""
    return option in (spec.get("options") or ()) and option not in (spec.get("final") or ())


def find_protection(spec: Mapping[str, Any]) -> str:
    """Return the CEL condition under which an instance is protected, or "" if none can be."""
    default = (spec.get("defaults") or {}).get("protected") is True
    if not may_state(spec, PROTECTED):
        return "true" if default else ""
    return f"oldObject.?spec.{instance_fields.OPTIONS}.{PROTECTED}.orValue({str(default).lower()})"


def make_protection(is_protected: str) -> Object:
    """Make the rule that rejects the deletion of protected instances, except in a namespace that is being deleted."""
    return {
        "expression": f"!({IS_DELETION}) || !({is_protected}) || has(namespaceObject.metadata.deletionTimestamp)",
        "reason": "Forbidden",
        "messageExpression": (
            'oldObject.kind + " " + oldObject.metadata.namespace + "/" + oldObject.metadata.name + " is protected; '
            f'set spec.{instance_fields.OPTIONS}.{PROTECTED}, or the default of its StackDefinition, to false first"'
        ),
    }


def make_validation(option: str, *, prefix: str = "") -> Object:
    """Make the rule for one option. prefix: a condition under which it does not apply."""
    allowed, needs = CHECKS[option]
    subject = f'"spec.{instance_fields.OPTIONS}.{option}: user " + request.userInfo.username + " cannot use " + '
    return {
        "expression": f"{prefix}!has({STACK}.{option}) || {allowed}",
        "reason": "Forbidden",
        "messageExpression": f'{subject}{needs} + " in namespace " + request.namespace',
    }
