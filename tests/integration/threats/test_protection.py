"""The right to remove a Stack's protection, and its effect on users: decided by the API server, and again by the
operator.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from hearth.model import names
from support import repository
from support.threats import definitions
from support.threats.api import Object, find_path
from support.threats.definitions import NAME, SITES, make_site, wait_ready
from support.threats.world import ThreatWorld, make_config_map, make_stack

POLICY = repository.MANIFESTS / "install" / "protection.yaml"
KINDS = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
TEMPLATE: Object = {"resources": {"page": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}}}}
WAY_OUT = "set it to false first"


@pytest.fixture
def guarded(threats: ThreatWorld) -> Iterator[ThreatWorld]:
    """Install the shipped policy."""
    policies = list(yaml.safe_load_all(POLICY.read_text()))
    for policy in policies:
        threats.api.apply(policy).expect()
    try:
        yield threats
    finally:
        for policy in policies:
            threats.api.delete(policy["kind"], "", policy["metadata"]["name"])


def test_a_protected_stack_is_deleted_neither_by_its_author_nor_with_all_others(guarded: ThreatWorld) -> None:
    tenant = guarded.tenant()
    author = tenant.author()
    author.create(make_stack(tenant.namespace, "shop", {"a": make_config_map("a")}, protected=True))
    author.create(make_stack(tenant.namespace, "plain", {"b": make_config_map("b")}))
    guarded.wait_phase(tenant.namespace, "shop", "CreateComplete")
    guarded.wait_for(
        lambda: WAY_OUT in author.delete("Stack", tenant.namespace, "shop").text, what="the policy is enforced"
    )
    guarded.operator.kill()
    for answer in (
        author.delete("Stack", tenant.namespace, "shop"),
        guarded.api.send("DELETE", find_path("Stack", tenant.namespace)),
        guarded.api.delete("Stack", tenant.namespace, "shop"),
    ):
        assert (answer.code, WAY_OUT in answer.text) == (403, True), answer.text
    author.patch("Stack", tenant.namespace, "shop", {"spec": {"protected": None}}).expect()
    author.delete("Stack", tenant.namespace, "shop").expect()


def test_absurd_lifetimes_are_rejected(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    rejected = ("0s", "9.9s", "1ms", "-1h", "87601h", "9" * 20 + "h", "forever", "9" * 40 + "s", "")
    for lifetime in (*rejected, 60):
        answer = author.try_create(
            make_stack(tenant.namespace, "short", {"a": make_config_map()}, expiresAfter=lifetime)
        )
        assert (answer.code, "expiresAfter" in answer.text) == (422, True), (lifetime, answer.text)
    for number, lifetime in enumerate(("10s", "1h30m", "87600h")):
        author.create(make_stack(tenant.namespace, f"long-{number}", {"a": make_config_map()}, expiresAfter=lifetime))
    threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "long-0") is None, what="the end of 10s")
    assert threats.find_status(tenant.namespace, "long-2")["expiresAt"] > "2036"


def test_a_copied_label_lets_nobody_hold_the_stack_of_another(guarded: ThreatWorld) -> None:
    tenant = guarded.tenant()
    author = tenant.author()
    victim = author.create(make_stack(tenant.namespace, "shop", {"a": make_config_map("a")}))
    guarded.wait_phase(tenant.namespace, "shop", "CreateComplete")
    anchor = make_stack(tenant.namespace, "anchor", {"b": make_config_map("b")}, protected=True)
    anchor["metadata"]["labels"] = {names.LABEL_STACK_UID: victim["metadata"]["uid"]}
    author.create(anchor)
    guarded.wait_phase(tenant.namespace, "anchor", "CreateComplete")

    author.delete("Stack", tenant.namespace, "shop").expect()

    guarded.wait_for(lambda: guarded.api.get("Stack", tenant.namespace, "shop") is None, what="the Stack is deleted")
    assert guarded.api.get("ConfigMap", tenant.namespace, "b") is not None
    author.patch("Stack", tenant.namespace, "anchor", {"spec": {"protected": None}}).expect()


@pytest.mark.installed("definitions")
def test_users_of_an_instance_cannot_lift_a_protection_of_its_definition(threats: ThreatWorld) -> None:
    threats.operator.restart(*definitions.FLAGS)
    threats.api.create(definitions.make_definition(TEMPLATE, defaults={"protected": True}))
    try:
        wait_ready(threats, "StackDefinition", "", NAME, "Complete")
        tenant = threats.tenant()
        user = tenant.make_account("user", SITES)
        user.create(make_site(tenant.namespace, "mine"))
        wait_ready(threats, "Site", tenant.namespace, "mine", "CreateComplete")
        threats.wait_for(
            lambda: "is protected" in user.delete("Site", tenant.namespace, "mine").text, what="the policy is enforced"
        )
        user.patch("Site", tenant.namespace, "mine", {"spec": {"stack": {"protected": False}}}).expect()
        assert user.delete("Site", tenant.namespace, "mine").code == 403

        for kind in KINDS:
            # As on a server without admission policies.
            threats.api.delete(kind, "", NAME).expect()
        threats.wait_for(lambda: user.delete("Site", tenant.namespace, "mine").is_accepted, what="the policy is gone")
        user.patch("Site", tenant.namespace, "mine", {"spec": {"stack": {"protected": False}}}).expect()
        held = wait_ready(
            threats, "Site", tenant.namespace, "mine", f"Protected spec.defaults.protected of StackDefinition {NAME}"
        )
        assert held["metadata"]["finalizers"] == [names.FINALIZER]
        assert threats.api.get("ConfigMap", tenant.namespace, "mine-page") is not None

        threats.api.patch("StackDefinition", "", NAME, {"spec": {"defaults": None}}).expect()
        threats.wait_for(lambda: threats.api.get("Site", tenant.namespace, "mine") is None, what="it is deleted")
    finally:
        definitions.remove(threats)
