"""`kubectl stack diff` on a real API server: its output equals the later changes, and it changes nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from hearth.kube.auth.credentials import CredentialSource
from hearth.preview.changes import Action
from support.change_signal import Pulse
from support.fake_world.preview_of import Seen, find_deeds
from support.real import fault_proxy, real_user
from support.real.fault_proxy import FaultProxy
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories import stack_manifests
from support.stories.world import Address

KINDS = ("ConfigMap", "Service", "Secret", "Job")


@dataclass(slots=True, eq=False)
class AuditingProxy(FaultProxy):
    """Records the method and the target of each request."""

    seen: list[tuple[str, str]] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Record the request, and pass it on."""
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
async def auditor(source: CredentialSource) -> AsyncIterator[AuditingProxy]:
    """A proxy to the control plane."""
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
    return stack_manifests.make_stack({"template": template} | spec, namespace=namespace)


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
    file = tmp_path / "stack.yaml"
    first = make_stack(user.namespace, FIRST, parameters={"password": "first-secret"})
    file.write_text(yaml.safe_dump(first))
    assert "6 created" in await kubectl_stack.expect("diff", "-f", str(file), code=1)
    assert await user.find(Address.of(first)) is None

    async def wait(*goal: str) -> None:
        # The proxy buffers a watch until it ends.
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
    """Return a preview in all formats, and check that it changes no object."""
    before = await see(user)
    texts = [
        await kubectl_stack.expect("diff", *arguments, "-o", output, code=1) for output in ("text", "markdown", "json")
    ]
    assert await see(user) == before
    assert all("-secret" not in text for text in texts)
    (preview,) = json.loads(texts[-1])
    return {each["resource"]: Action(each["action"]) for each in preview["changes"]}


async def test_a_bad_file_shows_all_mistakes(user: RealUser, kubectl_stack: StackCommand, tmp_path: Path) -> None:
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
    stack = await user.find(stack_manifests.address_in(user.namespace))
    assert stack is not None
    found = await user.find_children(stack["metadata"]["uid"], KINDS)
    return Seen(objects={raw["metadata"]["uid"]: raw for raw in found})


def define(group: str) -> dict[str, Any]:
    """A resource that defines the kind Gizmo in that group."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    return {"manifest": real_user.make_crd(group, "Gizmo", {"v1": schema})}


async def test_a_kind_that_the_definition_brings_along_counts(
    user: RealUser, kubectl_stack: StackCommand, auditor: AuditingProxy, tmp_path: Path
) -> None:
    group, file = f"{user.namespace}.example.org", tmp_path / "stack.yaml"
    gizmo = {"manifest": {"apiVersion": f"{group}/v1", "kind": "Gizmo", "spec": {"size": 1}}}
    resources = {
        "kind": define(group),
        "early": gizmo,
        "late": {**gizmo, "dependsOn": ["kind"]},
        "user": config(v="${late.metadata.name}"),
    }
    arguments = ("diff", "-f", str(file), "--tenancy", "trusted")
    file.write_text(yaml.safe_dump(make_stack(user.namespace, resources, parameters={"password": "x"})))

    (preview,) = json.loads(await kubectl_stack.expect(*arguments, "-o", "json", code=1))

    assert {each["resource"]: each["action"] for each in preview["changes"]} == dict.fromkeys(resources, "create")
    unchecked = {each["resource"]: each.get("unchecked", "") for each in preview["changes"]}
    assert unchecked["early"] == unchecked["late"] == "its kind does not exist yet"
    gizmo["manifest"]["spec"] = {"sise": 1}
    file.write_text(yaml.safe_dump(make_stack(user.namespace, resources, parameters={"password": "x"})))
    text = await kubectl_stack.expect(*arguments, code=2)
    assert "late.manifest.spec.sise: there is no field 'sise' in Gizmo.spec; did you mean 'size'?" in text
    assert auditor.list_writes() == []


async def test_one_cause_is_told_once(user: RealUser, kubectl_stack: StackCommand, tmp_path: Path) -> None:
    file, there = tmp_path / "stack.yaml", {"namespace": "nowhere"}
    resources: dict[str, Any] = {name: config(v=name) for name in "abc"}
    for name in "ab":
        resources[name]["manifest"]["metadata"] = there
    file.write_text(yaml.safe_dump(make_stack(user.namespace, resources, parameters={"password": "x"})))
    arguments = ("diff", "-f", str(file), "--tenancy", "trusted")

    text, written, output = [
        await kubectl_stack.expect(*arguments, "-o", form, code=1) for form in ("text", "markdown", "json")
    ]

    for shown in (text, written):
        assert shown.count('namespaces "nowhere" not found') == 1
        assert 'a, b: namespaces "nowhere" not found' in shown
        assert "1 created, 2 failed" in shown
    assert [each["action"] for each in json.loads(output)[0]["changes"]] == ["create", "fail", "fail"]


async def test_what_the_api_server_counts_is_no_change(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand, tmp_path: Path
) -> None:
    await workers.hire()
    file = tmp_path / "stack.yaml"

    def write(image: str) -> None:
        pods = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": image}]}}
        spec = {"selector": {"matchLabels": {"app": "a"}}, "template": pods}
        manifest = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": spec}
        resources = {"agent": {"manifest": manifest, "readyWhen": ["true"]}}
        file.write_text(yaml.safe_dump(make_stack(user.namespace, resources, parameters={"password": "x"})))

    write("a:1")
    await user.create(yaml.safe_load(file.read_text()))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    write("a:2")

    (preview,) = json.loads(await kubectl_stack.expect("diff", "-f", str(file), "-o", "json", code=1))

    (change,) = preview["changes"]
    assert [each["path"] for each in change["fields"]] == ["spec.template.spec.containers[name=a].image"]


def nest(size: str, *, with_settings: bool = True, **spec: Any) -> dict[str, Any]:
    """A nested Stack whose inner Stack has a ConfigMap of that size."""
    inner = {"resources": {"settings": config(size="${params.size}")}, "parameters": {"size": {"type": "string"}}}
    leaf = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "spec": {"template": inner, "parameters": {"size": size}},
    }
    resources = {"leaf": {"manifest": leaf}, **({"extra": config(kept="yes")} if with_settings else {})}
    middle = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "spec": {"template": {"resources": resources}, **spec},
    }
    return {"manifest": middle}


def group(members: int, color: str) -> dict[str, Any]:
    spec = {"replicas": members, "template": config(color=color)}
    return {"manifest": {"apiVersion": "hearth.dev/v1alpha1", "kind": "ResourceGroup", "spec": spec}}


def list_nested(preview: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """The nested Stacks in a preview at any depth, by the parent of their first resource: kind and actions."""
    found = {}
    for each in preview.get("nested", ()):
        found[each["name"]] = sorted((change["action"], change["resource"]) for change in each["changes"])
        found |= list_nested(each)
    return found


async def test_a_change_is_shown_in_nested_stacks_and_groups(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand, kubeconfig: Path, tmp_path: Path
) -> None:
    await workers.hire()
    file = tmp_path / "stack.yaml"
    first = {"app": nest("s"), "workers": group(2, "red"), "old": nest("s")}
    second = {"app": nest("m", with_settings=False), "workers": group(3, "blue"), "new": nest("l")}

    def write(resources: dict[str, Any]) -> dict[str, Any]:
        made = make_stack(user.namespace, resources, parameters={"password": "x"})
        file.write_text(yaml.safe_dump(made))
        return made

    await user.create(write(first))
    await StackCommand(kubeconfig=kubeconfig, namespace=user.namespace).expect("wait", "shop", "--timeout", "90s")
    assert "no change" in await kubectl_stack.expect("diff", "-f", str(file), code=0)

    write(second)
    text = await kubectl_stack.expect("diff", "-f", str(file), code=1)
    (preview,) = json.loads(await kubectl_stack.expect("diff", "-f", str(file), "-o", "json", code=1))

    nested = list_nested(preview)
    assert sorted(nested.values()) == sorted(
        [
            [("update", "leaf"), ("wait", "extra")],
            [("update", "settings")],
            [("create", "2"), ("update", "0"), ("update", "1")],
            [("create", "extra"), ("create", "leaf")],
            [("create", "settings")],
            [("delete", "extra"), ("delete", "leaf")],
        ]
    )
    assert "+ data.size: m" in text

    write({"app": nest("s"), "workers": group(2, "red")})
    (removal,) = json.loads(await kubectl_stack.expect("diff", "-f", str(file), "-o", "json", code=1))
    assert list(list_nested(removal).values()) == [[("delete", "extra"), ("delete", "leaf")]]


@pytest.mark.long
async def test_a_rehearsal_comes_true_and_writes_nothing(
    workers: Crew,
    user: RealUser,
    kubectl_stack: StackCommand,
    auditor: AuditingProxy,
    kubeconfig: Path,
    tmp_path: Path,
) -> None:
    direct, file = StackCommand(kubeconfig=kubeconfig, namespace=user.namespace), tmp_path / "stack.yaml"
    first = make_stack(user.namespace, FIRST, parameters={"password": "first-secret"})
    second = make_stack(user.namespace, SECOND, parameters={"password": "second-secret"})
    await workers.hire()
    await user.create(first)
    await direct.expect("wait", "shop", "--timeout", "60s")
    start = await see(user)

    file.write_text(yaml.safe_dump(second))
    text = await kubectl_stack.expect("rehearse", "-f", str(file), code=1)
    done = await kubectl_stack.run("rehearse", "-f", str(file), "-o", "json")
    assert await see(user) == start
    assert auditor.list_writes() == []
    assert "-secret" not in text + done.stdout
    (said,) = json.loads(done.stdout)
    runs = said["interruptions"]
    assert [each["steps"] for each in runs] == list(range(said["steps"] + 1))

    await user.replace_spec(Address.of(first), second["spec"])
    await direct.expect("wait", "shop", "--timeout", "60s")
    await user.patch(Address.of(first), {"spec": {"rollback": {"toRevision": 1}}})
    await direct.expect("wait", "shop", "--for", "phase=RollbackComplete", "--timeout", "60s")
    differences = {each["resource"]: Action(each["action"]) for each in runs[-1].get("differences", [])}
    assert differences == find_deeds(start, await see(user))
    # A rollback uses the present value of a sensitive parameter, which no revision contains.
    assert differences == {"access": Action.UPDATE, "migration": Action.REPLACE, "old": Action.REPLACE}
    assert "failures" not in runs[-1]
