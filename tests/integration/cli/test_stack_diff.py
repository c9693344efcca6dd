"""`kubectl stack diff` on a real API server: what it says, what then happens, and that it writes nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from hearth.kube.auth import credentials
from hearth.preview.changes import Action
from support.change_signal import Pulse
from support.fake_world.preview_of import Seen, find_deeds
from support.real import fault_proxy
from support.real.fault_proxy import FaultProxy
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories.world import Address

API_VERSION = "hearth.dev/v1alpha1"
KINDS = ("ConfigMap", "Service", "Secret", "Job")


@dataclass(slots=True, eq=False)
class AuditingProxy(FaultProxy):
    """Notes the method and the target of each request."""

    seen: list[tuple[str, str]] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Note it, and pass it on."""
        self.seen.append((request.method, request.path_qs))
        return await FaultProxy.handle(self, request)

    def list_writes(self) -> list[tuple[str, str]]:
        """The requests that could have written something."""
        return [
            (method, target)
            for method, target in self.seen
            if method != "GET" and "dryRun=All" not in target and not target.partition("?")[0].endswith("reviews")
        ]


@pytest.fixture
async def auditor(kubeconfig: Path) -> AsyncIterator[AuditingProxy]:
    """A proxy to the control plane."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with fault_proxy.run_proxy_of(AuditingProxy, source.load(), pulse=Pulse()) as proxy:
        yield proxy


@pytest.fixture
def kubectl_stack(auditor: AuditingProxy, namespace: str, tmp_path: Path) -> StackCommand:
    """The command, in the namespace of the test, through the proxy."""
    named = {"name": "audited"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "audited",
        "clusters": [{**named, "cluster": {"server": auditor.url}}],
        "users": [{**named, "user": {}}],
        "contexts": [{**named, "context": {"cluster": "audited", "user": "audited"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return StackCommand(kubeconfig=file, namespace=namespace)


def make_stack(namespace: str, resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"parameters": {"password": {"type": "string", "sensitive": True}}, "resources": resources}
    return {
        "apiVersion": API_VERSION,
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"template": template} | spec,
    }


def config(**data: str) -> dict[str, Any]:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}}


def service(port: int) -> dict[str, Any]:
    return {"manifest": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"name": "web", "port": port}]}}}


def job(command: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": [command]}
    spec = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}
    return {"manifest": manifest, "readyWhen": ["true"]}


SECRET = {
    "manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "${params.password}", "user": "shop"}}
}
FIRST = {
    "settings": config(size="s", color="blue"),
    "web": service(80),
    "migration": job("one"),
    "access": SECRET,
    "old": config(left="over"),
    "late": config(host="${web.spec.clusterIP}", size="${settings.data.size}"),
}
SECOND = {
    "settings": config(size="m", color="blue"),
    "web": service(8080),
    "migration": job("two"),
    "access": SECRET,
    "late": config(host="${web.spec.clusterIP}", size="${settings.data.size}"),
    "more": config(added="${web.metadata.name}"),
}


@pytest.mark.long
async def test_previews_come_true_and_write_nothing(
    workers: Crew,
    user: RealUser,
    kubectl_stack: StackCommand,
    auditor: AuditingProxy,
    kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """A new Stack, no change, an edit that creates, changes, replaces and deletes, a rollback; secrets are not shown."""
    file = tmp_path / "stack.yaml"
    first = make_stack(user.namespace, FIRST, parameters={"password": "first-secret"})
    file.write_text(yaml.safe_dump(first))
    assert "6 created" in await kubectl_stack.expect("diff", "-f", str(file), code=1)
    assert await user.find(Address.of(first)) is None

    async def wait(*goal: str) -> None:
        # The proxy passes no watch on before it ends.
        direct = StackCommand(kubeconfig=kubeconfig, namespace=user.namespace)
        await direct.expect("wait", "shop", *goal, "--timeout", "60s")

    await workers.hire()
    await user.create(first)
    await wait()
    assert "no change" in await kubectl_stack.expect("diff", "-f", str(file), code=0)

    second = make_stack(user.namespace, SECOND, parameters={"password": "second-secret"})
    file.write_text(yaml.safe_dump(second))
    said = await preview_truly(user, kubectl_stack, "-f", str(file))
    before = await see(user)
    await user.replace_spec(Address.of(first), second["spec"])
    await wait()
    assert said == find_deeds(before, await see(user))

    said, before = await preview_truly(user, kubectl_stack, "shop", "--to", "1"), await see(user)
    await user.patch(Address.of(first), {"spec": {"rollback": {"toRevision": 1}}})
    await wait("--for", "phase=RollbackComplete")
    assert said == find_deeds(before, await see(user))
    assert auditor.list_writes() == []


async def preview_truly(user: RealUser, kubectl_stack: StackCommand, *arguments: str) -> dict[str, Action]:
    """Return what a preview says, in all formats, which changes no object."""
    before = await see(user)
    texts = [
        await kubectl_stack.expect("diff", *arguments, "-o", output, code=1) for output in ("text", "markdown", "json")
    ]
    assert await see(user) == before
    assert all("-secret" not in text for text in texts)
    (preview,) = json.loads(texts[-1])
    return {each["resource"]: Action(each["action"]) for each in preview["changes"]}


async def test_a_bad_file_shows_all_mistakes(user: RealUser, kubectl_stack: StackCommand, tmp_path: Path) -> None:
    """Those of the compiler together, and exit code 2; so it is for those that the API server finds, and for no file."""
    file = tmp_path / "stack.yaml"
    file.write_text(yaml.safe_dump(make_stack(user.namespace, {"a": config(v="${b.x}"), "c": config(v="${d.y}")})))
    text = await kubectl_stack.expect("diff", "-f", str(file), code=2)
    assert "${b.x}" in text or "'b'" in text
    assert "'d'" in text
    file.write_text(yaml.safe_dump(make_stack(user.namespace, {"a": config(v="${b.x}")}, unknown="x")))
    text = await kubectl_stack.expect("diff", "-f", str(file), code=2)
    assert 'unknown field "spec.unknown"' in text
    assert "'b'" in text
    await kubectl_stack.expect("diff", "-f", str(tmp_path / "none.yaml"), code=2)
    await kubectl_stack.expect("diff", "none", "--to", "1", code=2)


async def test_a_stack_with_an_account_is_tried_as_that(
    user: RealUser, kubectl_stack: StackCommand, auditor: AuditingProxy, tmp_path: Path
) -> None:
    """What the account may not write fails in the preview as it will in the run; a user may impersonate it here."""
    rbac, named = "rbac.authorization.k8s.io", {"metadata": {"name": "deployer", "namespace": user.namespace}}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}]
    subject = {"kind": "ServiceAccount", "name": "deployer", "namespace": user.namespace}
    role = {"apiGroup": rbac, "kind": "Role", "name": "deployer"}
    place = f"namespaces/{user.namespace}"
    for path, manifest in (
        (f"/api/v1/{place}/serviceaccounts", named),
        (f"/apis/{rbac}/v1/{place}/roles", {**named, "rules": rules}),
        (f"/apis/{rbac}/v1/{place}/rolebindings", {**named, "roleRef": role, "subjects": [subject]}),
    ):
        await user.connection.request("POST", path, body=manifest)
    file = tmp_path / "stack.yaml"
    resources = {"a": config(v="x"), "b": config(v="${a.data.v}"), "refused": service(80)}
    file.write_text(
        yaml.safe_dump(
            make_stack(user.namespace, resources, serviceAccountName="deployer", parameters={"password": "x"})
        )
    )
    (preview,) = json.loads(await kubectl_stack.expect("diff", "-f", str(file), "-o", "json", code=1))
    found = {each["resource"]: each for each in preview["changes"]}
    assert {name: each["action"] for name, each in found.items()} == {"a": "create", "b": "create", "refused": "fail"}
    assert f'is forbidden: User "system:serviceaccount:{user.namespace}:deployer"' in found["refused"]["reason"]
    assert auditor.list_writes() == []


async def see(user: RealUser) -> Seen:
    """The objects of the Stack."""
    stack = await user.find(Address(api_version=API_VERSION, kind="Stack", namespace=user.namespace, name="shop"))
    assert stack is not None
    found = await user.find_children(stack["metadata"]["uid"], KINDS)
    return Seen(objects={raw["metadata"]["uid"]: raw for raw in found})
