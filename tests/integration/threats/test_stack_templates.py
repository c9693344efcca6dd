"""A template that all namespaces share: anyone can use it, only its owner can change it, and parameters keep users
apart.

Also the example that uses one for each namespace of a tenant.
"""

from __future__ import annotations

from typing import Any

import yaml

from support import repository
from support.threats.api import Object
from support.threats.world import Tenant, ThreatWorld

NAME = "shared-web"
EXAMPLE = repository.EXAMPLES / "tenants.yaml"
PARAMETERS: Object = {"greeting": {"type": "string"}, "size": {"type": "integer", "default": 1}}


def make_template(**data: str) -> Object:
    """A template of one ConfigMap with these values and a value from the tenant."""
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web"},
        "data": {"greeting": "${params.greeting}", **data},
    }
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackTemplate",
        "metadata": {"name": NAME},
        "spec": {"template": {"parameters": PARAMETERS, "resources": {"web": {"manifest": config}}}},
    }


def make_user(tenant: Tenant, **reference: Any) -> Object:
    """A Stack that uses it."""
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": tenant.namespace},
        "spec": {
            "templateRef": {"kind": "StackTemplate", "name": NAME, **reference},
            "parameters": {"greeting": tenant.namespace},
        },
    }


def test_a_template_is_used_by_tenants_who_may_not_even_read_it(threats: ThreatWorld) -> None:
    tenants = [threats.tenant(), threats.tenant()]
    authors = [each.author() for each in tenants]
    for tenant, author in zip(tenants, authors, strict=True):
        refused = author.try_create(make_user(tenant, key="other.yaml"))
        assert (refused.code, "key is only valid for a ConfigMap" in refused.text) == (422, True)
        author.create(make_user(tenant))
        threats.wait_phase(tenant.namespace, "shop", "CreateFailed")
    assert authors[0].try_create(make_template()).code == 403

    threats.api.create(make_template(version="1"))
    try:
        for tenant in tenants:
            threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
        assert [read(threats, each) for each in tenants] == [
            {"greeting": each.namespace, "version": "1"} for each in tenants
        ]
        threats.api.apply(make_template(version="2")).expect()
        threats.wait_for(
            lambda: all(read(threats, tenant).get("version") == "2" for tenant in tenants), what="the new version"
        )
        # A mistake in the template changes no objects.
        threats.api.apply(make_template(version="${params.missing}")).expect()
        for tenant in tenants:
            stack = threats.wait_phase(tenant.namespace, "shop", "UpdateFailed")
            ready = next(each for each in stack["status"]["conditions"] if each["type"] == "Ready")
            assert "spec.template).resources.web" in ready["message"]
            assert read(threats, tenant)["version"] == "2"
        threats.canary()
    finally:
        threats.api.delete("StackTemplate", "", NAME)


def read(threats: ThreatWorld, tenant: Tenant) -> Object:
    """The data of a tenant's ConfigMap."""
    return (threats.api.get("ConfigMap", tenant.namespace, "web") or {}).get("data") or {}


def test_the_example_follows_the_namespaces_of_tenants(threats: ThreatWorld) -> None:
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    tenants = [threats.make_namespace() for _ in range(2)]
    try:
        for each in documents:
            threats.api.apply(each).expect()
        threats.wait_phase("platform", "tenants", "CreateComplete")
        for name in tenants:
            threats.api.patch("Namespace", "", name, {"metadata": {"labels": {"tier": "tenant"}}}).expect()
        threats.wait_for(
            lambda: all(list_baseline(threats, name) == 2 for name in tenants), what="both objects in each"
        )
        assert threats.find_status("platform", "tenants")["phase"] == "CreateComplete"

        threats.api.patch("Namespace", "", tenants[0], {"metadata": {"labels": {"tier": None}}}).expect()
        threats.wait_for(lambda: list_baseline(threats, tenants[0]) == 0, what="nothing in the first")
        assert list_baseline(threats, tenants[1]) == 2
        threats.wait_for(
            lambda: threats.find_status("platform", "tenants")["outputs"] == {"tenants": tenants[1]}, what="the output"
        )
    finally:
        threats.api.delete("Stack", "platform", "tenants")
        threats.wait_for(lambda: threats.api.get("Stack", "platform", "tenants") is None, what="the end of the Stack")
        for each in documents:
            metadata = each["metadata"]
            threats.api.delete(each["kind"], metadata.get("namespace", ""), metadata["name"])


def list_baseline(threats: ThreatWorld, namespace: str) -> int:
    """Number of objects of the example in a namespace."""
    found = [threats.api.get(kind, namespace, "baseline") for kind in ("ResourceQuota", "NetworkPolicy")]
    return len([each for each in found if each is not None])
