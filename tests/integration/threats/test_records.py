"""A2, A3, A4, D1c(2), D8: the operator trusts its stored records only if it wrote them itself."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from support.threats.api import Api, Object
from support.threats.world import Tenant, ThreatWorld, make_config_map, make_stack

SUSPENDED = "hearth.dev/suspended"
REVISION = "hearth.dev/revision"
RESOLVED = "hearth.dev/resolved"
POD_SPEC = "spec.template.spec"
SETTLED = 20.0
"""Seconds within which a successful attack shows its effect: it took 4."""
ZEROS = 400 * 1024 * 1024
"""Bytes; the container's limit is a GiB."""
ALLOWED = 64.0
"""MiB that one Stack may cost."""


def make_deployment(replicas: int = 1) -> Object:
    """A resource that is a Deployment."""
    labels = {"app": "web"}
    pod = {"containers": [{"name": "main", "image": "example.com/app:1"}]}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {"manifest": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}}


def find_spec(threats: ThreatWorld, namespace: str) -> Object:
    """The spec of the Deployment."""
    return (threats.api.get("Deployment", namespace, "shop-web") or {}).get("spec") or {}


def find_told(threats: ThreatWorld, namespace: str, word: str) -> bool:
    """Whether the status of the Stack contains that word."""
    return word in json.dumps(threats.find_status(namespace, "shop"))


def wait_deployment(threats: ThreatWorld, tenant: Tenant) -> Api:
    """Create a Stack with a Deployment; return its author."""
    author = tenant.author()
    author.create(make_stack(tenant.namespace, "shop", {"web": make_deployment()}))
    threats.wait_for(lambda: find_spec(threats, tenant.namespace), what="the Deployment")
    return author


def edit(author: Api, namespace: str, spec: Mapping[str, Any]) -> None:
    """Change the spec of the Stack."""
    author.patch("Stack", namespace, "shop", {"spec": spec}).expect()


ATTACK = {"spec.paused": True, f"{POD_SPEC}.hostPID": True, f"{POD_SPEC}.hostIPC": True, "spec.minReadySeconds": 77}


@pytest.mark.parametrize("subresource", ["", "status"], ids=["annotator", "status patcher"])
def test_a2_an_annotation_has_nothing_written(threats: ThreatWorld, subresource: str) -> None:
    tenant = threats.tenant()
    author = wait_deployment(threats, tenant)
    is_status = subresource == "status"
    attacker = tenant.status_patcher("deployments") if is_status else tenant.annotator("deployments", group="apps")
    if is_status:
        forbidden = attacker.patch("Deployment", tenant.namespace, "shop-web", {"spec": {"paused": True}})
        assert forbidden.code == 403
    before = find_spec(threats, tenant.namespace)
    patch = {"metadata": {"annotations": {SUSPENDED: json.dumps({"theirs": ATTACK})}}}
    attacker.patch("Deployment", tenant.namespace, "shop-web", patch, subresource=subresource).expect()
    threats.wait_for(
        lambda: (
            find_spec(threats, tenant.namespace) != before
            or find_told(threats, tenant.namespace, "SuspendRecordInvalid")
        ),
        within=SETTLED,
        what="either the attack or a word about it",
    )
    assert find_spec(threats, tenant.namespace) == before

    edit(author, tenant.namespace, {"template": {"resources": {"web": make_deployment(replicas=2)}}})
    threats.wait_for(lambda: find_spec(threats, tenant.namespace).get("replicas") == 2, what="the next definition")
    assert find_spec(threats, tenant.namespace) == {**before, "replicas": 2}


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(
            {SUSPENDED: json.dumps({"theirs": {"spec.minReadySeconds": 1, "spec.minReadySeconds.y": 2}})}, id="overlap"
        ),
        pytest.param({"hearth.dev/incarnation": "9" * 4300}, id="incarnation"),
    ],
)
def test_d8_an_annotation_does_not_stop_a_stack(threats: ThreatWorld, annotations: dict[str, str]) -> None:
    tenant = threats.tenant()
    author = wait_deployment(threats, tenant)
    tenant.annotator("deployments", group="apps").annotate(
        "Deployment", tenant.namespace, "shop-web", annotations
    ).expect()
    threats.canary()
    resources = {"web": make_deployment(replicas=2), "cfg": make_config_map("cfg")}
    edit(author, tenant.namespace, {"template": {"resources": resources}})
    threats.wait_for(
        lambda: (
            find_spec(threats, tenant.namespace).get("replicas") == 2
            and threats.api.get("ConfigMap", tenant.namespace, "cfg")
        ),
        within=SETTLED,
        what="the next definition",
    )
    assert threats.operator.read_events("internal error") == []


def begin_two_revisions(threats: ThreatWorld, tenant: Tenant) -> Api:
    """Create a Stack of one ConfigMap and bring it to revision 2; return its author."""
    author = tenant.author()
    author.create(make_stack(tenant.namespace, "shop", {"cfg": make_config_map("cfg", {"v": "1"})}))
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    edit(author, tenant.namespace, {"template": {"resources": {"cfg": make_config_map("cfg", {"v": "2"})}}})
    threats.wait_phase(tenant.namespace, "shop", "UpdateComplete")
    return author


def replace_revision(editor: Api, namespace: str, data: Object, **annotations: str) -> None:
    """Delete revision 1, and create a forged one with the same name and metadata."""
    stored = next(
        each
        for each in editor.list("ControllerRevision", namespace)
        if each["metadata"]["annotations"].get(REVISION) == "1"
    )
    metadata = {
        key: stored["metadata"][key] for key in ("name", "namespace", "labels", "annotations", "ownerReferences")
    }
    metadata["annotations"] = {**metadata["annotations"], **annotations}
    editor.delete("ControllerRevision", namespace, metadata["name"]).expect()
    editor.create({**stored, "metadata": metadata, "data": data})


def roll_back(threats: ThreatWorld, author: Api, namespace: str, number: int) -> Object:
    """Request a rollback, and wait until it has ended; return the status."""
    edit(author, namespace, {"rollback": {"toRevision": number}})
    stack = threats.wait_phase(namespace, "shop", "RollbackComplete", "UpdateFailed", "RollbackFailed")
    status: Object = stack["status"]
    return status


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_a3_a_replaced_revision_is_never_applied(threats: ThreatWorld, *, is_restarted: bool) -> None:
    tenant = threats.tenant()
    author = begin_two_revisions(threats, tenant)
    evil = {"cfg": make_config_map("cfg", {"v": "EVIL"}), "more": make_config_map("evil")}
    data = {"template": {"resources": evil}, "parameters": {}}
    replace_revision(tenant.revision_editor(), tenant.namespace, data)
    if is_restarted:
        threats.operator.restart()
    status = roll_back(threats, author, tenant.namespace, 1)
    assert threats.api.get("ConfigMap", tenant.namespace, "evil") is None
    assert (threats.api.get("ConfigMap", tenant.namespace, "cfg") or {})["data"] == {"v": "2"}
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    assert (ready["reason"], status["phase"]) == ("RevisionTampered", "UpdateFailed")
    edit(
        author,
        tenant.namespace,
        {"rollback": None, "template": {"resources": {"cfg": make_config_map("cfg", {"v": "3"})}}},
    )
    threats.wait_phase(tenant.namespace, "shop", "UpdateComplete")
    assert (threats.api.get("ConfigMap", tenant.namespace, "cfg") or {})["data"] == {"v": "3"}


def compress_zeros(size: int) -> str:
    """A gzip stream of many zeros, in Base64; compressed in pieces."""
    stream = zlib.compressobj(level=9, wbits=16 + zlib.MAX_WBITS)
    piece = bytes(1024 * 1024)
    packed = b"".join([*(stream.compress(piece) for _ in range(size // len(piece))), stream.flush()])
    return base64.b64encode(packed).decode()


def test_a4_a_child_is_no_revision(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = begin_two_revisions(threats, tenant)
    data = {"compressed": compress_zeros(ZEROS)}
    before = threats.operator.peak
    manifest = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 77, "data": data}
    metadata = {"name": "bomb", "annotations": {"example.com/a": "b"}}
    resources = {"cfg": make_config_map("cfg", {"v": "2"}), "bomb": {"manifest": {**manifest, "metadata": metadata}}}
    author.patch("Stack", tenant.namespace, "shop", {"spec": {"template": {"resources": resources}}}).expect()
    stack = threats.wait_phase(tenant.namespace, "shop", "UpdateComplete", "UpdateFailed")
    assert (stack["status"]["phase"], find_told(threats, tenant.namespace, "manifest.kind: ")) == ("UpdateFailed", True)
    assert threats.api.get("ControllerRevision", tenant.namespace, "bomb") is None
    grown = threats.operator.peak - before
    print(f"peak {before:.0f} MiB, {grown:.0f} MiB more afterwards")
    assert grown < ALLOWED
    threats.canary()


@pytest.mark.parametrize("number", ["1", "77", "9223372036854775807"], ids=["replaced", "made", "absurd"])
def test_a4_a_revision_of_zeros_costs_no_memory(threats: ThreatWorld, number: str) -> None:
    tenant = threats.tenant()
    author = begin_two_revisions(threats, tenant)
    before = threats.operator.peak
    data = {"compressed": compress_zeros(ZEROS)}
    replace_revision(tenant.revision_editor(), tenant.namespace, data, **{REVISION: number})
    status = roll_back(threats, author, tenant.namespace, min(int(number), 77))
    grown = threats.operator.peak - before
    print(f"peak {before:.0f} MiB, {grown:.0f} MiB more afterwards")
    assert grown < ALLOWED
    assert status["phase"] == "UpdateFailed"
    edit(
        author,
        tenant.namespace,
        {"rollback": None, "template": {"resources": {"cfg": make_config_map("cfg", {"v": "3"})}}},
    )
    stack = threats.wait_phase(tenant.namespace, "shop", "UpdateComplete")
    assert stack["status"]["revision"] <= 78
    threats.canary()


LATE = "9999-12-31T23:59:59-23:59"


def test_d1c_a_time_that_cannot_be_written_stops_no_status(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author, forger = tenant.author(), tenant.status_patcher("stacks", group="hearth.dev")
    shops = [f"shop-{number}" for number in range(10)]
    for name in shops:
        author.create(make_stack(tenant.namespace, name, {"cfg": make_config_map(f"{name}-cfg")}))
    for name in shops:
        threats.wait_phase(tenant.namespace, name, "CreateComplete")
    threats.operator.stop()
    for name in shops:
        patch = {"status": {"target": {"since": LATE}}}
        forger.patch("Stack", tenant.namespace, name, patch, subresource="status").expect()
    threats.operator.start()
    for name in shops:
        author.annotate("Stack", tenant.namespace, name, {"hearth.dev/retry": "1"}).expect()
    threats.canary()
    for name in shops:
        threats.wait_for(
            lambda name=name: threats.find_status(tenant.namespace, name).get("target", {}).get("since") != LATE,  # type: ignore[misc]  # mypy cannot type a default that binds a loop variable
            what="the status is right again",
        )
    assert threats.operator.read_events("internal error") == []


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"revision": 1, "cause": "AutomaticRollback", "message": "forged"}, id="automatic rollback"),
        pytest.param({"revision": 0, "cause": "AutomaticRollback", "message": "forged"}, id="rollback to nothing"),
    ],
)
def test_a_forged_status_decides_nothing(threats: ThreatWorld, forged: Object) -> None:
    tenant = threats.tenant()
    begin_two_revisions(threats, tenant)
    forger = tenant.status_patcher("stacks", group="hearth.dev")
    threats.operator.stop()
    forger.patch("Stack", tenant.namespace, "shop", {"status": {"target": forged}}, subresource="status").expect()
    threats.operator.start()
    threats.wait_for(
        lambda: (
            threats.find_status(tenant.namespace, "shop")["target"].get("message") != "forged"
            or (threats.api.get("ConfigMap", tenant.namespace, "cfg") or {}).get("data") != {"v": "2"}
        ),
        within=SETTLED,
        what="either the attack or a right status",
    )
    threats.canary()
    assert (threats.api.get("ConfigMap", tenant.namespace, "cfg") or {}).get("data") == {"v": "2"}
    assert threats.find_status(tenant.namespace, "shop")["target"]["cause"] == "Spec"


def test_a_restarted_operator_reads_its_own_memory(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    author = begin_two_revisions(threats, tenant)
    author.annotate("Stack", tenant.namespace, "shop", {"hearth.dev/check": "one"}).expect()
    threats.wait_for(lambda: threats.find_status(tenant.namespace, "shop").get("handled"), what="the check")
    before = threats.find_status(tenant.namespace, "shop")
    threats.operator.stop()
    forger = tenant.status_patcher("stacks", group="hearth.dev")
    forger.patch("Stack", tenant.namespace, "shop", {"status": {"summary": "x"}}, subresource="status").expect()
    threats.operator.start()
    threats.wait_for(lambda: threats.find_status(tenant.namespace, "shop")["summary"] == "1/1", what="the summary")
    after = threats.find_status(tenant.namespace, "shop")
    memory = ("target", "controllerState", "signature", "handled", "check", "lastCompletedRevision", "historyUnknown")
    assert [after.get(key) for key in memory] == [before.get(key) for key in memory]


def make_mark(namespace: str, name: str, reason: str, **annotations: str) -> Object:
    """A HealthMark on the ConfigMap."""
    spec = {"stackName": "shop", "resource": "cfg", "markUnhealthy": True, "reason": reason}
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    return {"apiVersion": "hearth.dev/v1alpha1", "kind": "HealthMark", "metadata": metadata, "spec": spec}


def test_the_proof_of_a_resolved_mark_counts_for_no_other_mark(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    namespace = tenant.namespace
    tenant.author().create(make_stack(namespace, "shop", {"cfg": make_config_map("cfg")}))
    threats.wait_phase(namespace, "shop", "CreateComplete")
    marker = tenant.health_marker()

    def find_uid() -> str:
        return str((threats.api.get("ConfigMap", namespace, "cfg") or {}).get("metadata", {}).get("uid", ""))

    def find_proof() -> str:
        mark = threats.api.get("HealthMark", namespace, "first") or {}
        return str(mark.get("metadata", {}).get("annotations", {}).get(RESOLVED, ""))

    marker.create(make_mark(namespace, "first", "ill"))
    proof = threats.wait_for(find_proof, what="the proof that the mark was resolved")
    uid = find_uid()
    marker.create(make_mark(namespace, "second", "ill", **{RESOLVED: proof}))
    threats.wait_for(lambda: find_uid() not in ("", uid), within=SETTLED, what="the replacement for the second mark")
    uid = find_uid()

    # A mark that a backup tool restores stays resolved; with another reason, it is a new mark.
    marker.delete("HealthMark", namespace, "first").expect()
    marker.create(make_mark(namespace, "first", "ill", **{RESOLVED: proof}))
    threats.wait_for(
        lambda: "Restored" in json.dumps(threats.api.get("HealthMark", namespace, "first")), what="the restored mark"
    )
    assert find_uid() == uid
    marker.delete("HealthMark", namespace, "first").expect()
    marker.create(make_mark(namespace, "first", "ill again", **{RESOLVED: proof}))
    threats.wait_for(lambda: find_uid() not in ("", uid), within=SETTLED, what="the replacement for another reason")
