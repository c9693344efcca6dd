"""Gates of a rollout on a real API server: who can approve, and what no user can forge, replay, remove or skip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.model import names
from support.real.user_shell import Paster
from support.threats import definitions, webhook
from support.threats.api import Api, Object
from support.threats.definitions import NAME, wait_ready
from support.threats.webhook import Reviewed
from support.threats.world import READ, ThreatWorld

APPROVE, REJECT, STAMPS = names.REQUEST_APPROVE, names.REQUEST_REJECT, names.ANNOTATION_APPROVALS
RBAC = "rbac.authorization.k8s.io"
APPROVER, EDITOR = "hearth-rollout-approver", "definition-editor"
"""The shipped role, and one that the tests make."""

pytestmark = pytest.mark.installed("definitions")


@pytest.fixture
def gated(threats: ThreatWorld) -> Iterator[Reviewed]:
    """An operator with the webhook, and a definition with a gate whose second revision waits after its only wave."""
    with webhook.serve(threats, *definitions.FLAGS) as made:
        try:
            begin(threats)
            yield made
        finally:
            definitions.remove(threats)
            threats.api.delete("ClusterRole", "", EDITOR)
            for role in (APPROVER, EDITOR):
                threats.api.delete("ClusterRoleBinding", "", role)


def make_definition(layout: str, *gates: str) -> Object:
    page = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"layout": layout}}}
    rollout = {"gates": [{"name": each, "approval": {}} for each in gates]}
    return definitions.make_definition({"resources": {"page": page}}, rollout=rollout)


def begin(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    threats.api.create(make_definition("one", "release-manager"))
    wait_ready(threats, "StackDefinition", "", NAME, "Complete")
    threats.api.create(definitions.make_site(tenant.namespace, "one"))
    wait_ready(threats, "Site", tenant.namespace, "one", "CreateComplete")
    threats.api.patch("StackDefinition", "", NAME, {"spec": make_definition("two", "release-manager")["spec"]}).expect()
    wait_ready(threats, "StackDefinition", "", NAME, "WaitingForApproval")


def make_user(threats: ThreatWorld, role: str) -> Api:
    """A ServiceAccount with that role in the whole cluster."""
    account = threats.tenant().make_account("user")
    namespace, _, name = account.account.partition("/")
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    if role == EDITOR:
        rule = {"apiGroups": ["hearth.dev"], "resources": ["stackdefinitions"], "verbs": [*READ, "update", "patch"]}
        role_object = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": [rule]}
        threats.api.create(role_object)
    binding = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role}}
    threats.api.create({**binding, "roleRef": reference, "subjects": [subject]})
    threats.wait_for(lambda: account.get("StackDefinition", "", NAME), what="the rights")
    return account


def read(threats: ThreatWorld) -> Object:
    found = threats.api.get("StackDefinition", "", NAME)
    assert found is not None
    return found


def find_digest(threats: ThreatWorld) -> str:
    (gate,) = [each for each in read(threats)["status"]["rollout"]["gates"] if each["state"] == "Waiting"]
    return str(gate["digest"])


def test_the_right_to_approve_decides_and_guards_the_gates(gated: Reviewed) -> None:
    threats = gated.threats
    approver, editor = make_user(threats, APPROVER), make_user(threats, EDITOR)
    digest = find_digest(threats)
    without = make_definition("two")
    renamed = {"spec": {"template": make_definition("three")["spec"]["template"]}}

    def annotate(user: Api, **annotations: str | None) -> str:
        answer = user.annotate(
            "StackDefinition", "", NAME, {getattr(names, key): text for key, text in annotations.items()}
        )
        return "" if answer.is_accepted else answer.text

    attempts = {
        "lacks the verb approve": annotate(editor, REQUEST_APPROVE=digest),
        "lacks the verb approve on stackdefinitions.hearth.dev to change": editor.patch(
            "StackDefinition", "", NAME, {"spec": {"rollout": None}}
        ).text,
        "lacks the verb update": approver.patch("StackDefinition", "", NAME, renamed).text,
        "is not the beginning of the digest": annotate(approver, REQUEST_APPROVE="f" * 8),
        "only the operator sets it": annotate(editor, ANNOTATION_APPROVALS="{}"),
    }
    assert [words for words, text in attempts.items() if words not in text] == []
    assert "lacks the verb approve" in editor.apply({**without, "metadata": {"name": NAME}}).text
    assert STAMPS not in read(threats)["metadata"].get("annotations", {})

    approver.annotate("StackDefinition", "", NAME, {APPROVE: f"{digest[:8]} soaked"}).expect()

    done = wait_ready(threats, "StackDefinition", "", NAME, "Complete")
    (gate,) = done["status"]["rollout"]["gates"]
    user = f"system:serviceaccount:{approver.account.replace('/', ':')}"
    assert (gate["state"], gate["user"], gate["message"]) == ("Passed", user, "soaked")
    assert APPROVE not in done["metadata"]["annotations"]
    # The stamp stays after a write of the whole object, and proves nothing for the next revision.
    stamps = done["metadata"]["annotations"][STAMPS]
    assert annotate(editor, ANNOTATION_APPROVALS=None) == ""
    assert read(threats)["metadata"]["annotations"][STAMPS] == stamps
    editor.patch("StackDefinition", "", NAME, renamed).expect()
    wait_ready(threats, "StackDefinition", "", NAME, "WaitingForApproval")
    assert find_digest(threats) != digest
    approver.annotate("StackDefinition", "", NAME, {REJECT: find_digest(threats)}).expect()
    wait_ready(threats, "StackDefinition", "", NAME, "RolloutStopped")


async def test_no_gate_passes_while_no_operator_answers_and_then_the_printed_command_approves(
    gated: Reviewed, tmp_path: Path
) -> None:
    threats = gated.threats
    digest = find_digest(threats)
    threats.operator.kill()

    late = threats.api.annotate("StackDefinition", "", NAME, {APPROVE: digest})
    opened = threats.api.patch("StackDefinition", "", NAME, {"spec": {"rollout": None}})

    assert (late.code, opened.code) == (500, 500)
    assert 'failed calling webhook "gates.hearth.dev"' in late.body["message"]
    # Other writes need no webhook.
    threats.api.annotate("StackDefinition", "", NAME, {"a": "b"}).expect()
    threats.operator.start()
    threats.wait_for(gated.is_reviewing, what="the API server asks the webhook")
    paster = Paster.make(threats.kubeconfig, "default", tmp_path)
    shown = await paster.stack.expect("rollout", "status", "sites", code=1)
    found = re.search(r"kubectl stack (rollout approve .*)", shown)
    assert found is not None, shown
    done = await paster.stack.expect(*found[1].split(), "--reason", "looks good")
    assert re.search(r"gate release-manager after wave rest of revision 2 approved by \S+ at \S+: looks good", done)
    assert "instances run revision 2" in await paster.stack.expect("rollout", "status", "sites", "--timeout", "1m")
    mistaken = await paster.stack.expect("rollout", "reject", "sites", "ffffffff", code=1)
    assert "'ffffffff' is not the beginning of the digest of a gate" in mistaken
    refused = threats.api.annotate("StackDefinition", "", NAME, {REJECT: digest}).body["message"]
    (command,) = re.findall(r"run: kubectl stack (rollout status .*)", refused)
    assert "instances run revision 2" in await paster.stack.expect(*command.split())
    shown = await paster.stack.expect("rollout", "evidence", "sites", "2")
    assert re.search(r"rest +release-manager +Passed +\S+ +\S+ +looks good", shown)
