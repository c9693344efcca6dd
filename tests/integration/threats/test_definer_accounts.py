"""A StackDefinition that acts as an account: who may let it, and what its developers cannot make of that account's rights."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import binaries
import pytest
from tests.integration.threats import test_admission

from support import free_port
from support.threats.api import Api, Object, find_path
from support.threats.world import CONFIG_MAPS, READ, WRITE, Rule, ThreatWorld

GROUP = "platform.example"
NAME = f"sites.{GROUP}"
ACCOUNT = "webapps"
FLAGS = (f"--definition-groups={GROUP}",)
SITES = Rule(group=GROUP, resources=("sites",), verbs=(*READ, *WRITE))


def make_definition(template: Object, **spec: object) -> Object:
    """A kind of sites."""
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "names": {"kind": "Site", "plural": "sites"},
            "versions": [{"name": "v1alpha1"}],
            "template": template,
            **spec,
        },
    }


def make_acting(account: Object) -> Object:
    """A kind whose object is a ConfigMap in a namespace that its developer names, written as an account."""
    page = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "${params.where}"}, "data": {"a": "b"}}
    template: Object = {"parameters": {"where": {"type": "string"}}, "resources": {"page": {"manifest": page}}}
    return make_definition(template, account=account)


def make_site(namespace: str, name: str, where: str, **options: object) -> Object:
    spec = {"where": where, **({"stack": options} if options else {})}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Site", "metadata": metadata, "spec": spec}


def find_ready(found: Object | None) -> tuple[str, str]:
    """Reason and message of `Ready`."""
    conditions = ((found or {}).get("status") or {}).get("conditions") or ()
    ready = next((each for each in conditions if each["type"] == "Ready"), {"reason": "", "message": ""})
    return ready["reason"], ready["message"]


def wait_ready(threats: ThreatWorld, kind: str, namespace: str, name: str, words: str) -> Object:
    """Until the phase, or reason and message of `Ready`, have these words; the object."""

    def look() -> Object | None:
        found = threats.api.get(kind, namespace, name)
        phase = ((found or {}).get("status") or {}).get("phase", "")
        return found if words in " ".join((phase, *find_ready(found))) else None

    try:
        return threats.wait_for(look, what=f"{words} of {name}")
    except AssertionError as error:
        raise AssertionError(f"{name} is not so: {find_ready(threats.api.get(kind, namespace, name))}") from error


def list_pages(threats: ThreatWorld, namespace: str) -> list[Object]:
    """The objects of instances in a namespace."""
    return threats.api.list("ConfigMap", namespace, labelSelector="hearth.dev/resource")


@pytest.fixture
def platform(threats: ThreatWorld) -> Iterator[str]:
    """The namespace of the account, which may write ConfigMaps everywhere; all of the kind is deleted in the end."""
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
    """Objects are written as it, in the namespace of the instance alone, and only while the installation lists it."""
    operator, tenant, vault = threats.operator, threats.tenant(), threats.make_namespace("vault")
    restart(threats, *FLAGS, f"--definition-accounts={platform}:{ACCOUNT}")
    stranger = {"namespace": platform, "name": "default"}
    threats.api.create(make_acting(stranger))
    ready = wait_ready(threats, "StackDefinition", "", NAME, "InvalidDefinition")
    assert f"--definition-accounts={platform}:default,{platform}:{ACCOUNT}" in find_ready(ready)[1]
    threats.api.patch("StackDefinition", "", NAME, {"spec": {"account": {"name": ACCOUNT}}}).expect()
    wait_ready(threats, "StackDefinition", "", NAME, "Complete")

    developer = tenant.make_account("developer", SITES)
    developer.create(make_site(tenant.namespace, "own", tenant.namespace))
    wait_ready(threats, "Site", tenant.namespace, "own", "CreateComplete")
    page = threats.api.get("ConfigMap", tenant.namespace, "own-page")
    assert page is not None
    assert not developer.try_create({**page, "metadata": {"name": "x", "namespace": tenant.namespace}}).is_accepted

    # The account may write there, but the definition does not say so.
    developer.create(make_site(tenant.namespace, "loot", vault))
    wait_ready(threats, "Site", tenant.namespace, "loot", "may only make objects in the namespace of each of its")
    assert list_pages(threats, vault) == []
    # No option of the instance counts that would be another account, and no one else reaches the account by its name.
    stored = developer.create(make_site(tenant.namespace, "other", vault, serviceAccountName="default"))
    assert stored["spec"] == {"where": vault, "stack": {}}
    forged = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": {"name": "as", "namespace": vault}}
    forged |= {"spec": {"serviceAccountName": f"{platform}:{ACCOUNT}", "template": {"resources": {}}}}
    assert threats.api.try_create(forged).code == 422

    threats.api.patch("StackDefinition", "", NAME, {"spec": {"boundary": "Cluster"}}).expect()
    threats.wait_for(lambda: list_pages(threats, vault), what="the object beyond the namespace")

    # What the installation does not list any more is not used any more.
    operator.kill()
    restart(threats, *FLAGS)
    wait_ready(threats, "Site", tenant.namespace, "own", "which the operator may not")
    assert threats.api.get("ConfigMap", tenant.namespace, "own-page") == page


@pytest.mark.installed("definitions")
def test_who_may_let_a_definition_act_as_an_account(threats: ThreatWorld, platform: str, tmp_path: Path) -> None:
    """An author who may impersonate it: asked at each new revision, and the command that is offered helps."""
    port = free_port.find_free_port()
    test_admission.configure(threats.api, port)
    restart(threats, *FLAGS, f"--definition-accounts={platform}:{ACCOUNT}", f"--webhook-address=127.0.0.1:{port}")
    reviewed = test_admission.Reviewed(threats=threats, port=port)
    threats.wait_for(reviewed.is_reviewing, what="the API server asks the webhook")
    author = make_platform_engineer(threats, platform)
    try:
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
    finally:
        for kind in test_admission.KINDS:
            threats.api.delete(kind, "", test_admission.NAME)
        threats.api.delete("Secret", test_admission.SYSTEM, test_admission.NAME)


def try_template_of_another(threats: ThreatWorld, author: Api, namespace: str) -> None:
    """No template, nor a message about it, tells what its author may not read."""
    metadata = {"name": "private", "namespace": namespace}
    threats.api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"template.yaml": "hidden: ["}}
    )
    elsewhere = {"template": None, "templateRefs": [{"name": "private"}], "templateNamespace": namespace}
    refused = author.patch("StackDefinition", "", NAME, {"spec": elsewhere})
    assert refused.code == 422, refused.text
    assert f"may not read configmap/private in namespace {namespace}" in refused.text
    assert "hidden" not in refused.text
    found = threats.api.get("StackDefinition", "", NAME)
    assert found is not None
    assert found["status"]["revision"] == 1


def make_platform_engineer(threats: ThreatWorld, namespace: str) -> Api:
    """May write StackDefinitions, and nothing else."""
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
    """Run it as the administrator."""
    (folder / "kubectl").symlink_to(binaries.ensure() / "kubectl")
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "KUBECONFIG": str(threats.kubeconfig), "HOME": str(folder)}
    subprocess.run(["bash", "-c", command], env=environment, check=True, capture_output=True)


def restart(threats: ThreatWorld, *options: str) -> None:
    """The operator with other flags."""
    threats.operator.kill()
    threats.operator.options = options
    threats.operator.start()


def remove(threats: ThreatWorld) -> None:
    """Delete the definition with its instances: it is not in a namespace that is cleared."""
    threats.operator.kill()
    if threats.api.send("GET", find_path("Site")).is_accepted:
        for namespace in {each["metadata"]["namespace"] for each in threats.api.list("Site")}:
            threats.api.delete_all("Site", namespace)
    threats.api.patch("StackDefinition", "", NAME, {"metadata": {"finalizers": None}})
    threats.api.delete("StackDefinition", "", NAME)
    threats.api.delete("CustomResourceDefinition", "", NAME)
    threats.wait_for(lambda: threats.api.get("CustomResourceDefinition", "", NAME) is None, what="the kind is gone")
