"""Every verb of `kubectl stack` on a real API server, with an operator: its write and its effect.

Then the output for one Stack with all features, with and without an operator; and the same for ResourceGroups.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories import stack_manifests
from support.stories.world import Address

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
HOSTILE = "\x1b[2J[red]"


def make_stack(namespace: str, resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"parameters": {"size": {"type": "string", "default": "s"}}, "resources": resources}
    return stack_manifests.make_stack({"template": template} | spec, namespace=namespace)


WEB = {"web": {"manifest": CONFIG | {"data": {"size": "${params.size}"}}}}


def address(namespace: str) -> Address:
    return stack_manifests.address_in(namespace)


async def test_a_breakpoint_is_named_and_continued(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    await workers.hire()
    points = {"breakpoints": [{"resource": "web", "at": ["PreCreate", "PreUpdate"]}]}
    await user.create(make_stack(user.namespace, WEB, environment=points))

    stopped = await kubectl_stack.expect("wait", "shop", "--timeout", "60s", code=1)
    assert "stopped at a breakpoint" in stopped
    refused = await kubectl_stack.expect("continue", "shop", "db", code=1)
    assert "db does not wait at a breakpoint; waiting: web/PreCreate" in refused
    assert "kubectl stack continue shop web/PreCreate" in refused

    assert "hearth.dev/continue=web/PreCreate@" in await kubectl_stack.expect("continue", "shop", "web", "--wait")
    none = await kubectl_stack.expect("continue", "shop", "web", code=1)
    assert "no resource of stack/shop waits at a breakpoint (phase CreateComplete)" in none

    await user.patch(address(user.namespace), {"spec": {"parameters": {"size": "m"}}})
    await kubectl_stack.expect("wait", "shop", "--for=stopped", "--timeout", "60s")
    assert "UpdateComplete" in await kubectl_stack.expect("continue", "shop", "web/PreUpdate", "--wait")


async def test_rollback_and_back_again(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    """A request for the same revision counts again after a later edit; unknown revisions are rejected."""
    await workers.hire()
    await user.create(make_stack(user.namespace, WEB))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    refused = await kubectl_stack.expect("rollback", "shop", code=1)
    assert "stack/shop has no other completed revision to roll back to; stored revisions: 1" in refused
    for size in ("m", "l"):
        await user.patch(address(user.namespace), {"spec": {"parameters": {"size": size}}})
        await kubectl_stack.expect("wait", "shop", "--timeout", "60s")

    assert "stack/shop has no revision 9; stored revisions: 1, 2, 3" in await kubectl_stack.expect(
        "rollback", "shop", "--to", "9", code=1
    )
    done = await kubectl_stack.expect("rollback", "shop", "--to", "1", "--wait")
    assert "patched: spec.rollback.toRevision=1" in done
    assert "rolled back to revision 1 as requested" in done
    assert "already rolled back to revision 1" in await kubectl_stack.expect("rollback", "shop", "--to", "1")
    # Applying the same file again changes nothing.
    way_forward = f"again: kubectl stack retry shop -n {user.namespace}"
    assert way_forward in await kubectl_stack.expect("wait", "shop", code=1)
    assert way_forward in await kubectl_stack.expect("why", "shop")
    assert "you rolled back from, is retried" in await kubectl_stack.expect("retry", "shop", "--wait")
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    await kubectl_stack.expect("rollback", "shop", "--to", "1", "--wait")
    await user.patch(address(user.namespace), {"spec": {"parameters": {"size": "xl"}}})
    assert "UpdateComplete" in await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    again = await kubectl_stack.expect("rollback", "shop", "--to", "1", "--wait")

    assert "rolled back to revision 1 as requested" in again
    web = await user.find(Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="shop-web"))
    assert web is not None
    assert web["data"] == {"size": "s"}


async def test_waiting_counts_the_template_in_a_config_map(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand
) -> None:
    await workers.hire()
    template = Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="template")
    web = Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="shop-web")

    def write_template(size: int) -> str:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": str(size)}}
        return json.dumps({"resources": {"web": {"manifest": manifest}}})

    metadata = {"name": "template", "namespace": user.namespace}
    await user.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"template.yaml": write_template(0)}}
    )
    await user.create(make_stack(user.namespace, {}) | {"spec": {"templateRef": {"name": "template"}}})
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")

    for size in range(1, 6):
        await user.patch(template, {"data": {"template.yaml": write_template(size)}})
        await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
        found = await user.find(web)
        assert found is not None
        assert found["data"] == {"size": str(size)}
    await user.patch(template, {"metadata": {"labels": {"team": "a"}}})
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")


async def test_pause_mark_check_and_cleanup(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    await workers.hire()
    await user.create(make_stack(user.namespace, WEB))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")

    assert "patched: spec.paused=true" in await kubectl_stack.expect("pause", "shop", "--wait")
    assert "already paused" in await kubectl_stack.expect("pause", "stack/shop")
    await user.patch(address(user.namespace), {"spec": {"parameters": {"size": "m"}}})
    held = await kubectl_stack.expect("wait", "shop", "--timeout", "60s", code=1)
    assert "the Stack is paused: spec.paused prevents: apply web" in held
    assert "UpdateComplete" in await kubectl_stack.expect("unpause", "shop", "--wait")

    marked = await kubectl_stack.expect("mark", "shop", "web", "--reason", "answers 500", "--wait", "--timeout", "60s")
    assert "created: web is unhealthy: answers 500" in marked
    assert "has no resource 'wep'; resources: web" in await kubectl_stack.expect(
        "mark", "shop", "wep", "--reason", "x", code=1
    )
    await kubectl_stack.expect("unmark", "shop", "web", "--wait", "--timeout", "60s")
    assert "checked 1 objects: no problem" in await kubectl_stack.expect("check", "shop", "--wait")
    assert "nothing waits for deletion" in await kubectl_stack.expect("cleanup", "shop", code=1)
    assert "nothing has failed" in await kubectl_stack.expect("retry", "shop", code=1)
    assert "SuspendComplete" in await kubectl_stack.expect("suspend", "shop", "--wait")
    assert "ResumeComplete" in await kubectl_stack.expect("resume", "shop", "--wait")


async def test_a_failure_ends_the_wait_with_its_reason(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand
) -> None:
    await workers.hire()
    invalid = {"web": {"manifest": CONFIG | {"data": {"size": "${params.nothing}"}}}}
    await user.create(make_stack(user.namespace, invalid))

    assert "CreateFailed: " in await kubectl_stack.expect("wait", "shop", "--timeout", "60s", code=1)

    await user.patch(address(user.namespace), {"spec": {"template": {"resources": WEB}}})
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    await user.delete(address(user.namespace))
    await kubectl_stack.expect("wait", "shop", "--for=deleted", "--timeout", "60s")
    assert 'Error from server (NotFound): stacks.hearth.dev "shop" not found' in await kubectl_stack.expect(
        "retry", "shop", code=1
    )


async def test_a_snapshot_is_taken_and_restored_twice(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand
) -> None:
    await workers.hire()
    await user.create(make_stack(user.namespace, WEB))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    taken = await kubectl_stack.expect("snapshot", "shop", "--name", "before", "--retain", "--wait", "--timeout", "60s")
    assert "stacksnapshot.hearth.dev/before created: spec.stackName=shop spec.deletionPolicy=Retain" in taken
    assert "stacksnapshot/before: Complete: contains revision 1 of Stack shop" in taken
    assert "stacksnapshot.hearth.dev/shop-" in await kubectl_stack.expect("snapshot", "shop")
    assert '"nothing" not found' in await kubectl_stack.expect("restore", "shop", "nothing", code=1)

    for size in ("m", "l"):
        await user.patch(address(user.namespace), {"spec": {"parameters": {"size": size}}})
        assert "UpdateComplete" in await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
        done = await kubectl_stack.expect("restore", "shop", "before", "--wait", "--timeout", "60s")
        assert "patched: spec.rollback.toSnapshot=before" in done
        assert "RollbackComplete" in done
    before = await user.find(address(user.namespace))
    assert before is not None
    config = Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="shop-web")
    web = await user.find(config)
    assert web is not None
    assert web["data"] == {"size": "s"}
    again = await kubectl_stack.expect("restore", "shop", "before", "--wait", "--timeout", "60s")

    after = await user.find(address(user.namespace))
    assert after is not None
    assert "RollbackComplete" in again
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 2
    assert after["status"]["revision"] == before["status"]["revision"]
    assert await user.find(config) == web, "the definition in the spec was not applied between"
    await kubectl_stack.expect("rollback", "shop", "--to", "2", "--wait", "--timeout", "60s")


def make_stack_with_everything(namespace: str) -> dict[str, Any]:
    inner = {
        "resources": {
            "disk": {"manifest": CONFIG},
            "cap": {"manifest": CONFIG | {"data": {"of": "${disk.metadata.name}"}}},
        }
    }
    resources = {
        "settings": {"manifest": CONFIG | {"data": {"size": "${params.size}", "text": HOSTILE}}},
        "web": {"dependsOn": ["cache"], "manifest": CONFIG | {"data": {"settings": "${settings.metadata.name}"}}},
        "cache": {
            "manifest": {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "spec": {"template": inner}},
        },
        "probe": {"when": "params.size == 'xl'", "manifest": CONFIG},
    }
    parameters = {
        "size": {"type": "string", "default": "s"},
        "password": {"type": "string", "sensitive": True},
    }
    return stack_manifests.make_stack(
        {
            "template": {"parameters": parameters, "resources": resources, "outputs": {"out": {"value": HOSTILE}}},
            "parameters": {"password": "geheim-1"},
        },
        namespace=namespace,
    )


async def test_one_stack_is_seen_from_all_sides(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    operator = await workers.hire()
    address = stack_manifests.address_in(user.namespace)
    await user.create(make_stack_with_everything(user.namespace))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    await user.patch(address, {"spec": {"parameters": {"size": "m", "password": "geheim-2"}}})
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    await operator.kill()

    asked = ("list", "tree shop", "history shop", "history shop 1 2", "history shop 2", "events shop -o wide")
    shown = [await kubectl_stack.expect(*each.split()) for each in (*asked, "list shop -o json")]
    listed, tree, history, difference, definition, events, output = shown

    assert "shop         UpdateComplete   True    3/3" in listed
    assert "shop-cache   CreateComplete   True    2/2" in listed
    lines = tree.splitlines()
    assert lines[0] == f"stack/shop in {user.namespace}  UpdateComplete  3/3  revision 2"
    starts = ["├─ ✔ cache ", "│  ├─ ✔ disk ", "│  └─ ✔ cap ", "├─   probe "]
    assert [line.startswith(start) for line, start in zip(lines[1:5], starts, strict=True)] == [True] * 4
    assert "configmap/shop-cache-disk " in lines[2]
    assert any(line.startswith("├─   probe") and "its when is false" in line for line in lines)
    assert "out: \\x1b[2J[red]" in lines
    assert [line.split()[0] for line in history.splitlines()] == ["REVISION", "1", "2"]
    assert "-  password: (sensitive, from spec.parameters, hash " in difference
    assert "+  size: m" in difference
    assert yaml.safe_load(definition)["parameters"]["size"] == "m"
    assert "revision 2 stored by kubectl-edit" in events
    assert "stack.hearth.dev/shop-cache" in events
    assert json.loads(output)["spec"]["parameters"] == {"password": "(sensitive)", "size": "m"}
    assert not any("geheim" in each or "\x1b" in each for each in shown)


async def test_names_are_completed_and_missing_ones_are_reported(user: RealUser, kubectl_stack: StackCommand) -> None:
    await user.create(make_stack_with_everything(user.namespace))

    assert await kubectl_stack.expect("list", "-o", "name") == "stack.hearth.dev/shop\n"
    assert json.loads(await kubectl_stack.expect("ls", "-o", "json"))["kind"] == "List"
    assert yaml.safe_load(await kubectl_stack.expect("get", "-o", "yaml"))["items"][0]["metadata"]["name"] == "shop"
    assert "New" in await kubectl_stack.expect("tree", "shop")
    for command in ("tree", "history", "events", "list"):
        message = await kubectl_stack.expect(command, "shoq", code=1)
        assert 'Error from server (NotFound): stacks.hearth.dev "shoq" not found' in message


def make_group(namespace: str) -> dict[str, Any]:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"i": "${index}"}}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "ResourceGroup",
        "metadata": {"name": "queue", "namespace": namespace},
        "spec": {"replicas": 2, "template": {"manifest": manifest}},
    }


async def test_a_group_is_scaled_and_followed(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    await workers.hire()
    await user.create(make_group(user.namespace))

    done = await kubectl_stack.expect("scale", "rg/queue", "--replicas", "3", "--wait", "--timeout", "60s")
    assert "resourcegroup.hearth.dev/queue scaled: spec.replicas=3" in done
    assert "resourcegroup/queue: CreateComplete 3/3" in done or "resourcegroup/queue: UpdateComplete 3/3" in done
    last = Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="queue-2")
    assert await user.find(last) is not None
    assert "already has spec.replicas=3" in await kubectl_stack.expect("scale", "queue", "--replicas", "3")
    await kubectl_stack.expect("scale", "queue", "--replicas", "1", "--wait", "--timeout", "60s")

    assert await user.find(last) is None
    assert 'resourcegroups.hearth.dev "web" not found' in await kubectl_stack.expect(
        "scale", "web", "--replicas", "1", code=1
    )
    await kubectl_stack.expect("scale", "queue", "--replicas", "10001", code=2)


async def test_a_group_is_seen(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    await workers.hire()
    await user.create(make_group(user.namespace))
    await kubectl_stack.expect("scale", "queue", "--replicas", "2", "--wait", "--timeout", "60s")

    for asked in (("list",), ("list", "rg/queue")):
        line = (await kubectl_stack.expect(*asked)).splitlines()[1]
        assert line.split()[:4] == ["rg/queue", "CreateComplete", "True", "2/2"]
    assert await kubectl_stack.expect("list", "-o", "name") == "resourcegroup.hearth.dev/queue\n"
    assert json.loads(await kubectl_stack.expect("list", "rg/queue", "-o", "json"))["kind"] == "ResourceGroup"
    assert 'stacks.hearth.dev "queue" not found' in await kubectl_stack.expect("list", "queue", code=1)
    tree = (await kubectl_stack.expect("tree", "resourcegroup/queue")).splitlines()
    assert tree[0].startswith(f"rg/queue in {user.namespace}  CreateComplete  2/2")
    assert [line.split()[:5] for line in tree[1:3]] == [
        ["├─", "✔", "0", "configmap/queue-0", "ready"],
        ["└─", "✔", "1", "configmap/queue-1", "ready"],
    ]
    assert 'resourcegroups.hearth.dev "shop" not found' in await kubectl_stack.expect("tree", "rg/shop", code=1)


async def test_a_group_in_a_stack_is_seen_with_its_members(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand
) -> None:
    await workers.hire()
    group = make_group(user.namespace)
    manifest = {"apiVersion": group["apiVersion"], "kind": group["kind"], "spec": group["spec"]}
    await user.create(
        stack_manifests.make_stack(
            {"template": {"resources": {"queue": {"manifest": manifest}}}}, namespace=user.namespace
        )
    )
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")

    tree = (await kubectl_stack.expect("tree", "shop")).splitlines()

    assert tree[1].split()[:5] == ["└─", "✔", "queue", "resourcegroup.hearth.dev/shop-queue", "ready"]
    assert [line.split()[:3] for line in tree[2:4]] == [["├─", "✔", "0"], ["└─", "✔", "1"]]


async def test_a_group_is_steered_and_explained(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    await workers.hire()
    await user.create(make_group(user.namespace))
    assert "resourcegroup/queue: CreateComplete 2/2" in await kubectl_stack.expect(
        "wait", "rg/queue", "--timeout", "60s"
    )

    paused = await kubectl_stack.expect("pause", "rg/queue", "--wait", "--timeout", "60s")
    why = await kubectl_stack.expect("why", "rg/queue", code=1)
    await kubectl_stack.expect("unpause", "rg/queue", "--wait", "--timeout", "60s")
    await kubectl_stack.expect("suspend", "rg/queue", "--wait", "--timeout", "60s")
    await kubectl_stack.expect("resume", "rg/queue", "--wait", "--timeout", "60s")
    checked = await kubectl_stack.expect("check", "rg/queue", "--wait", "--timeout", "60s")

    assert "resourcegroup.hearth.dev/queue patched: spec.paused=true" in paused
    assert why.splitlines()[0].startswith("rg/queue  ")
    assert f"kubectl stack unpause rg/queue -n {user.namespace}" in why
    assert "checked 2 objects: no problem" in checked
    assert "rg/queue/1: nothing is wrong" in await kubectl_stack.expect("why", "rg/queue/1")
    assert "rg/queue has no resource '7'; resources: 0, 1" in await kubectl_stack.expect("why", "rg/queue/7", code=1)
    assert "nothing has failed: rg/queue" in await kubectl_stack.expect("retry", "rg/queue", code=1)
    assert "cannot be rolled back" in await kubectl_stack.expect("rollback", "rg/queue", code=1)
    assert "a ResourceGroup has no history" in await kubectl_stack.expect("history", "rg/queue", code=1)
    for verb in (("snapshot", "rg/queue"), ("restore", "rg/queue", "before")):
        assert "a ResourceGroup has no snapshots" in await kubectl_stack.expect(*verb, code=1)
    assert 'resourcegroups.hearth.dev "none" not found' in await kubectl_stack.expect("wait", "rg/none", code=1)
    assert "resourcegroup.hearth.dev/queue" in await kubectl_stack.expect("events", "rg/queue", "-o", "wide")
    assert "configmap/queue-0" in await kubectl_stack.expect("graph", "rg/queue", "-o", "mermaid")


async def test_a_member_of_a_group_is_replaced_on_demand(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand
) -> None:
    await workers.hire()
    await user.create(make_group(user.namespace))
    await kubectl_stack.expect("wait", "rg/queue", "--timeout", "60s")

    refused = await kubectl_stack.expect("mark", "rg/queue", "web", "--reason", "broken", code=1)
    await kubectl_stack.expect("mark", "rg/queue", "7", "--reason", "broken", code=1)
    await kubectl_stack.expect("mark", "rg/queue", "1", "--reason", " ", code=2)
    marked = await kubectl_stack.expect("mark", "rg/queue", "1", "--reason", "broken", "--wait", "--timeout", "60s")

    assert "'web' is not a member of rg/queue" in refused
    assert "1 is unhealthy: broken" in marked
    # The first object had no number in its name.
    assert "configmap/queue-0" in (tree := await kubectl_stack.expect("tree", "rg/queue"))
    assert "configmap/queue-1 " not in tree
