"""The guides as a user follows them: their commands on a real API server, with the outputs that the pages show.

All pages share one operator, with its admission webhook, and one namespace, which each page restores to its initial
state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from support import console_blocks, free_port, repository
from support.console_blocks import Command
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser

PAGES = [
    page
    for page in (repository.ROOT / "README.md", *sorted(repository.DOCS.rglob("*.md")))
    if console_blocks.read_commands(page.read_text())
]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = {
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
}
KINDS = "stacks,resourcegroups,healthmarks,stacksnapshots,stacktemplates,stackdefinitions"
CLEAN = Command(text=f"kubectl delete {KINDS},events --all --timeout=60s", code=0, output=())
MISTAKEN = """
apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: mistaken}
spec: {template: {resources: {a: {dependsOn: [b], manifest: {apiVersion: v1, kind: ConfigMap}}}}}
"""
REVIEWED = Command(
    text=f"until grep -q denied <(kubectl apply --dry-run=server -f - 2>&1 <<<'{MISTAKEN}'); do sleep 0.1; done",
    code=0,
    output=(),
)


@pytest.fixture
async def options(user: RealUser) -> AsyncIterator[tuple[str, ...]]:
    """Install the shipped webhook for only this namespace, with a URL on this machine; return the flags that serve it."""
    port = free_port.find_free_port()
    manifests = yaml.safe_load_all((repository.MANIFESTS / "install" / "webhook.yaml").read_text())
    for manifest in manifests:
        if manifest["kind"] in CONFIGURATIONS:
            manifest["metadata"]["name"] = user.namespace
            for webhook in manifest["webhooks"]:
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}/"}
                webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": user.namespace}}
            await user.connection.request("POST", find_path(manifest["kind"]), body=manifest)
    yield (f"--webhook-address=127.0.0.1:{port}", f"--webhook-configuration={user.namespace}")
    for kind in CONFIGURATIONS:
        await user.connection.request("DELETE", f"{find_path(kind)}/{user.namespace}")


def find_path(kind: str) -> str:
    """The path of these configurations on the API server."""
    return f"{ADMISSION}/{CONFIGURATIONS[kind]}"


@pytest.mark.long
async def test_every_command_does_what_its_page_says(
    definers: Crew, options: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    assert len(PAGES) > 10
    await definers.hire(*options, "--definition-groups=platform.example")
    assert await asyncio.to_thread(console_blocks.run, REVIEWED, folder=tmp_path, environment=environment) == ""

    problems = [
        await asyncio.to_thread(follow, page, namespace=definers.namespace, folder=tmp_path, environment=environment)
        for page in PAGES
    ]

    found = "\n\n".join(filter(None, problems))
    assert not found, found


def follow(page: Path, *, namespace: str, folder: Path, environment: dict[str, str]) -> str:
    """Run the commands of a page up to the first with a different result. Returns the difference; "" for none."""
    own = folder / page.relative_to(repository.ROOT).with_suffix("")
    own.mkdir(parents=True)
    text = page.read_text()
    for name, content in console_blocks.read_files(text).items():
        (own / name).write_text(console_blocks.NAMESPACE.sub(namespace, content))
    prepare(own)
    for command in (*console_blocks.read_commands(text), CLEAN):
        moved = console_blocks.move(command, namespace=namespace)
        problem = console_blocks.run(moved, folder=own, environment=environment)
        if problem:
            console_blocks.run(CLEAN, folder=own, environment=environment)
            return f"{page.relative_to(repository.ROOT)}: {problem}"
    return ""


def prepare(folder: Path) -> None:
    """Link the files of a clone of the repository."""
    for name in ("manifests", "crds", "docs", "tests"):
        (folder / name).symlink_to(repository.ROOT / name)
