"""Attacks beyond a tenant's Stacks: on leadership, roles, others' objects, and the operator's attention for others."""

from __future__ import annotations

import pytest

from support.threats.api import Object
from support.threats.world import CONFIG_MAPS, READ, WRITE, Rule, ThreatWorld, make_config_map, make_stack

LEASE: Object = {
    "manifest": {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "hearth", "namespace": "hearth-system"},
        "spec": {"holderIdentity": "mallory", "leaseDurationSeconds": 3600},
    },
    "adoptionPolicy": "Adopt",
}
ROLE: Object = {
    "manifest": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }
}
NONSENSE_RIGHTS = (CONFIG_MAPS, Rule(group="apps", resources=("controllerrevisions",), verbs=(*READ, *WRITE)))
CHANGED = make_config_map("cfg", {"a": "c"})
NONSENSE: tuple[Object, ...] = (
    {},
    {"hearth.dev/identity": ""},
    {"hearth.dev/identity": "{"},
    {"hearth.dev/identity": "[[1]]", "hearth.dev/incarnation": "-1", "hearth.dev/requires": ",,/,"},
    {
        "hearth.dev/identity": "\u2028\n\x00".replace("\x00", ""),
        "hearth.dev/incarnation": "½",
        "hearth.dev/last-applied-fields": "[{}]",
    },
    {"hearth.dev/revision": "٣", "hearth.dev/hash": ":" * 5000, "hearth.dev/suspended": "null"},
    {"hearth.dev/revision": "1e9", "hearth.dev/inherited-rules": "true", "hearth.dev/post-breakpoint": "/"},
)
"""Annotations of objects that Hearth never created."""
CLUSTER_ROLE: Object = {"manifest": {**ROLE["manifest"], "kind": "ClusterRole", "metadata": {"name": "mallory-all"}}}


@pytest.mark.operator_options("--leader-election", "--tenancy=trusted")
def test_a_stack_takes_neither_the_lease_nor_rights(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    leader = get_holder(threats)

    for name, resource in {"lease": LEASE, "role": ROLE, "cluster-role": CLUSTER_ROLE}.items():
        author.create(make_stack(tenant.namespace, name, {"r": resource}))
    for name in ("lease", "role", "cluster-role"):
        problem = threats.wait_problem(tenant.namespace, name)
        assert problem["reason"] in ("Denied", "Forbidden", "NamespaceNotAllowed"), problem

    assert get_holder(threats) == leader
    assert leader != "mallory"
    assert threats.api.get("Role", tenant.namespace, "all") is None
    assert threats.api.get("ClusterRole", "", "mallory-all") is None
    threats.canary()


def get_holder(threats: ThreatWorld) -> str:
    """The holder of the leader Lease."""
    lease = threats.wait_for(lambda: threats.api.get("Lease", "hearth-system", "hearth"))
    return str(lease["spec"]["holderIdentity"])


@pytest.mark.parametrize("policy", ["Adopt", "Refuse"])
def test_a_stack_never_gets_an_object_of_a_living_stack(threats: ThreatWorld, policy: str) -> None:
    victim, tenant = threats.tenant("victim"), threats.tenant()
    victim.author().create(make_stack(victim.namespace, "owner", {"cfg": make_config_map("shared", {"of": "owner"})}))
    threats.wait_phase(victim.namespace, "owner", "CreateComplete")
    before = threats.api.get("ConfigMap", victim.namespace, "shared")
    assert before is not None

    thief = make_config_map("shared", {"of": "thief"}, adoptionPolicy=policy)
    abroad = {**thief, "manifest": {**thief["manifest"], "metadata": {"name": "shared", "namespace": victim.namespace}}}
    for namespace, resource in ((victim.namespace, thief), (tenant.namespace, abroad)):
        threats.api.create(make_stack(namespace, "thief", {"cfg": resource}))
        threats.wait_phase(namespace, "thief", "CreateFailed")
        threats.api.delete("Stack", namespace, "thief")
        threats.wait_for(lambda at=namespace: threats.api.get("Stack", at, "thief") is None, what="the thief is gone")  # type: ignore[misc]  # mypy cannot type a default that binds a loop variable

    assert threats.api.get("ConfigMap", victim.namespace, "shared") == before


def test_objects_that_make_no_sense_disturb_only_themselves(threats: ThreatWorld) -> None:
    victim = threats.tenant("victim")
    victim.author().create(make_stack(victim.namespace, "shop", {"cfg": make_config_map("cfg")}))
    stack = threats.wait_phase(victim.namespace, "shop", "CreateComplete")
    editor = victim.make_account("editor", *NONSENSE_RIGHTS)
    for number, forged in enumerate(NONSENSE):
        for kind, body in (
            ("ConfigMap", {"data": {"a": "b"}}),
            ("ControllerRevision", {"revision": 7, "data": {"a": 1}}),
        ):
            version = "v1" if kind == "ConfigMap" else "apps/v1"
            labels = {
                "hearth.dev/stack-uid": stack["metadata"]["uid"],
                "hearth.dev/stack": "shop",
                "hearth.dev/resource": "cfg",
            }
            metadata = {
                "name": f"odd-{number}",
                "namespace": victim.namespace,
                "labels": labels,
                "annotations": forged,
            }
            assert editor.try_create({"apiVersion": version, "kind": kind, "metadata": metadata, **body}).code == 201

    threats.canary()
    threats.operator.restart()
    threats.canary()
    patched = threats.api.patch(
        "Stack", victim.namespace, "shop", {"spec": {"template": {"resources": {"cfg": CHANGED}}}}
    )
    assert patched.is_accepted
    threats.wait_phase(victim.namespace, "shop", "UpdateComplete")
    live = threats.api.get("ConfigMap", victim.namespace, "cfg")
    assert live is not None
    assert live["data"] == {"a": "c"}


def test_look_alikes_of_names_are_other_names(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    refused = {
        "cyrillic": {"сfg": make_config_map()},
        "wide": {"ｃfg": make_config_map()},
        "unseen": {"cfg\u200b": make_config_map()},
        "reversed": {"cfg\u202e": make_config_map()},
        "expression": {"cfg": make_config_map(data={"a": "${раrams.x}"})},
        "object": {"cfg": make_config_map("сonfig")},
        "kind": {"cfg": {"manifest": {"apiVersion": "v1", "kind": "СonfigMap"}}},
    }
    created = []
    for name, resources in refused.items():
        if author.try_create(make_stack(tenant.namespace, name, resources)).is_accepted:
            created.append(name)

    threats.wait_for(
        lambda: all(is_refused(threats.find_status(tenant.namespace, name)) for name in created), what="each is refused"
    )
    found = {each["metadata"]["name"] for each in threats.api.list("ConfigMap", tenant.namespace)}
    assert found == {"kube-root-ca.crt"}
    threats.canary()


def is_refused(status: Object) -> bool:
    """Whether a Stack reports that a part of it is refused."""
    return status.get("phase") == "CreateFailed" or bool(status.get("problems"))
