"""`kubectl wait` on each status that the operator reports; docs/gitops.md has the result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hearth.model.child import Object
from support.gitops import agreement
from support.real import user_shell
from support.real.real_user import RealUser
from support.stories import stack_manifests


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Object]:
    """A Stack for each row. Created outside of an event loop, because the stories run their own."""
    return agreement.list_rows()


async def test_kubectl_waits_as_the_page_says(kubeconfig: Path, user: RealUser, rows: Mapping[str, Object]) -> None:
    for number, raw in enumerate(rows.values()):
        await store(user, raw, name=f"row-{number}")

    done = user_shell.run_kubectl(
        kubeconfig, "wait", "-n", user.namespace, "stacks", "--all", "--for=condition=Ready", "--timeout=0"
    )

    met = {int(number) for number in re.findall(r"row-(\d+) condition met", done.stdout)}
    found = {row: "met" if number in met else "waits" for number, row in enumerate(rows)}
    assert agreement.read_page("kubectl wait") == found


async def store(user: RealUser, raw: Object, *, name: str) -> None:
    """Create a Stack with the status of another one; its generation is the first."""
    spec = {"template": {"resources": {}}, "suspended": False}
    await user.create(stack_manifests.make_stack(spec, name=name, namespace=user.namespace))
    address = stack_manifests.address_in(user.namespace, name)
    await user.patch_status(address, renumber(raw.get("status", {}), raw["metadata"]["generation"]))


def renumber(value: Any, generation: int) -> Any:
    """Return a status where the given generation is replaced by 1."""
    if isinstance(value, list):
        return [renumber(inner, generation) for inner in value]
    if not isinstance(value, dict):
        return value
    changed = {key: renumber(inner, generation) for key, inner in value.items()}
    if changed.get("observedGeneration") == generation:
        changed["observedGeneration"] = 1
    return changed
