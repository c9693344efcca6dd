"""A ClusterRole whose rules a controller collects, on a real API server: an edit of the Stack never empties them."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.real import user_shell
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories.world import Address

LIMIT_SECONDS = 60
POLL_SECONDS = 0.1
RULES = "--output=jsonpath={.rules[*].resources}{'\\n'}"


def make_role(name: str, labels: dict[str, str], **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, **fields}


async def test_an_edit_does_not_empty_the_collected_rules(
    workers: Crew, user: RealUser, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    """Its template states `rules: []`, as manifests that people publish do; who watches the role sees no such state."""
    await workers.hire("--tenancy=trusted")
    environment = user_shell.make_environment(kubeconfig, namespace, tmp_path)
    stack = StackCommand(kubeconfig=kubeconfig, namespace=namespace)
    whole, mark = f"{namespace}-whole", {"collected-by": namespace}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    resources = {
        "part": {"manifest": make_role(f"{namespace}-part", mark, rules=[rule])},
        "whole": {
            "manifest": make_role(
                whole, {"edit": "1"}, aggregationRule={"clusterRoleSelectors": [{"matchLabels": mark}]}, rules=[]
            )
        },
    }
    metadata = {"name": "shop", "namespace": namespace}
    body = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": metadata}
    await user.create({**body, "spec": {"template": {"resources": resources}}})
    await stack.expect("wait", "shop", "--timeout", "60s")
    get = ["kubectl", "get", "clusterrole", whole]
    await wait_for([*get, RULES], environment, text="pods")
    address = Address(api_version="hearth.dev/v1alpha1", kind="Stack", namespace=namespace, name="shop")
    async with watched([*get, "--watch", RULES], environment, tmp_path / "seen"):
        for edit in ("2", "3"):
            label = {"metadata": {"labels": {"edit": edit}}}
            await user.patch(address, {"spec": {"template": {"resources": {"whole": {"manifest": label}}}}})
            await stack.expect("wait", "shop", "--timeout", "60s")
            await wait_for([*get, "--output=jsonpath={.metadata.labels.edit}"], environment, text=edit)

    lines = (tmp_path / "seen").read_text().splitlines()
    assert len(lines) >= 2
    assert {line for line in lines if "pods" not in line} == set()


@contextlib.asynccontextmanager
async def watched(command: list[str], environment: dict[str, str], file: Path) -> AsyncIterator[None]:
    """Let a command that watches write into a file."""
    with file.open("w") as seen:
        watching = await asyncio.create_subprocess_exec(*command, stdout=seen, env=environment)
        try:
            yield
        finally:
            watching.kill()
            await watching.wait()


async def wait_for(command: list[str], environment: dict[str, str], *, text: str) -> None:
    """Until the command prints the text."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while text not in await read(command, environment):  # noqa: ASYNC110 -- another process decides
            await asyncio.sleep(POLL_SECONDS)


async def read(command: list[str], environment: dict[str, str]) -> str:
    """What a command prints."""
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, env=environment
    )
    return str(done.stdout).strip()
