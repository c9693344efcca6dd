"""A StackDefinition that acts as an account: the right to configure this, and limits for developers who use its kind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import binaries
import pytest

from support.threats import webhook
from support.threats.api import Api, Object
from support.threats.definitions import FLAGS, NAME, SITES, find_ready, make_definition, make_site, remove, wait_ready
from support.threats.world import CONFIG_MAPS, READ, WRITE, Rule, ThreatWorld

ACCOUNT = "webapps"


def make_acting(account: Object) -> Object:
    """A kind whose instances write a ConfigMap into a namespace that the developer chooses, as an account."""
    page = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "${params.where}"}, "data": {"a": "b"}}
    template: Object = {"parameters": {"where": {"type": "string"}}, "resources": {"page": {"manifest": page}}}
    return make_definition(template, account=account)


def list_pages(threats: ThreatWorld, namespace: str) -> list[Object]:
    """The objects of instances in a namespace."""
    return threats.api.list("ConfigMap", namespace, labelSelector="hearth.dev/resource")


@pytest.fixture
def platform(threats: ThreatWorld) -> Iterator[str]:
    """The namespace of the account, which may write ConfigMaps everywhere.

    The kind and its objects are deleted at the end.
    """
    namespace = threats.make_namespace("platform")
    threats.api.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace}}
    )
    metadata = {"name": f"{namespace}-writer"}
    version = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": [CONFIG_MAPS.render()]}
    threats.api.create(role)
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]}
    binding = {"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata}
    threats.api.create({**binding, "roleRef": reference, "subjects": [subject]})
    yield namespace
    remove(threats)


@pytest.mark.installed("definitions")
def test_what_an_account_is_used_for(threats: ThreatWorld, platform: str) -> None:
    tenant, vault = threats.tenant(), threats.make_namespace("vault")
    threats.operator.restart(*FLAGS, f"--definition-accounts={platform}:{ACCOUNT}")
    stranger = {"namespace": platform, "name": "default"}
    threats.api.create(make_acting(stranger))
    ready = wait_ready(threats, "StackDefinition", "", NAME, "InvalidDefinition")
    assert f"--definition-accounts={platform}:default,{platform}:{ACCOUNT}" in find_ready(ready)[1]
    threats.api.patch("StackDefinition", "", NAME, {"spec": {"account": {"name": ACCOUNT}}}).expect()
    wait_ready(threats, "StackDefinition", "", NAME, "Complete")

    developer = tenant.make_account("developer", SITES)
    developer.create(make_site(tenant.namespace, "own", where=tenant.namespace))
    wait_ready(threats, "Site", tenant.namespace, "own", "CreateComplete")
    page = threats.api.get("ConfigMap", tenant.namespace, "own-page")
    assert page is not None
    assert not developer.try_create({**page, "metadata": {"name": "x", "namespace": tenant.namespace}}).is_accepted

    # The account may write there, but the definition does not allow it.
    developer.create(make_site(tenant.namespace, "loot", where=vault))
    wait_ready(threats, "Site", tenant.namespace, "loot", "can only create objects in the namespace of each")
    assert list_pages(threats, vault) == []
    # Options of the instance cannot select another account, and no other Stack can use the account by its name.
    stored = developer.create(
        make_site(tenant.namespace, "other", where=vault, stack={"serviceAccountName": "default"})
    )
    assert stored["spec"] == {"where": vault, "stack": {}}
    forged = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": {"name": "as", "namespace": vault}}
    forged |= {"spec": {"serviceAccountName": f"{platform}:{ACCOUNT}", "template": {"resources": {}}}}
    assert threats.api.try_create(forged).code == 422

    threats.api.patch("StackDefinition", "", NAME, {"spec": {"boundary": "Cluster"}}).expect()
    threats.wait_for(lambda: list_pages(threats, vault), what="the object beyond the namespace")

    # An account that the installation no longer lists is no longer used.
    threats.operator.restart(*FLAGS)
    wait_ready(threats, "Site", tenant.namespace, "own", "which the operator is not allowed to do")
    assert threats.api.get("ConfigMap", tenant.namespace, "own-page") == page


@pytest.mark.installed("definitions")
def test_who_may_let_a_definition_act_as_an_account(threats: ThreatWorld, platform: str, tmp_path: Path) -> None:
    with webhook.serve(threats, *FLAGS, f"--definition-accounts={platform}:{ACCOUNT}"):
        author = make_platform_engineer(threats, platform)
        definition = make_acting({"namespace": platform, "name": ACCOUNT})
        denied = author.try_create(definition)
        assert denied.code == 422, denied.text
        said = denied.body["message"]
        command = re.search(r"kubectl create role .* --namespace=\S+ && kubectl .* --namespace=[a-z0-9-]+", said)
        assert command is not None, denied.text
        paste(threats, command[0], tmp_path)
        threats.wait_for(lambda: author.try_create(definition).is_accepted, what="the definition is accepted")
        wait_ready(threats, "StackDefinition", "", NAME, "Complete")

        mistaken = author.patch("StackDefinition", "", NAME, {"spec": {"template": {"parameters": {"stack": {}}}}})
        assert mistaken.code == 422
        assert "spec.template.parameters.stack" in mistaken.text
        try_template_of_another(threats, author, platform)


def try_template_of_another(threats: ThreatWorld, author: Api, namespace: str) -> None:
    """Neither a template nor a message about it reveals data that its author may not read."""
    metadata = {"name": "private", "namespace": namespace}
    threats.api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"template.yaml": "hidden: ["}}
    )
    elsewhere = {"template": None, "templateRefs": [{"name": "private"}], "templateNamespace": namespace}
    refused = author.patch("StackDefinition", "", NAME, {"spec": elsewhere})
    assert refused.code == 422, refused.text
    assert f"cannot read configmap/private in namespace {namespace}" in refused.text
    assert "hidden" not in refused.text
    found = threats.api.get("StackDefinition", "", NAME)
    assert found is not None
    assert found["status"]["revision"] == 1


def make_platform_engineer(threats: ThreatWorld, namespace: str) -> Api:
    """A user that may only write StackDefinitions."""
    metadata = {"name": f"{namespace}-engineer"}
    version = "rbac.authorization.k8s.io"
    rules = [Rule(group="hearth.dev", resources=("stackdefinitions",), verbs=(*READ, *WRITE)).render()]
    threats.api.create({"apiVersion": f"{version}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules})
    account = {"name": "engineer", "namespace": namespace}
    threats.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    reference = {"apiGroup": version, "kind": "ClusterRole", "name": metadata["name"]}
    binding = {"apiVersion": f"{version}/v1", "kind": "ClusterRoleBinding", "metadata": metadata}
    threats.api.create({**binding, "roleRef": reference, "subjects": [{"kind": "ServiceAccount", **account}]})
    made = threats.api.acting_as(namespace, "engineer")
    threats.wait_for(lambda: made.send("GET", "/apis/hearth.dev/v1alpha1/stackdefinitions").is_accepted)
    return made


def paste(threats: ThreatWorld, command: str, folder: Path) -> None:
    """Run the command as the administrator."""
    (folder / "kubectl").symlink_to(binaries.ensure() / "kubectl")
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "KUBECONFIG": str(threats.kubeconfig), "HOME": str(folder)}
    subprocess.run(["bash", "-c", command], env=environment, check=True, capture_output=True)
