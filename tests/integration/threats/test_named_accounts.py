"""The accounts that an author may choose: decided by the API server, whether or not an operator runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from support import repository
from support.threats import definitions
from support.threats.api import Api, Object, find_path
from support.threats.definitions import NAME, SITES, make_site, wait_ready
from support.threats.world import (
    CONFIG_MAPS,
    READ,
    WRITE,
    Rule,
    Tenant,
    ThreatWorld,
    make_binding,
    make_config_map,
    make_stack,
    name_of,
)

IMPERSONATOR = Rule(group="", resources=("serviceaccounts",), verbs=("impersonate",))
RUNNER = Rule(group="", resources=("pods",), verbs=("create",))
SECRET_READER = Rule(group="", resources=("secrets",), verbs=("get",))
GROUPS = Rule(group="hearth.dev", resources=("stacks", "resourcegroups"), verbs=(*READ, *WRITE))
POLICY = repository.MANIFESTS / "install" / "accounts.yaml"
TEMPLATE: Object = {
    "parameters": {"title": {"type": "string", "default": "x"}},
    "resources": {
        "page": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"title": "${params.title}"}}}
    },
}


def make_group(namespace: str, name: str, **spec: object) -> Object:
    member = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"index": "${string(index)}"}}}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "ResourceGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "template": member, **spec},
    }


def is_denied(api: Api, manifest: Object) -> bool:
    """Whether a dry run of the creation is denied for the account that it names."""
    path = find_path(manifest["kind"], manifest["metadata"]["namespace"])
    answer = api.send("POST", path, body=manifest, dryRun="All")
    assert answer.is_accepted or "cannot use " in answer.text, answer.text
    return not answer.is_accepted


@pytest.fixture
def guarded(threats: ThreatWorld) -> Iterator[ThreatWorld]:
    """Install the shipped policy, without an operator that could answer the API server."""
    policies = list(yaml.safe_load_all(POLICY.read_text()))
    threats.operator.kill()
    for policy in policies:
        threats.api.apply(policy).expect()
    try:
        yield threats
    finally:
        for policy in policies:
            threats.api.delete(policy["kind"], "", policy["metadata"]["name"])


def test_an_author_cannot_name_an_account_beyond_his_rights(guarded: ThreatWorld) -> None:
    tenant = guarded.tenant()
    stranger, impersonator, runner = (tenant.author(GROUPS, *rules) for rules in ((), (IMPERSONATOR,), (RUNNER,)))
    parts = {"a": make_config_map("as-a")}
    for manifest in (
        make_stack(tenant.namespace, "as", parts, serviceAccountName="deployer"),
        make_group(tenant.namespace, "as", serviceAccountName="deployer"),
    ):
        guarded.wait_for(lambda manifest=manifest: is_denied(stranger, manifest), what="the policy is enforced")  # type: ignore[misc]
        assert not is_denied(impersonator, manifest)
        assert not is_denied(runner, manifest)
    assert not is_denied(stranger, make_stack(tenant.namespace, "plain", parts))


def test_a_stack_with_an_account_can_be_paused_but_not_changed_without_the_right(guarded: ThreatWorld) -> None:
    tenant = guarded.tenant()
    stranger, impersonator = tenant.author(GROUPS), tenant.author(GROUPS, IMPERSONATOR)
    stack = make_stack(tenant.namespace, "as", {"a": make_config_map("as-a")}, serviceAccountName="deployer")
    guarded.wait_for(lambda: is_denied(stranger, stack), what="the policy is enforced")
    impersonator.create(stack)

    stranger.patch("Stack", tenant.namespace, "as", {"spec": {"paused": True}}).expect()
    for change in (
        {"serviceAccountName": "another"},
        {"parameters": {"x": "y"}},
        {"template": {"resources": {"a": make_config_map("as-b")}}},
        {"adoptionPolicy": "Adopt"},
        {"rollback": {"toRevision": 1}},
        {"rollback": {"toSnapshot": "before"}},
    ):
        refused = stranger.patch("Stack", tenant.namespace, "as", {"spec": change})
        assert (refused.code, "cannot use ServiceAccount" in refused.text) == (403, True), change
    stranger.patch("Stack", tenant.namespace, "as", {"spec": {"serviceAccountName": None}}).expect()


def test_no_author_runs_a_revision_of_his_own_as_an_account_that_was_set_later(guarded: ThreatWorld) -> None:
    tenant, victim = guarded.tenant(), guarded.tenant("victim")
    stranger, impersonator = tenant.author(GROUPS), tenant.author(GROUPS, IMPERSONATOR)
    powerful = tenant.make_account("powerful", CONFIG_MAPS)
    for each in make_binding(powerful, victim.namespace, resource="configmaps", verbs=("*",)):
        guarded.api.create(each)
    guarded.operator.start()
    own = make_config_map("own")
    own["manifest"]["metadata"]["namespace"] = victim.namespace
    stranger.create(make_stack(tenant.namespace, "shop", {"own": own}))
    guarded.wait_for(lambda: guarded.find_status(tenant.namespace, "shop").get("revision") == 1, what="revision 1")
    named: Object = {"serviceAccountName": name_of(powerful)}
    guarded.wait_for(
        lambda: is_denied(stranger, make_stack(tenant.namespace, "as", {"own": own}, **named)), what="the policy"
    )
    corrected = {**named, "template": {"resources": {"own": None, "a": make_config_map("shop-a")}}}
    impersonator.patch("Stack", tenant.namespace, "shop", {"spec": corrected}).expect()
    guarded.wait_phase(tenant.namespace, "shop", "UpdateComplete", "CreateComplete")

    refused = stranger.patch("Stack", tenant.namespace, "shop", {"spec": {"rollback": {"toRevision": 1}}})

    guarded.canary()
    assert guarded.api.get("ConfigMap", victim.namespace, "own") is None
    assert (refused.code, "cannot use ServiceAccount powerful" in refused.text) == (403, True), refused.text


@pytest.fixture
def served(threats: ThreatWorld) -> Iterator[ThreatWorld]:
    """Serve a kind whose instances may choose an account and a kubeconfig."""
    threats.operator.restart(*definitions.FLAGS)
    options = ["serviceAccountName", "kubeConfig"]
    threats.api.create(definitions.make_definition(TEMPLATE, options=options))
    try:
        wait_ready(threats, "StackDefinition", "", NAME, "Complete")
        yield threats
    finally:
        definitions.remove(threats)


def make_chooser(tenant: Tenant, **options: object) -> Object:
    return make_site(tenant.namespace, "as", stack=options)


@pytest.mark.installed("definitions")
def test_an_author_of_instances_cannot_choose_rights_beyond_his_own(served: ThreatWorld) -> None:
    tenant = served.tenant()
    stranger, impersonator, runner, reader = (
        tenant.make_account(name, SITES, *rules)
        for name, rules in (("s", ()), ("i", (IMPERSONATOR,)), ("r", (RUNNER,)), ("k", (SECRET_READER,)))
    )
    as_account = make_chooser(tenant, serviceAccountName="powerful")
    elsewhere = make_chooser(tenant, kubeConfig={"secretRef": {"name": "east"}})
    served.wait_for(lambda: is_denied(stranger, as_account), what="the policy is enforced")

    denied = {
        (name, choice): is_denied(author, manifest)
        for name, author in (
            ("stranger", stranger),
            ("impersonator", impersonator),
            ("runner", runner),
            ("reader", reader),
        )
        for choice, manifest in (("account", as_account), ("kubeconfig", elsewhere))
    }
    assert [key for key, is_refused in denied.items() if not is_refused] == [
        ("impersonator", "account"),
        ("runner", "account"),
        ("reader", "kubeconfig"),
    ]

    stranger.create(make_site(tenant.namespace, "plain"))
    wait_ready(served, "Site", tenant.namespace, "plain", "CreateComplete")
    changed = stranger.patch("Site", tenant.namespace, "plain", {"spec": {"stack": {"serviceAccountName": "powerful"}}})
    assert (changed.code, "needs the verb impersonate" in changed.text) == (403, True)
    served.operator.kill()
    assert is_denied(stranger, as_account)


@pytest.mark.installed("definitions")
def test_the_policy_of_a_kind_ends_with_its_definition(served: ThreatWorld) -> None:
    policy = served.api.get("ValidatingAdmissionPolicy", "", NAME)
    assert policy is not None
    assert [owner["kind"] for owner in policy["metadata"]["ownerReferences"]] == ["StackDefinition"]
    definitions.remove(served)
    served.wait_for(
        lambda: served.api.get("ValidatingAdmissionPolicyBinding", "", NAME) is None, what="the policy is deleted"
    )
