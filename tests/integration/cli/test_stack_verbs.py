"""Every verb of `kubectl stack` on a real API server, with an operator: what it writes, and that it takes effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories.world import Address

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def kubectl_stack(kubeconfig: Path, namespace: str) -> StackCommand:
    """The command, in the namespace of the test."""
    return StackCommand(kubeconfig=kubeconfig, namespace=namespace)


def make_stack(namespace: str, resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"parameters": {"size": {"type": "string", "default": "s"}}, "resources": resources}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"template": template} | spec,
    }


WEB = {"web": {"manifest": CONFIG | {"data": {"size": "${params.size}"}}}}


def address(namespace: str) -> Address:
    return Address(api_version="hearth.dev/v1alpha1", kind="Stack", namespace=namespace, name="shop")


async def test_a_breakpoint_is_named_and_continued(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    """`wait` ends at once with the command that continues, and that command works twice."""
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
    """A request for the same revision counts again after a later edit, and unknown revisions are refused."""
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
    await user.patch(address(user.namespace), {"spec": {"parameters": {"size": "xl"}}})
    assert "UpdateComplete" in await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    again = await kubectl_stack.expect("rollback", "shop", "--to", "1", "--wait")

    assert "rolled back to revision 1 as requested" in again
    web = await user.find(Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="shop-web"))
    assert web is not None
    assert web["data"] == {"size": "s"}


async def test_pause_mark_check_and_cleanup(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    """What holds back is said; a marked object is replaced; a check reports; what does not apply is refused."""
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
    """Exit code 1 and the first problem, at once; a retry after the obstacle is gone succeeds."""
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
    """A request for the same snapshot counts again, after an edit as well as without one; a rollback replaces it."""
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
