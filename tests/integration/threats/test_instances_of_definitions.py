"""Attacks of tenants on the kinds of StackDefinitions: rights of the platform, old revisions, vetoes, and Events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from support import repository
from support.real.stack_command import StackCommand
from support.threats import definitions
from support.threats.api import Api, Object, find_path
from support.threats.definitions import FLAGS, GROUP, NAME, SITES, find_ready, make_definition, make_site, wait_ready
from support.threats.world import CONFIG_MAPS, Rule, Tenant, ThreatWorld, make_stack

POLICY = repository.MANIFESTS / "definitions" / "instances.yaml"
ACCOUNT = "webapps"
ALL = Rule(group=GROUP, resources=("*",), verbs=("create", "update", "patch", "delete"))
"""The operator's rights from `manifests/definitions/roles.yaml`."""


def make_page(**data: str) -> Object:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"title": "${params.title}", **data}}}


def make_template(*, title: Object | None = None, **data: str) -> Object:
    return {
        "parameters": {"title": title or {"type": "string", "default": "x"}},
        "resources": {"page": make_page(**data)},
    }


@pytest.fixture
def served(threats: ThreatWorld) -> Iterator[ThreatWorld]:
    """Run an operator that serves definitions."""
    threats.operator.restart(*FLAGS)
    yield threats
    definitions.remove(threats)


@pytest.fixture
def platform(threats: ThreatWorld) -> Iterator[str]:
    """The namespace of an account that may write ConfigMaps everywhere. The operator may act as it, and write all instances."""
    namespace = threats.make_namespace("platform")
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    metadata = {"name": ACCOUNT, "namespace": namespace}
    threats.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    bind(threats, f"{namespace}-writer", CONFIG_MAPS, account)
    bind(threats, f"{namespace}-roles", ALL, {"kind": "ServiceAccount", "name": "hearth", "namespace": "hearth-system"})
    threats.operator.restart(*FLAGS, f"--definition-accounts={namespace}:{ACCOUNT}")
    yield namespace
    definitions.remove(threats)


def bind(threats: ThreatWorld, name: str, rule: Rule, subject: Object) -> None:
    """Give an account a right in the whole cluster."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": name}
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [rule.render()]}
    threats.api.create(role)
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    binding = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": metadata}
    threats.api.create({**binding, "roleRef": reference, "subjects": [subject]})


def make_developer(tenant: Tenant) -> Api:
    return tenant.make_account("developer", SITES, CONFIG_MAPS)


@pytest.mark.installed("definitions")
def test_no_stack_writes_an_instance_with_the_right_of_the_operator(threats: ThreatWorld, platform: str) -> None:
    tenant = threats.tenant()
    threats.api.create(make_definition(make_template(), account={"namespace": platform, "name": ACCOUNT}))
    wait_ready(threats, "StackDefinition", "", NAME, "Complete")
    threats.api.create(make_site(tenant.namespace, "theirs", title="theirs"))
    wait_ready(threats, "Site", tenant.namespace, "theirs", "CreateComplete")
    author = tenant.author()
    assert not author.try_create(make_site(tenant.namespace, "direct")).is_accepted
    new = {"manifest": {**make_site(tenant.namespace, "mine", title="evil"), "metadata": {"name": "mine"}}}
    author.create(make_stack(tenant.namespace, "new", {"site": new}))
    adopted = {"manifest": {**make_site(tenant.namespace, "theirs", title="evil"), "metadata": {"name": "theirs"}}}
    stack = make_stack(tenant.namespace, "adopts", {"site": adopted})
    author.create({**stack, "spec": {**stack["spec"], "adoptionPolicy": "Adopt"}})
    for name in ("new", "adopts"):
        wait_ready(threats, "Stack", tenant.namespace, name, "CreateFailed")
        assert "set spec.serviceAccountName" in find_ready(threats.api.get("Stack", tenant.namespace, name))[1]
    assert threats.api.get("Site", tenant.namespace, "mine") is None
    theirs = threats.api.get("Site", tenant.namespace, "theirs")
    assert theirs is not None
    assert theirs["spec"]["title"] == "theirs"
    threats.canary()


@pytest.mark.installed("definitions")
def test_the_api_server_denies_the_operator_the_spec_of_such_instances(threats: ThreatWorld, platform: str) -> None:
    policies = list(yaml.safe_load_all(POLICY.read_text()))
    tenant = threats.tenant()
    threats.api.create(make_definition(make_template(), account={"namespace": platform, "name": ACCOUNT}))
    wait_ready(threats, "StackDefinition", "", NAME, "Complete")
    path = find_path("Site", tenant.namespace)
    operator = threats.api.acting_as("hearth-system", "hearth")
    try:
        for policy in policies:
            threats.api.apply(policy).expect()
        threats.wait_for(
            lambda: not operator.send("POST", path, body=make_site(tenant.namespace, "x"), dryRun="All").is_accepted,
            what="the policy is in force",
        )
        threats.api.create(make_site(tenant.namespace, "own", title="own"))
        wait_ready(threats, "Site", tenant.namespace, "own", "CreateComplete")
        denied = operator.patch("Site", tenant.namespace, "own", {"spec": {"title": "evil"}})
        assert "does not write them as itself" in denied.text
        threats.api.delete("Site", tenant.namespace, "own")
        threats.wait_for(lambda: threats.api.get("Site", tenant.namespace, "own") is None, what="the instance is gone")
    finally:
        for policy in policies:
            threats.api.delete(policy["kind"], "", policy["metadata"]["name"])


@pytest.mark.installed("definitions")
def test_a_right_that_is_taken_back_is_not_kept_by_a_pin(threats: ThreatWorld, platform: str) -> None:
    tenant, vault = threats.tenant(), threats.make_namespace("vault")
    page = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "${params.where}"}, "data": {"a": "b"}}
    template: Object = {"parameters": {"where": {"type": "string"}}, "resources": {"page": {"manifest": page}}}
    account = {"namespace": platform, "name": ACCOUNT}
    threats.api.create(make_definition(template, account=account, boundary="Cluster"))
    wait_ready(threats, "StackDefinition", "", NAME, "Complete")
    developer = make_developer(tenant)
    pinned = {"definitionRevision": 1}
    developer.create(make_site(tenant.namespace, "old", where=tenant.namespace, stack=pinned))
    wait_ready(threats, "Site", tenant.namespace, "old", "CreateComplete")
    threats.api.patch("StackDefinition", "", NAME, {"spec": {"boundary": "Namespace"}}).expect()
    threats.wait_for(lambda: find_revision(threats) == 2, what="the boundary is narrower")
    developer.patch("Site", tenant.namespace, "old", {"spec": {"where": vault}}).expect()
    developer.create(make_site(tenant.namespace, "new", where=vault, stack=pinned))
    for name in ("old", "new"):
        wait_ready(threats, "Site", tenant.namespace, name, "can only create objects in the namespace of each")
    threats.api.patch("StackDefinition", "", NAME, {"spec": {"account": None, "boundary": None}}).expect()
    threats.wait_for(lambda: find_revision(threats) == 3, what="the account is gone")
    wait_ready(threats, "Site", tenant.namespace, "old", "a Stack can only manage objects in its own namespace")
    assert threats.api.list("ConfigMap", vault, labelSelector="hearth.dev/resource") == []
    threats.canary()


def find_revision(threats: ThreatWorld) -> int:
    found = threats.api.get("StackDefinition", "", NAME) or {}
    return int((found.get("status") or {}).get("revision") or 0)


@pytest.mark.installed("definitions")
def test_one_tenant_vetoes_no_change_for_the_others(served: ThreatWorld) -> None:
    hostile, honest = served.tenant(), served.tenant()
    served.api.create(make_definition(make_template(), rollout={"maxUnavailable": 1, "onFailure": "Rollback"}))
    wait_ready(served, "StackDefinition", "", NAME, "Complete")
    developer = make_developer(hostile)
    developer.create(make_site(hostile.namespace, "unfit", title="x; rm -rf"))
    developer.create(make_site(hostile.namespace, "taken", title="y"))
    developer.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken-more", "namespace": hostile.namespace}}
    )
    served.api.create(make_site(honest.namespace, "shop", title="z"))
    for namespace, name in ((hostile.namespace, "unfit"), (hostile.namespace, "taken"), (honest.namespace, "shop")):
        wait_ready(served, "Site", namespace, name, "CreateComplete")
    stricter = make_template(title={"type": "string", "default": "x", "pattern": "^[a-z]*$"}, fixed="yes")
    stricter["resources"]["more"] = make_page()
    served.api.patch("StackDefinition", "", NAME, {"spec": {"template": stricter}}).expect()
    served.wait_for(lambda: served.api.get("ConfigMap", honest.namespace, "shop-more"), what="the honest one follows")
    done = wait_ready(served, "StackDefinition", "", NAME, "Complete")
    held = {each["name"] for each in done["status"]["rollout"]["heldInstances"]}
    assert held == {"unfit", "taken"}
    assert not developer.try_create(make_site(hostile.namespace, "again", title="x; rm -rf")).is_accepted
    kept = served.api.get("ConfigMap", hostile.namespace, "unfit-page")
    assert kept is not None
    assert kept["data"] == {"title": "x; rm -rf"}
    # Events are in the namespace `default`, which others can read.
    texts = [each["message"] for each in served.api.list("Event", "default") if each["involvedObject"]["name"] == NAME]
    assert texts
    assert not [text for text in texts if hostile.namespace in text or "rm -rf" in text]
    served.canary()


@pytest.mark.installed("definitions")
def test_no_kind_makes_instances_without_end_and_no_secret_name_leads_elsewhere(served: ThreatWorld) -> None:
    tenant = served.tenant()
    again = {"manifest": {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Site"}}
    template = make_template()
    served.api.create(make_definition({**template, "resources": {**template["resources"], "again": again}}))
    refused = wait_ready(served, "StackDefinition", "", NAME, "InvalidDefinition")
    assert "spec.template.resources.again.manifest.kind: is Site" in find_ready(refused)[1]
    secret = {"type": "string", "sensitive": True}
    parameters = {**template["parameters"], "secret": secret}
    served.api.patch(
        "StackDefinition", "", NAME, {"spec": {"template": {"resources": {"again": None}, "parameters": parameters}}}
    ).expect()
    wait_ready(served, "StackDefinition", "", NAME, "Complete")
    developer = make_developer(tenant)
    for name in ("../x", "a/b", "..", "", "A"):
        reference = {"secretKeyRef": {"name": name, "key": "k"}}
        assert developer.try_create(make_site(tenant.namespace, "site", secret=reference)).code == 422, name
    served.canary()


@pytest.mark.installed("definitions")
def test_revisions_in_other_namespaces_are_not_shown(served: ThreatWorld) -> None:
    tenant = served.tenant()
    served.api.create(make_definition(make_template(k="first")))
    definition = wait_ready(served, "StackDefinition", "", NAME, "Complete")
    uid = definition["metadata"]["uid"]
    (own,) = served.api.list("ControllerRevision", "hearth-system", labelSelector=f"hearth.dev/stack-uid={uid}")
    metadata = {key: own["metadata"][key] for key in ("labels", "annotations", "ownerReferences", "name")}
    forged = {**own, "metadata": {**metadata, "namespace": tenant.namespace}, "data": {"template": "forged"}}
    tenant.revision_editor().create(forged)
    served.api.apply(make_definition(make_template(k="second")))
    served.wait_for(
        lambda: wait_ready(served, "StackDefinition", "", NAME, "Complete")["status"]["revision"] == 2,
        what="revision 2",
    )
    # Delete it, as the revision limit does after some changes.
    served.api.delete("ControllerRevision", "hearth-system", own["metadata"]["name"])

    command = StackCommand(kubeconfig=served.kubeconfig, namespace=tenant.namespace)
    history = command.run_now("rollout", "history", "sites")

    assert history.returncode == 0, history.stderr
    assert [line.split()[0] for line in history.stdout.splitlines()] == ["REVISION", "2"], history.stdout
    served.canary()
