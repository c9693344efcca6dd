"""StackDefinitions and instances that are too many, too large, or claim others' objects: other tenants are not
affected.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import yaml

from support.threats import definitions, installation
from support.threats.api import MERGE, Api, Object, find_path
from support.threats.definitions import GROUP, NAME, SITES, find_ready, make_site, wait_ready
from support.threats.world import PATIENCE, ThreatWorld

MANY = 400
"""Instances that one tenant creates at once."""
PARTS = 900
"""Resources of the largest definition, each of about a kilobyte."""
NOTICED = 3.0
"""Seconds that an uninvolved tenant's Stack may take during the processing of the largest definition: a hundred times
its undisturbed duration.
"""
SHARE = 0.25
"""Maximum duration of a newcomer's Stack relative to all instances, on any machine. Without turns, it is half."""
OTHER = f"places.{GROUP}"


def make_sites(resources: Object, **spec: object) -> Object:
    """A kind of sites with these resources, which may read its title."""
    template: Object = {"parameters": {"title": {"type": "string", "default": "x"}}, "resources": resources}
    return definitions.make_definition(template, **spec)


def make_page(text: str = "x") -> Object:
    """A resource of that text."""
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"title": "${params.title}", "text": text}}}


@pytest.fixture
def served(threats: ThreatWorld) -> Iterator[ThreatWorld]:
    """Run an operator that serves definitions; the kind and its objects are deleted at the end."""
    threats.operator.restart(*definitions.FLAGS)
    yield threats
    definitions.remove(threats)


@pytest.mark.installed("definitions")
def test_a_kind_that_is_served_otherwise_is_not_shadowed(served: ThreatWorld) -> None:
    names = {"kind": "Site", "plural": "places", "singular": "place", "listKind": "PlaceList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    first = served.api.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": OTHER},
            "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
        }
    )
    try:
        served.api.create(make_sites({"page": make_page()}))
        ready = wait_ready(served, "StackDefinition", "", NAME, "KindTaken")
        assert '"Site" is already in use' in find_ready(ready)[1]
        kept = served.api.get("CustomResourceDefinition", "", OTHER)
        assert kept is not None
        assert (kept["metadata"]["uid"], kept["spec"]["names"]) == (first["metadata"]["uid"], first["spec"]["names"])
        for group in ("apps", "hearth.dev", "x.k8s.io"):
            refused = served.api.try_create({**make_sites({}), "metadata": {"name": f"sites.{group}"}})
            assert not refused.is_accepted, group
    finally:
        served.api.delete("CustomResourceDefinition", "", OTHER)
    # Once the name is free, no manual action is needed.
    wait_ready(served, "StackDefinition", "", NAME, "Complete")


@pytest.mark.installed("definitions")
def test_many_instances_of_one_tenant_delay_no_other(served: ThreatWorld) -> None:
    served.api.create(make_sites({"page": make_page()}, rollout={"strategy": "AllAtOnce"}))
    wait_ready(served, "StackDefinition", "", NAME, "Complete")
    tenant = served.tenant()
    developer = tenant.make_account("developer", SITES)
    began = time.monotonic()
    for number in range(MANY):
        developer.create(make_site(tenant.namespace, f"site-{number}"))
    newcomer = served.canary(within=PATIENCE).complete
    wait_updated(served, revision=1)
    assert newcomer < SHARE * (time.monotonic() - began)

    changed = make_sites({"page": make_page("another")})["spec"]["template"]
    began = time.monotonic()
    served.api.patch("StackDefinition", "", NAME, {"spec": {"template": changed}}).expect()
    newcomers = [0.0]
    while not is_updated(served, revision=2):
        newcomers.append(served.canary(within=PATIENCE).complete)
        time.sleep(0.2)
    assert max(newcomers) < SHARE * (time.monotonic() - began)


@pytest.mark.installed("definitions")
def test_the_largest_definition_is_served(served: ThreatWorld) -> None:
    served.api.create(make_sites({f"page{number}": make_page("x" * 1_000) for number in range(PARTS)}))
    wait_ready(served, "StackDefinition", "", NAME, "Complete")
    tenant = served.tenant()
    developer = tenant.make_account("developer", SITES)
    developer.create(make_site(tenant.namespace, "large"))
    assert served.canary().complete < NOTICED
    wait_ready(served, "Site", tenant.namespace, "large", "CreateComplete")

    wrong = {f"page{number}": make_page("${params.nothing}") for number in range(PARTS)}
    served.api.patch("StackDefinition", "", NAME, {"spec": {"template": {"resources": wrong}}}).expect()
    ready = wait_ready(served, "StackDefinition", "", NAME, "InvalidDefinition")
    assert "spec.template.resources.page0" in find_ready(ready)[1]
    assert served.canary().complete < NOTICED


def is_updated(threats: ThreatWorld, *, revision: int) -> bool:
    """Whether all instances are ready with a revision."""
    found = threats.api.get("StackDefinition", "", NAME) or {}
    rollout = found["status"].get("rollout") or {}
    return (rollout.get("revision"), rollout.get("ready")) == (revision, MANY)


def wait_updated(threats: ThreatWorld, *, revision: int) -> None:
    """Wait until all instances are ready with a revision."""
    threats.wait_for(lambda: is_updated(threats, revision=revision), within=120, what=f"all with revision {revision}")


@pytest.mark.installed("definitions")
def test_roles_for_developers_hand_on_no_right_on_the_status(served: ThreatWorld) -> None:
    served.api.create(make_sites({"page": make_page()}, roles="Aggregate"))
    ready = wait_ready(served, "StackDefinition", "", NAME, "RolesRefused")
    assert "manifests/definitions/roles.yaml" in find_ready(ready)[1]
    assert served.api.get("ClusterRole", "", "sites-edit") is None
    manifests = installation.find_root() / "manifests" / "definitions" / "roles.yaml"
    for manifest in yaml.safe_load_all(manifests.read_text()):
        served.api.apply(manifest).expect()
    served.api.patch("StackDefinition", "", NAME, {"metadata": {"annotations": {"example.com/again": "1"}}}).expect()
    wait_ready(served, "StackDefinition", "", NAME, "Complete")

    namespace = served.make_namespace("developers")
    developer = make_editor(served, namespace)
    served.wait_for(lambda: developer.try_create(make_site(namespace, "own")).is_accepted, what="the right to make one")
    wait_ready(served, "Site", namespace, "own", "CreateComplete")
    path = find_path("Site", namespace, "own")
    forged = developer.send("PATCH", f"{path}/status", body={"status": {"phase": "X"}}, content_type=MERGE)
    assert forged.code == 403
    assert not developer.try_create(make_site(served.make_namespace("strangers"), "other")).is_accepted

    for kind in ("ClusterRoleBinding", "ClusterRole"):
        served.api.delete(kind, "", "hearth-definition-roles")
    served.api.patch("StackDefinition", "", NAME, {"spec": {"roles": None}}).expect()
    wait_ready(served, "StackDefinition", "", NAME, "RolesRefused")
    for name in ("sites-view", "sites-edit"):
        served.api.delete("ClusterRole", "", name)


def make_editor(threats: ThreatWorld, namespace: str) -> Api:
    """An account with the standard role `edit` in a namespace."""
    account = {"name": "editor", "namespace": namespace}
    threats.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    version = "rbac.authorization.k8s.io"
    reference = {"apiGroup": version, "kind": "ClusterRole", "name": "edit"}
    binding = {"apiVersion": f"{version}/v1", "kind": "RoleBinding", "metadata": account}
    threats.api.create({**binding, "roleRef": reference, "subjects": [{"kind": "ServiceAccount", **account}]})
    return threats.api.acting_as(namespace, "editor")
