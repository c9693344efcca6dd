"""The rights that the chart grants are those that the operator needs: every rule is removed in turn, and is missed.

Not by restarting the operator without it, which would take an hour, but by the log of the API server: without the rule, a
request that the operator sent would have been refused.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from support.ecosystem import kinds
from support.ecosystem.kubectl import Kubectl
from support.ecosystem.release import Release
from support.real import snapshot_crds
from support.threats import audit_log, mode_world
from support.threats.audit_log import AuditLog

NOT_LOGGED = "stacks/finalizers,resourcegroups/finalizers: update"
"""A permission without requests: only the admission plugin OwnerReferencesPermissionEnforcement needs it, which is off
by default.
"""
CONFIG_MAP = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
SECRET = {"manifest": {"apiVersion": "v1", "kind": "Secret"}}
POLICY: Object = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ]
    },
    "validations": [{"expression": "object.metadata.name == 'kube-root-ca.crt'", "message": "no"}],
}
Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One allowed request, as an authorizer sees it."""

    verb: str
    group: str
    resource: str
    """With its subresource: `stacks/status`."""
    namespace: str
    name: str
    """Empty for a creation, whose name the authorizer does not know."""


def parse_requests(events: Iterable[Object], user: str) -> Iterator[Request]:
    """The distinct requests of that user; a request as a ServiceAccount counts only as its impersonation."""
    seen = set()
    for event in events:
        if event["user"]["username"] == user and (target := event.get("objectRef")) and is_allowed(event):
            request = (
                parse_impersonation(event) if "impersonatedUser" in event else parse_request(event["verb"], target)
            )
            if request not in seen:
                seen.add(request)
                yield request


def is_allowed(event: Object) -> bool:
    """Whether the authorizer allowed it; later errors do not matter."""
    return bool(event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow")


def parse_request(verb: str, target: Object) -> Request:
    """The request for the object of an event."""
    return Request(
        verb=verb,
        group=target.get("apiGroup", ""),
        resource="/".join(each for each in (target["resource"], target.get("subresource", "")) if each),
        namespace=target.get("namespace", ""),
        name="" if verb == "create" else target.get("name", ""),
    )


def parse_impersonation(event: Object) -> Request:
    """The right that lets a request be sent as a ServiceAccount."""
    *_, namespace, name = event["impersonatedUser"]["username"].split(":")
    return Request(verb="impersonate", group="", resource="serviceaccounts", namespace=namespace, name=name)


def find_unnecessary(role: Object, requests: Sequence[Request]) -> list[str]:
    """The rules that could be removed from this role without denying any request."""
    rules = role["rules"]
    namespace = role["metadata"].get("namespace", "")
    within = [each for each in requests if not namespace or each.namespace == namespace]
    return [
        describe(rule)
        for rule in rules
        if not any(covers(rule, each) and not covers_any(rules, each, but=rule) for each in within)
    ]


def covers_any(rules: Iterable[Object], request: Request, *, but: Object) -> bool:
    """Whether another rule allows the request."""
    return any(covers(each, request) for each in rules if each is not but)


def covers(rule: Object, request: Request) -> bool:
    """Whether the rule allows the request."""
    names = rule.get("resourceNames")
    return (
        request.verb in rule["verbs"]
        and request.group in rule["apiGroups"]
        and request.resource in rule["resources"]
        and (names is None or request.name in names)
    )


def describe(rule: Object) -> str:
    """The rule in one line."""
    names = f" {','.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
    return f"{','.join(rule['resources'])}{names}: {','.join(rule['verbs'])}"


def test_every_rule_is_needed(release: Release) -> None:
    """By a Stack of every kind, a shared template, an account, a mark, a snapshot, an approval, the webhook, or rejected writes."""
    log = AuditLog(audit_log.find(release.kubeconfig))
    release.kubectl.apply(snapshot_crds.load())
    release.install()
    release.start()
    release.let_webhook_be_called()
    for play in (
        play_every_kind,
        play_template,
        play_account,
        play_quota,
        play_policy,
        play_webhook,
        play_approval,
        play_failed_run,
    ):
        play(release)
    release.stop()

    requests = list(parse_requests(log.read(), mode_world.OPERATOR))
    unnecessary = {
        f"{role['kind']} {role['metadata']['name']}: {rule}"
        for role in find_roles(release)
        for rule in find_unnecessary(role, requests)
    }
    assert unnecessary == {f"ClusterRole hearth-operator: {NOT_LOGGED}"}
    assert find_foreign(release, requests) == []


@pytest.mark.parametrize(
    ("rules", "unnecessary"),
    [
        pytest.param([("secrets", "get")], [], id="the only one"),
        pytest.param([("secrets", "get"), ("secrets", "list")], ["secrets: list"], id="a verb that is never used"),
        pytest.param([("secrets", "get"), ("pods", "get")], ["pods: get"], id="a resource that is never used"),
        pytest.param([("secrets", "get"), ("secrets", "get")], ["secrets: get"] * 2, id="the same twice"),
    ],
)
def test_a_rule_that_is_not_needed_is_found(rules: list[tuple[str, str]], unnecessary: list[str]) -> None:
    request = Request(verb="get", group="", resource="secrets", namespace="shop", name="db")
    stated = [{"apiGroups": [""], "resources": [resource], "verbs": [verb]} for resource, verb in rules]

    assert find_unnecessary({"metadata": {}, "rules": stated}, [request]) == unnecessary


# ------------------------------------------------------------ provoking every request


def play_every_kind(release: Release) -> None:
    """A Stack of every kind with a source, marked and in a snapshot; all of it is deleted again."""
    user = make_user(release, "kinds")
    stack = kinds.make_of_every_kind()
    stack["spec"] |= {"parametersFrom": [{"secretRef": {"name": "source"}}]}
    stack["spec"]["template"]["parameters"] = {"word": {"type": "string"}}
    user.call("create", "secret", "generic", "source", "--from-literal=word=hello")
    user.apply([stack])
    user.wait("stack/kinds", "jsonpath={.status.phase}=CreateComplete")
    mark = {"stackName": "kinds", "resource": "oneConfigMap", "markUnhealthy": True, "reason": "wrong"}
    user.apply([make_object("HealthMark", "mark", mark)])
    user.wait("healthmark/mark", "condition=Ready")
    user.wait("stack/kinds", "condition=Ready")
    user.apply([make_object("StackSnapshot", "snapshot", {"stackName": "kinds"})])
    user.wait("stacksnapshot/snapshot", "jsonpath={.status.volumes[0].snapshotUID}")
    user.call("delete", "stacksnapshot/snapshot", "stack/kinds", "--timeout=120s")


def play_template(release: Release) -> None:
    """A Stack whose template is in a StackTemplate."""
    user = make_user(release, "template")
    template = {"resources": {"settings": CONFIG_MAP}}
    user.apply([make_object("StackTemplate", "shared", {"template": template})])
    user.apply([make_object("Stack", "template", {"templateRef": {"kind": "StackTemplate", "name": "shared"}})])
    user.wait("stack/template", "condition=Ready")
    user.call("delete", "stack/template", "stacktemplate/shared", "--timeout=120s")


def play_account(release: Release) -> None:
    """A Stack as an account that may write ConfigMaps, and no Secrets."""
    user = make_user(release, "account")
    user.call("create", "serviceaccount", "deployer")
    verbs = "--verb=get,create,patch,delete"
    user.call("create", "role", "deployer", verbs, "--resource=configmaps")
    user.call("create", "rolebinding", "deployer", "--role=deployer", "--serviceaccount=account:deployer")
    resources = {"allowed": CONFIG_MAP, "refused": SECRET}
    user.apply([kinds.make_stack("account", resources, serviceAccountName="deployer")])
    wait_for_problem(user, "account", "secrets is forbidden|cannot patch resource")


def play_quota(release: Release) -> None:
    """No room for a Secret."""
    user = make_user(release, "quota")
    user.call("create", "quota", "none", "--hard=count/secrets=0")
    user.apply([kinds.make_stack("quota", {"secret": SECRET})])
    wait_for_problem(user, "quota", "exceeded quota")


def play_policy(release: Release) -> None:
    """A policy denies ConfigMaps."""
    user = make_user(release, "policy")
    group = "admissionregistration.k8s.io/v1"
    binding = {
        "policyName": "no-config-maps",
        "validationActions": ["Deny"],
        "matchResources": select_namespace("policy"),
    }
    user.apply(
        [
            make_object("ValidatingAdmissionPolicy", "no-config-maps", POLICY, version=group),
            make_object("ValidatingAdmissionPolicyBinding", "no-config-maps", binding, version=group),
        ]
    )
    wait_until_denied(user)
    user.apply([kinds.make_stack("policy", {"config": CONFIG_MAP})])
    wait_for_problem(user, "policy", "denied request: no")
    user.call("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "no-config-maps")


def play_webhook(release: Release) -> None:
    """A webhook without endpoints is asked about ConfigMaps."""
    user = make_user(release, "webhook")
    rule = {**POLICY["matchConstraints"]["resourceRules"][0]}
    service = {"name": "away", "namespace": "webhook"}
    webhook: Object = {
        "name": "away.example.com",
        "clientConfig": {"service": service},
        "rules": [rule],
        "failurePolicy": "Fail",
    }
    webhook |= {"admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1}
    metadata = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    webhooks = [{**webhook, **select_namespace("webhook")}]
    user.apply([{**metadata, "metadata": {"name": "away"}, "webhooks": webhooks}])
    wait_until_denied(user)
    user.apply([kinds.make_stack("webhook", {"config": CONFIG_MAP})])
    wait_for_problem(user, "webhook", "failed calling webhook")
    user.call("delete", "validatingwebhookconfiguration", "away")


def play_approval(release: Release) -> None:
    """The creation of a Stack waits for an approval."""
    user = make_user(release, "approval")
    user.apply([kinds.make_stack("approval", {"config": CONFIG_MAP}, approval={"required": "Always"})])
    user.wait("stack/approval", "jsonpath={.status.phase}=CreateStopped")
    user.wait("stackplan", "jsonpath={.status.phase}=Pending", "--all")
    user.call("delete", "stack/approval", "--timeout=120s")


def play_failed_run(release: Release) -> None:
    """A Pod that runs to completion fails, so that its log is read for the Event."""
    user = make_user(release, "failed")
    manifest = {"apiVersion": "v1", "kind": "Pod", "spec": {**kinds.POD["spec"], "restartPolicy": "Never"}}
    user.apply([kinds.make_stack("failed", {"run": {"manifest": manifest}})])
    user.wait("pod/failed-run", "jsonpath={.status.phase}=Running")
    state = {"terminated": {"exitCode": 3, "reason": "Error"}}
    container = {
        "name": "main",
        "image": "pause",
        "imageID": "pause",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    status = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    user.call("patch", "pod/failed-run", "--subresource=status", "--type=merge", f"--patch={json.dumps(status)}")
    latest = time.monotonic() + 60
    while "RunFailed" not in user.call("get", "events", "--output=jsonpath={.items[*].reason}"):
        assert time.monotonic() < latest
        time.sleep(0.1)


def make_user(release: Release, namespace: str) -> Kubectl:
    """A user with a fresh namespace."""
    user = Kubectl(kubeconfig=release.kubeconfig, namespace=namespace)
    user.run("delete", "namespace", namespace, "--ignore-not-found")
    user.call("create", "namespace", namespace)
    return user


def make_object(kind: str, name: str, spec: dict[str, Any], *, version: str = "hearth.dev/v1alpha1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def select_namespace(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def wait_until_denied(user: Kubectl) -> None:
    """Until no ConfigMap can be created: the API server reads policies and configurations with a delay."""
    latest = time.monotonic() + 60
    while user.run("create", "configmap", "probe", "--dry-run=server").returncode == 0:
        assert time.monotonic() < latest
        time.sleep(0.1)


def wait_for_problem(user: Kubectl, stack: str, text: str) -> None:
    """Until the Stack reports a failed write."""
    user.wait(f"stack/{stack}", "jsonpath={.status.problems[0].message}")
    (found,) = user.get(f"stack/{stack}")
    assert re.search(text, found["status"]["problems"][0]["message"])


# ------------------------------------------------------------ granted permissions


def find_roles(release: Release) -> Iterator[dict[str, Any]]:
    """The roles with rules of their own that the chart binds to the operator."""
    for kind, name in (
        ("clusterrole", "hearth-operator"),
        ("role", "hearth-operator"),
        ("clusterrole", "hearth-children-workloads"),
    ):
        yield from release.kubectl.get(kind, name)


def find_foreign(release: Release, requests: list[Request]) -> list[Request]:
    """Requests that none of these roles allows, except API discovery, which everyone may use."""
    rules = [rule for role in find_roles(release) for rule in role["rules"]]
    return [each for each in requests if not any(covers(rule, each) for rule in rules)]
