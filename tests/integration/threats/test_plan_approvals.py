"""Decisions about StackPlans on a real API server: who can approve, and what no tenant can forge, replay or remove."""

from __future__ import annotations

import base64
import functools
import re
import shlex
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hearth.engine.admission.plan_decisions import identify_plan
from hearth.model import approvals, names
from hearth.model.approvals import Approval, Decision
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.target import change_plans
from support.real.user_shell import Paster
from support.threats import webhook
from support.threats.api import Api, Object, find_path
from support.threats.webhook import Reviewed
from support.threats.world import READ, STACKS, WRITE, Rule, Tenant, ThreatWorld, make_config_map, make_stack

NAME = "shop-3f9c1a2e"
APPROVE, REJECT, STAMP = names.REQUEST_APPROVE, names.REQUEST_REJECT, names.ANNOTATION_APPROVAL
WRITES_PLANS = Rule(group="hearth.dev", resources=("stackplans", "stackplans/status"), verbs=(*READ, *WRITE))
APPROVES = Rule(group="hearth.dev", resources=("stackplans",), verbs=(*READ, "patch", "approve"))


@pytest.fixture
def reviewed(threats: ThreatWorld) -> Iterator[Reviewed]:
    """The shipped configurations, and an operator that serves them."""
    with webhook.serve(threats) as made:
        yield made


def read_key(threats: ThreatWorld) -> KeyedHasher:
    """The operator's key, which the tests need for genuine plans."""
    key = threats.api.get("Secret", "hearth-system", "hearth-hash-key")
    assert key is not None
    (value,) = key["data"].values()
    return KeyedHasher(base64.b64decode(value))


def make_spec(namespace: str) -> Object:
    spec = {
        "stackRef": {"kind": "Stack", "name": "shop", "uid": "stack-1"},
        "definitionHash": "k1:1",
        "baseRevision": 0,
        "previousPlan": "generation 1",
        "validFor": "24h",
        "steps": [],
    }
    return {**spec, "digest": change_plans.find_digest(namespace, spec)}


def find_digest(tenant: Tenant) -> str:
    return str(make_spec(tenant.namespace)["digest"])


def make_plan(threats: ThreatWorld, namespace: str, annotations: Mapping[str, str] | None = None) -> Object:
    """A plan as the operator makes it, of a Stack that does not exist."""
    spec = make_spec(namespace)
    signature = change_plans.sign_plan(namespace, NAME, spec, signer=read_key(threats))
    stated = {names.ANNOTATION_SIGNATURE: signature, **(annotations or {})}
    metadata = {"name": NAME, "namespace": namespace, "annotations": stated}
    return {"apiVersion": "hearth.dev/v1alpha1", "kind": "StackPlan", "metadata": metadata, "spec": spec}


def read_stamp(threats: ThreatWorld, plan: Object) -> Approval | None:
    """The decision that the plan's annotation proves."""
    text = plan["metadata"].get("annotations", {}).get(STAMP)
    return approvals.read_approval(text, identify_plan(plan), signatures=read_key(threats))


def find_plan(threats: ThreatWorld, tenant: Tenant) -> Object:
    found = threats.api.get("StackPlan", tenant.namespace, NAME)
    assert found is not None
    return found


def test_the_right_to_approve_decides(reviewed: Reviewed) -> None:
    threats, tenant = reviewed.threats, reviewed.threats.tenant()
    writer, approver = tenant.make_account("writer", WRITES_PLANS), tenant.make_account("approver", APPROVES)
    threats.api.create(make_plan(threats, tenant.namespace))

    refused = writer.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: find_digest(tenant)})
    mistaken = approver.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: "ffffffff"})
    tried = approver.send(
        "PATCH",
        find_path("StackPlan", tenant.namespace, NAME),
        body={"metadata": {"annotations": {APPROVE: find_digest(tenant)}}},
        content_type="application/merge-patch+json",
        dryRun="All",
    )
    assert "lacks the verb approve on stackplans.hearth.dev" in refused.text
    assert "'ffffffff' is not the beginning of the plan's digest" in mistaken.text
    assert (tried.is_accepted, STAMP in tried.text) == (True, False), tried.text
    assert read_stamp(threats, find_plan(threats, tenant)) is None

    approver.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: f"{find_digest(tenant)[:8]} after lunch"}).expect()

    plan = find_plan(threats, tenant)
    found = read_stamp(threats, plan)
    assert found is not None
    expected = (Decision.APPROVED, f"system:serviceaccount:{approver.account.replace('/', ':')}", "after lunch")
    assert (found.decision, found.user, found.reason) == expected
    assert APPROVE not in plan["metadata"]["annotations"]
    check_rejection(threats, tenant, writer, approver)


def check_rejection(threats: ThreatWorld, tenant: Tenant, writer: Api, approver: Api) -> None:
    """A rejection is final: its stamp cannot be removed or replaced by the earlier one, in any way of writing."""
    namespace, path = tenant.namespace, find_path("StackPlan", tenant.namespace, NAME)
    approved = find_plan(threats, tenant)
    approver.annotate("StackPlan", namespace, NAME, {REJECT: find_digest(tenant)[:8]}).expect()
    rejected = find_plan(threats, tenant)
    bare = {**rejected, "metadata": {**rejected["metadata"], "annotations": {}, "managedFields": None}}
    old_stamp = approved["metadata"]["annotations"][STAMP]
    earlier = {**bare, "metadata": {**bare["metadata"], "annotations": {STAMP: old_stamp}}}
    unversioned = {**earlier, "metadata": {"name": NAME, "namespace": namespace, "annotations": {STAMP: old_stamp}}}
    applied = {key: unversioned[key] for key in ("apiVersion", "kind", "metadata")}

    attempts = {
        "annotate": writer.annotate("StackPlan", namespace, NAME, {STAMP: old_stamp}),
        "remove": writer.annotate("StackPlan", namespace, NAME, {STAMP: None}),
        "remove all": writer.patch("StackPlan", namespace, NAME, {"metadata": {"annotations": None}}),
        "json patch": writer.patch(
            "StackPlan", namespace, NAME, [{"op": "remove", "path": "/metadata/annotations/hearth.dev~1approval"}]
        ),
        "replace": writer.send("PUT", path, body=bare),
        "replace with the earlier stamp": writer.send("PUT", path, body=earlier),
        "apply": writer.apply(applied),
        "approve again": approver.annotate("StackPlan", namespace, NAME, {APPROVE: find_digest(tenant)}),
        "both": approver.annotate(
            "StackPlan", namespace, NAME, {APPROVE: find_digest(tenant), REJECT: find_digest(tenant)}
        ),
        "a megabyte": writer.annotate("StackPlan", namespace, NAME, {STAMP: "x" * 1_000_000}),
        "a megabyte of digest": writer.annotate("StackPlan", namespace, NAME, {APPROVE: "x" * 1_000_000}),
    }
    accepted = {name: answer.text for name, answer in attempts.items() if answer.is_accepted}
    assert accepted == {}
    assert all("approvals.hearth.dev" in answer.text for answer in attempts.values()), attempts

    # The status ignores metadata, and other annotations and labels can change.
    status = {"metadata": {"annotations": {STAMP: old_stamp}}, "status": {"phase": "Pending"}}
    writer.patch("StackPlan", namespace, NAME, status, subresource="status").expect()
    writer.patch("StackPlan", namespace, NAME, {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}).expect()
    # A manifest without annotations, as from a backup, keeps the stamp.
    writer.apply({**applied, "metadata": {"name": NAME, "namespace": namespace}}).expect()
    found = read_stamp(threats, find_plan(threats, tenant))
    assert found is not None
    assert found.decision is Decision.REJECTED


def test_a_stamp_is_valid_only_for_its_plan(reviewed: Reviewed) -> None:
    threats, tenant, other = reviewed.threats, reviewed.threats.tenant(), reviewed.threats.tenant()
    writer, approver = tenant.make_account("writer", WRITES_PLANS), tenant.make_account("approver", APPROVES)
    threats.api.create(make_plan(threats, tenant.namespace))
    approver.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: find_digest(tenant)}).expect()
    approved = find_plan(threats, tenant)
    stamp = approved["metadata"]["annotations"][STAMP]
    assert read_stamp(threats, approved) is not None

    edited = writer.patch("StackPlan", tenant.namespace, NAME, {"spec": {"validFor": "999h"}})
    emptied = writer.patch("StackPlan", tenant.namespace, NAME, {"spec": None})
    assert ("a plan is immutable" in edited.text, emptied.is_accepted) == (True, False)
    # Created again with the same name, or in another namespace: with the annotation it loses the stamp, and later no
    # user can add it.
    writer.delete("StackPlan", tenant.namespace, NAME).expect()
    for namespace, user in ((tenant.namespace, writer), (other.namespace, other.make_account("writer", WRITES_PLANS))):
        copied = user.try_create(make_plan(threats, namespace, {STAMP: stamp, APPROVE: "3f9c1a2e", "a": "b"}))
        assert any("removed, because a plan can be approved only after" in each for each in copied.warnings)
        assert set(copied.body["metadata"]["annotations"]) == {"a", names.ANNOTATION_SIGNATURE}
        replayed = user.annotate("StackPlan", namespace, NAME, {STAMP: stamp})
        assert "only the operator sets or removes it" in replayed.text
        # Not even without the webhook: the operator does not accept it.
        copy = {**copied.body, "metadata": {**copied.body["metadata"], "annotations": {STAMP: stamp}}}
        assert read_stamp(threats, copy) is None


def test_no_tenant_approves_through_the_rights_of_the_operator(reviewed: Reviewed) -> None:
    threats, tenant = reviewed.threats, reviewed.threats.tenant()
    threats.api.create(make_plan(threats, tenant.namespace))
    # An operator that may do everything, as in a demonstration.
    account = {"kind": "ServiceAccount", "name": "hearth", "namespace": "hearth-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "all"}}
    threats.api.create({**binding, "roleRef": role, "subjects": [account]})
    try:
        operator = threats.api.acting_as("hearth-system", "hearth")
        refused = operator.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: find_digest(tenant)})
    finally:
        threats.api.delete("ClusterRoleBinding", "", "all")

    assert "is a ServiceAccount in the operator's namespace" in refused.text


def test_no_user_approves_while_no_operator_answers(reviewed: Reviewed) -> None:
    threats, tenant = reviewed.threats, reviewed.threats.tenant()
    writer, approver = tenant.make_account("writer", WRITES_PLANS), tenant.make_account("approver", APPROVES)
    threats.api.create(make_plan(threats, tenant.namespace))
    assert threats.operator.process is not None
    threats.operator.process.send_signal(signal.SIGSTOP)
    late = approver.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: find_digest(tenant)})
    threats.operator.process.send_signal(signal.SIGCONT)
    assert not late.is_accepted
    assert "failed calling webhook" in late.body["message"]
    assert read_stamp(threats, find_plan(threats, tenant)) is None
    threats.operator.kill()

    refused = approver.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: find_digest(tenant)})
    forged = writer.annotate("StackPlan", tenant.namespace, NAME, {STAMP: "{}"})

    assert (refused.code, forged.code) == (500, 500)
    assert 'failed calling webhook "approvals.hearth.dev"' in refused.body["message"]
    # Only decisions wait: everything else works, so that the garbage collector can delete the plan.
    writer.annotate("StackPlan", tenant.namespace, NAME, {"a": "b"}).expect()
    writer.delete("StackPlan", tenant.namespace, NAME).expect()
    threats.api.create(make_plan(threats, tenant.namespace))

    threats.operator.start()
    threats.wait_for(
        lambda: approver.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: find_digest(tenant)}).is_accepted,
        what="an approval",
    )
    assert read_stamp(threats, find_plan(threats, tenant)) is not None


def grant_annotating(threats: ThreatWorld, tenant: Tenant, user: str) -> None:
    """Let a user read Stacks, and read and annotate plans."""
    group, metadata = "rbac.authorization.k8s.io", {"name": "annotating", "namespace": tenant.namespace}
    rule = {"apiGroups": ["hearth.dev"], "resources": ["stacks", "stackplans"], "verbs": [*READ, "patch"]}
    subjects = [{"apiGroup": group, "kind": "User", "name": user}]
    binding = {"roleRef": {"apiGroup": group, "kind": "Role", "name": "annotating"}, "subjects": subjects}
    for kind, content in (("Role", {"rules": [rule]}), ("RoleBinding", binding)):
        threats.api.create({"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, **content})


async def paste_failing(paster: Paster, text: str, pattern: str) -> str:
    """Run the command in the matching text, which ends with the exit code 1, and return its output."""
    found = re.search(pattern, text)
    assert found is not None, f"{pattern!r} is not in {text!r}"
    return await paster.stack.expect(*shlex.split(found[0])[2:], code=1)


async def test_the_commands_show_and_decide(threats: ThreatWorld, tmp_path: Path) -> None:
    """Each printed command runs as printed."""
    tenant = threats.tenant()
    author = tenant.author()
    paster = Paster.make(threats.kubeconfig, tenant.namespace, tmp_path)
    author.create(make_stack(tenant.namespace, "shop", {"a": make_config_map()}, approval={"required": "Always"}))
    threats.wait_for(lambda: threats.api.list("StackPlan", tenant.namespace), what="a plan")

    threats.wait_phase(tenant.namespace, "shop", "CreateStopped")
    reasons = await paster.stack.expect("why", "shop", code=1)
    digest = find_shown_digest(await paste_failing(paster, reasons, r"kubectl stack plan shop -n \S+"))
    assert "no admission webhook for StackPlans" in await paster.stack.expect("approve", "shop", digest, code=1)
    with webhook.serve(threats):
        said = await paster.stack.expect("approve", "shop", "ffffffff", code=1)
        await paste_failing(paster, said, r"kubectl stack plan shop -n \S+")
        said = await paster.stack.expect("approve", "shop", code=1)
        said = await paste_failing(paster, said, r"kubectl stack plan shop -n \S+")
        grant_annotating(threats, tenant, "bob")
        refused = await paster.stack.expect("approve", "shop", digest, "--as", "bob", code=1)
        assert "user bob lacks the verb approve" in refused
        assert "approved by" in await paster.paste(said, r"kubectl stack approve shop \S+ -n \S+")
        threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
        assert "no change waits for an approval" in await paster.stack.expect("plan", "shop")
        await paster.paste(refused, "kubectl create role .*")
        await reject_and_renew(threats, tenant, paster)
        for verb, phase, data in (("approve", "UpdateComplete", "third"), ("reject", "UpdateStopped", "fourth")):
            threats.api.patch("Stack", tenant.namespace, "shop", edit_data(data)).expect()
            offer = rf"kubectl stack {verb} shop \S+ --namespace [a-z0-9-]+"
            await paster.paste(
                threats.wait_for(functools.partial(find_offer, threats, tenant, offer), what=offer), offer
            )
            threats.wait_phase(tenant.namespace, "shop", phase)


async def reject_and_renew(threats: ThreatWorld, tenant: Tenant, paster: Paster) -> None:
    """A retry requests another plan in place of a rejected one."""
    threats.api.patch("Stack", tenant.namespace, "shop", edit_data("rejected")).expect()
    threats.wait_phase(tenant.namespace, "shop", "UpdateStopped")
    shown = wait_shown(threats, paster, "kubectl stack reject")
    await paster.stack.expect("reject", "shop", find_shown_digest(shown), "--reason", "not on a Friday", "--as", "bob")
    assert "kubectl stack retry" in wait_shown(threats, paster, "rejected by bob")
    said = await paster.stack.expect("approve", "shop", find_shown_digest(shown), code=1)
    await paster.paste(said, r"kubectl stack retry shop -n \S+")
    shown = wait_shown(threats, paster, "kubectl stack approve")
    assert "by bob" not in shown
    ended = threats.api.list("StackPlan", tenant.namespace)[0]
    answer = threats.api.annotate("StackPlan", tenant.namespace, ended["metadata"]["name"], {APPROVE: "ffffffff"})
    await paster.stack.expect("approve", "shop", find_shown_digest(shown), "--as", "bob")
    threats.wait_phase(tenant.namespace, "shop", "UpdateComplete")
    assert not answer.is_accepted
    (completed,) = [
        each
        for each in threats.api.list("StackPlan", tenant.namespace)
        if each["spec"]["digest"].startswith(find_shown_digest(shown))
    ]
    answer = threats.api.annotate(
        "StackPlan", tenant.namespace, completed["metadata"]["name"], {REJECT: completed["spec"]["digest"]}
    )
    await paster.paste(answer.body["message"], r"kubectl stack plan shop -n \S+")


def edit_data(value: str) -> Object:
    """A merge patch that changes the ConfigMap of the Stack."""
    return {"spec": {"template": {"resources": {"a": make_config_map(data={"a": value})}}}}


def find_offer(threats: ThreatWorld, tenant: Tenant, pattern: str) -> str:
    """The message of the Stack, if it contains that command; otherwise ""."""
    stack = threats.api.get("Stack", tenant.namespace, "shop") or {}
    conditions = stack.get("status", {}).get("conditions", ())
    ready = next((str(each["message"]) for each in conditions if each["type"] == "Ready"), "")
    return ready if re.search(pattern, ready) else ""


def find_shown_digest(text: str) -> str:
    found = re.search("digest: ([0-9a-f]{8})", text)
    assert found is not None, text
    return found[1]


def wait_shown(threats: ThreatWorld, paster: Paster, text: str) -> str:
    """Wait until `kubectl stack plan` contains the text; return its output."""

    def show() -> str:
        shown = paster.stack.run_now("plan", "shop").stdout
        return shown if text in shown else ""

    return threats.wait_for(show, what=f"a plan with {text!r}")


def test_authors_cannot_approve_their_change(reviewed: Reviewed, tmp_path: Path) -> None:
    threats, tenant = reviewed.threats, reviewed.threats.tenant()
    paster = Paster.make(threats.kubeconfig, tenant.namespace, tmp_path)
    alice, bob, carol = (tenant.make_account(name, STACKS, APPROVES) for name in ("alice", "bob", "carol"))
    separate = {"required": "Always", "separateApprover": True}
    alice.create(make_stack(tenant.namespace, "shop", {"a": make_config_map()}, approval=separate))

    assert "wrote the change" in decide(threats, paster, alice)
    assert "approved by" in decide(threats, paster, bob)
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")

    # Bob edits on top of Alice's edit, so neither can approve; a label of Carol makes no author.
    alice.patch("Stack", tenant.namespace, "shop", edit_data("alice")).expect()
    threats.wait_phase(tenant.namespace, "shop", "UpdateStopped")
    bob.patch("Stack", tenant.namespace, "shop", edit_data("bob")).expect()
    carol.patch("Stack", tenant.namespace, "shop", {"metadata": {"labels": {"a": "b"}}}).expect()
    forged = {"metadata": {"annotations": {names.ANNOTATION_AUTHORS: None}}}
    alice.patch("Stack", tenant.namespace, "shop", forged).expect()
    threats.wait_phase(tenant.namespace, "shop", "UpdateStopped")
    wait_shown(threats, paster, "bob")
    assert "wrote the change" in decide(threats, paster, alice)
    assert "wrote the change" in decide(threats, paster, bob)

    switch_off(reviewed, tenant, alice)
    assert "wrote the change" in decide(threats, paster, alice)
    assert "approved by" in decide(threats, paster, carol)
    stack = threats.wait_phase(tenant.namespace, "shop", "UpdateComplete")
    assert stack["spec"]["template"]["resources"]["a"]["manifest"]["data"] == {"a": "again"}


def switch_off(reviewed: Reviewed, tenant: Tenant, alice: Api) -> None:
    """Alice removes the need of a separate approver in one step, and edits in another and while no operator answers."""
    threats = reviewed.threats
    switched_off = {"spec": {"approval": {"separateApprover": None}}}
    alice.patch("Stack", tenant.namespace, "shop", switched_off).expect()
    alice.patch("Stack", tenant.namespace, "shop", edit_data("again")).expect()
    threats.wait_phase(tenant.namespace, "shop", "UpdateStopped")
    threats.operator.kill()
    unrecorded = alice.patch("Stack", tenant.namespace, "shop", edit_data("unseen"))
    assert 'failed calling webhook "authors.hearth.dev"' in unrecorded.body["message"]
    threats.operator.start()
    threats.wait_for(reviewed.is_reviewing, what="reviews")


def decide(threats: ThreatWorld, paster: Paster, user: Api) -> str:
    """Approve the plan that is shown, as that user; return the output."""
    digest = find_shown_digest(wait_shown(threats, paster, "kubectl stack approve"))
    name = f"system:serviceaccount:{user.account.replace('/', ':')}"
    done = paster.stack.run_now("approve", "shop", digest, "--as", name)
    return done.stdout + done.stderr


def test_an_approval_without_the_webhook_has_no_stamp(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    approver = tenant.make_account("approver", APPROVES)
    threats.api.create(make_plan(threats, tenant.namespace))

    approver.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: find_digest(tenant)}).expect()
    plan = find_plan(threats, tenant)
    assert (read_stamp(threats, plan), plan["metadata"]["annotations"][APPROVE]) == (None, find_digest(tenant))

    # Once there is a webhook, the old request of anyone is still no decision of the users who write afterward.
    with webhook.serve(threats):
        approver.annotate("StackPlan", tenant.namespace, NAME, {"a": "b"}).expect()
        assert read_stamp(threats, find_plan(threats, tenant)) is None
        approver.annotate("StackPlan", tenant.namespace, NAME, {APPROVE: find_digest(tenant)[:8]}).expect()
        assert read_stamp(threats, find_plan(threats, tenant)) is not None
