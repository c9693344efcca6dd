"""Tenants who know a Stack's UID change its children or forge objects that look like children."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping

import pytest

from hearth.model import names
from support.threats.api import Api, Object
from support.threats.world import CONFIG_MAPS, Rule, Tenant, ThreatWorld, make_config_map, make_stack

WEB: Object = make_config_map(data={"of": "${cfg.metadata.name}"})
SHOP = {"cfg": make_config_map(data={"a": "1"}), "web": WEB}
"""`web` requires `cfg`."""
NINES = "9" * 5000
POISONED = 40


def make_shop(threats: ThreatWorld, tenant: Tenant, name: str = "shop") -> Object:
    """A Stack of `SHOP` that is complete."""
    tenant.author().create(make_stack(tenant.namespace, name, SHOP))
    return threats.wait_phase(tenant.namespace, name, "CreateComplete")


def get_child(api: Api, namespace: str, name: str = "shop-cfg") -> Object:
    """The live child."""
    found = api.get("ConfigMap", namespace, name)
    assert found is not None
    return found


def forge(genuine: Object, *, namespace: str, name: str, **annotations: str) -> Object:
    """Copy the labels and annotations of a child to another object. annotations: changes to them."""
    metadata = genuine["metadata"]
    uid = metadata["labels"]["hearth.dev/stack-uid"]
    copied = {key: value for key, value in metadata["annotations"].items() if key.startswith("hearth.dev/")}
    identity = names.identity(stack_uid=uid, group="", kind="ConfigMap", namespace=namespace, name=name)
    changed = {f"hearth.dev/{key}": value for key, value in annotations.items()}
    return {
        "labels": metadata["labels"],
        "annotations": {**copied, "hearth.dev/identity": identity, **changed},
    }


def make_forged(genuine: Object, *, namespace: str, name: str, **annotations: str) -> Object:
    """A ConfigMap that claims to be a child."""
    marks = forge(genuine, namespace=namespace, name=name, **annotations)
    metadata = {"name": name, "namespace": namespace, **marks}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"evil": "yes"}}


def test_a_forged_child_elsewhere_holds_up_no_deletion(threats: ThreatWorld) -> None:
    victim, attacker = threats.tenant("victim"), threats.tenant()
    make_shop(threats, victim)
    genuine = get_child(threats.api, victim.namespace)
    forged = make_forged(genuine, namespace=attacker.namespace, name="held", resource="x", requires="web/1,cfg/1")
    forged["metadata"]["finalizers"] = ["example.org/held"]
    attacker.editor().create(forged)

    victim.author().delete("Stack", victim.namespace, "shop")
    threats.wait_for(
        lambda: threats.api.get("Stack", victim.namespace, "shop") is None, within=20, what="the end of the Stack"
    )
    for name in ("shop-cfg", "shop-web"):
        assert threats.api.get("ConfigMap", victim.namespace, name) is None
    assert "deletionTimestamp" not in get_child(threats.api, attacker.namespace, "held")["metadata"]


@pytest.mark.parametrize("manager", ["kubectl", "hearth"])
def test_no_one_has_an_object_deleted_by_labels(threats: ThreatWorld, manager: str) -> None:
    victim, tenant = threats.tenant("victim"), threats.tenant()
    make_shop(threats, tenant)
    precious: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "precious", "namespace": victim.namespace},
    }
    threats.api.create({**precious, "data": {"a": "1"}})
    annotator = victim.annotator("configmaps")
    assert annotator.delete("ConfigMap", victim.namespace, "precious").code == 403

    genuine = get_child(threats.api, tenant.namespace)
    marks = forge(genuine, namespace=victim.namespace, name="precious", incarnation="2")
    labelled = {**precious, "metadata": {**precious["metadata"], **marks}}
    manager = f"hearth:{tenant.namespace}/shop" if manager == "hearth" else manager
    annotator.apply(labelled, manager=manager).expect()
    # All obsolete objects are deleted before an update is complete.
    tenant.author().create(make_stack(tenant.namespace, "other", SHOP))
    update(threats, tenant, {"resources": {**SHOP, "new": make_config_map()}})
    assert "deletionTimestamp" not in get_child(threats.api, victim.namespace, "precious")["metadata"]
    tenant.author().delete("Stack", tenant.namespace, "shop")
    threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "shop") is None, what="the end of the Stack")
    assert "deletionTimestamp" not in get_child(threats.api, victim.namespace, "precious")["metadata"]


def update(threats: ThreatWorld, tenant: Tenant, template: Object, name: str = "shop") -> Object:
    """Change the template of a Stack; return the Stack once it is complete."""
    threats.api.patch("Stack", tenant.namespace, name, {"spec": {"template": template}}).expect()
    return threats.wait_phase(tenant.namespace, name, "UpdateComplete")


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"identity": None}, id="identity"),
        pytest.param({"signature": None}, id="signature"),
        pytest.param({"identity": None, "signature": None, "hash": None, "requires": None}, id="all"),
        pytest.param({"incarnation": "7", "requires": "web/1"}, id="facts"),
    ],
)
def test_annotations_that_are_taken_off_a_child_come_back(
    threats: ThreatWorld, annotations: Mapping[str, str | None]
) -> None:
    tenant = threats.tenant()
    make_shop(threats, tenant)
    before = get_child(threats.api, tenant.namespace)
    changes = {f"hearth.dev/{key}": value for key, value in annotations.items()}
    tenant.annotator("configmaps").annotate("ConfigMap", tenant.namespace, "shop-cfg", changes).expect()

    threats.wait_for(
        lambda: read_marks(get_child(threats.api, tenant.namespace)) == read_marks(before),
        within=20,
        what="the annotations of shop-cfg as they were",
    )
    stack = threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    assert stack["status"]["problems" if stack["status"].get("problems") else "phase"] == "CreateComplete"
    assert get_child(threats.api, tenant.namespace)["metadata"]["uid"] == before["metadata"]["uid"]
    tenant.author().delete("Stack", tenant.namespace, "shop")
    threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "shop") is None, what="the end of the Stack")
    assert threats.api.get("ConfigMap", tenant.namespace, "shop-cfg") is None


def read_marks(child: Object) -> Object:
    """The annotations of Hearth."""
    return {key: value for key, value in child["metadata"]["annotations"].items() if key.startswith("hearth.dev/")}


def test_a_forged_next_incarnation_displaces_nothing(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    stack = make_shop(threats, tenant)
    before = get_child(threats.api, tenant.namespace)
    suffix = names.digest(stack["metadata"]["uid"], "cfg", "2")
    creator = tenant.make_account("creator", Rule(group="", resources=("configmaps",), verbs=("get", "list", "create")))
    forged = make_forged(before, namespace=tenant.namespace, name=f"shop-cfg-{suffix}", incarnation="2")
    creator.create(forged)

    update(threats, tenant, {"resources": {**SHOP, "new": make_config_map()}})
    web = get_child(threats.api, tenant.namespace, "shop-web")
    assert web["data"] == {"of": "shop-cfg"}
    after = get_child(threats.api, tenant.namespace)
    assert (after["metadata"]["uid"], after["data"]) == (before["metadata"]["uid"], {"a": "1"})
    taken = get_child(threats.api, tenant.namespace, f"shop-cfg-{suffix}")
    assert taken["data"] == {"evil": "yes"}


def test_poisoned_children_stop_no_one(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    resources = {f"c{number}": make_config_map(data={"a": "1"}) for number in range(POISONED)}
    tenant.author().create(make_stack(tenant.namespace, "shop", resources))
    stack = threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    editor = tenant.editor()
    uids = {}
    for number in range(POISONED):
        name = f"shop-c{number}"
        uids[name] = get_child(threats.api, tenant.namespace, name)["metadata"]["uid"]
        metadata = {"labels": {"hearth.dev/stack-uid": None}, "annotations": {"hearth.dev/incarnation": NINES}}
        editor.patch("ConfigMap", tenant.namespace, name, {"metadata": metadata}).expect()

    threats.canary()
    label = f"hearth.dev/stack-uid={stack['metadata']['uid']}"
    threats.wait_for(
        lambda: len(threats.api.list("ConfigMap", tenant.namespace, labelSelector=label)) == POISONED,
        what="all children with their labels",
    )
    for name, uid in uids.items():
        metadata = get_child(threats.api, tenant.namespace, name)["metadata"]
        assert (metadata["uid"], metadata["annotations"]["hearth.dev/incarnation"]) == (uid, "1")
    threats.canary()


def test_a_write_under_the_operators_own_name_is_found_by_a_check(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    container = {"name": "web", "image": "nginx:1", "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}}
    pods = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [container]}}
    deployment = {"replicas": 1, "selector": {"matchLabels": {"app": "w"}}, "template": pods}
    secret = {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "correct-horse"}}}
    resources = {
        **SHOP,
        "pods": {"manifest": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {**deployment, "replicas": 0}}},
        "login": secret,
    }
    tenant.author().create(make_stack(tenant.namespace, "shop", resources))
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    check(threats, tenant, "1", "CheckComplete")

    editor = tenant.editor()
    live = get_child(editor, tenant.namespace)
    labels = {key: live["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    forged = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": labels, "data": {"a": "EVIL"}}
    editor.apply(forged, manager=f"hearth:{tenant.namespace}/shop").expect()
    status = check(threats, tenant, "2", "CheckFailed")
    [problem] = status["check"]["problems"]
    assert (problem["resource"], problem["message"]) == (
        "cfg",
        "data.a, under the operator's own field manager name: changed by another field manager",
    )
    threats.wait_for(
        lambda: get_child(threats.api, tenant.namespace)["data"] == {"a": "1"}, within=20, what="the value as stated"
    )


def check(threats: ThreatWorld, tenant: Tenant, token: str, phase: str) -> Object:
    """Request a check of the shop; return its status when the check has ended with that phase."""
    threats.api.annotate("Stack", tenant.namespace, "shop", {"hearth.dev/check": token}).expect()

    def look() -> Object | None:
        status = threats.find_status(tenant.namespace, "shop")
        return status if (status.get("handled") or {}).get("check") == token else None

    status = threats.wait_for(look, within=20, what=f"the check {token}")
    found = status["check"]["problemCount"]
    assert (found == 0) == (phase == "CheckComplete"), status["check"]
    return status


def test_equal_secrets_of_two_namespaces_look_different(threats: ThreatWorld) -> None:
    hashes = set()
    for tenant in (threats.tenant("victim"), threats.tenant()):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": tenant.namespace}}
        threats.api.create({**secret, "stringData": {"password": "correct-horse"}})
        template = {"parameters": {"password": {"sensitive": True}}}
        resources = {"cfg": make_config_map(data={"a": "1"})}
        stack = make_stack(
            tenant.namespace,
            "shop",
            resources,
            template=template,
            parametersFrom=[{"secretRef": {"name": "db"}}],
        )
        tenant.author(CONFIG_MAPS).create(stack)
        threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
        [revision] = threats.api.list("ControllerRevision", tenant.namespace)
        hashes.add(read_definition(revision)["sensitive"]["password"]["hash"])
    assert len(hashes) == 2


def read_definition(revision: Object) -> Object:
    """The definition in a ControllerRevision."""
    data: Object = revision["data"]
    if "compressed" in data:
        data = json.loads(gzip.decompress(base64.b64decode(data["compressed"])))
    return data
