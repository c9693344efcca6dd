"""Imports on a real API server: from a file to a ready Stack, and YAML as kubectl itself reads it."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest

from hearth.cli import main
from hearth.template.text import kubectl_yaml
from support import repository
from support.real import user_shell
from support.real.control_plane_fixtures import VARIABLE
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories import stack_manifests

BUNDLE = repository.DATA / "kube-prometheus.yaml.gz"
SCALARS, ODD_SCALARS = repository.DATA / "scalars.yaml", repository.DATA / "odd_scalars.yaml"
SHOP = repository.DATA / "shop.yaml"

RUNNING = repository.DATA / "running.yaml"
EXPORTED = "deployments,replicasets,pods,services,endpoints,endpointslices,configmaps,serviceaccounts"


def run_kubectl(kubeconfig: Path, *arguments: str) -> str:
    done = user_shell.run_kubectl(kubeconfig, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def import_file(kubeconfig: Path, file: Path, *, seconds: int) -> subprocess.CompletedProcess[str]:
    """Import a file, wait until its objects are ready or the time limit is reached, and delete them."""
    command = [
        sys.executable,
        str(repository.TESTS / "control_plane" / "import_files.py"),
        f"--timeout={seconds}",
        str(file),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {VARIABLE: str(kubeconfig)}
    )


def test_a_shop_runs_and_goes_without_a_trace(kubeconfig: Path) -> None:
    done = import_file(kubeconfig, SHOP, seconds=90)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok  shop.yaml  17 resources  Ready after ")
    assert done.stdout.rstrip().endswith(
        "left: persistentvolumeclaim/data-database-0, persistentvolumeclaim/data-database-1"
    )


@pytest.mark.alone  # Its operator serves all namespaces.
@pytest.mark.soak
def test_the_largest_of_bundles_runs_and_goes_without_a_trace(kubeconfig: Path, tmp_path: Path) -> None:
    texts = re.split(r"(?m)^---\s*$", gzip.decompress(BUNDLE.read_bytes()).decode())
    kept = [text for text in texts if text.strip() and not re.search(r"(?m)^kind: APIService$", text)]
    file = tmp_path / "kube-prometheus.yaml.gz"
    file.write_bytes(gzip.compress("---\n".join(kept).encode()))

    done = import_file(kubeconfig, file, seconds=300)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok  kube-prometheus.yaml.gz  130 resources  5 ConfigMaps beside it  Ready after ")
    assert done.stdout.rstrip().endswith("left: nothing")


def test_what_does_not_become_ready_is_reported(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 123456}]}}")

    done = import_file(kubeconfig, file, seconds=5)

    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("FAILED  broken.yaml  1 resources")
    assert "spec.ports[0].port: Invalid value: 123456" in done.stdout


@pytest.mark.parametrize("file", [SCALARS, ODD_SCALARS], ids=lambda file: file.name)
def test_scalars_are_read_as_kubectl_reads_them(kubeconfig: Path, file: Path) -> None:
    shown = run_kubectl(
        kubeconfig, "create", "--dry-run=client", "--validate=false", "--output=json", f"--filename={file}"
    )
    made = click.testing.CliRunner().invoke(main.main, ["import", str(file)])

    # kubectl writes a float with the digits that identify it, padded with zeros.
    shown_data = json.loads(shown, parse_int=lambda digits: float(digits) if abs(int(digits)) >= 2**63 else int(digits))
    wanted = {key: value for key, value in shown_data["data"].items() if value is not None}
    (document,) = kubectl_yaml.parse_documents(file.read_text())
    assert {key: value for key, value in document.value["data"].items() if value is not None} == wanted
    (stack,) = kubectl_yaml.parse_documents(made.stdout)
    (resource,) = stack.value["spec"]["template"]["resources"].values()
    assert {key: value for key, value in resource["manifest"]["data"].items() if value is not None} == wanted


def test_what_we_write_kubectl_reads_back(kubeconfig: Path, tmp_path: Path) -> None:
    (document,) = kubectl_yaml.parse_documents(SCALARS.read_text())
    words = {
        line.partition(":")[2].strip() or "~" for line in SCALARS.read_text().splitlines() if line.startswith("  ")
    }
    texts = [*words, "", " ", "a: b", "- a", "#", "'", '"', "\n", "  a\n b\n", "a \nb", "\t", "é", "\U0001f525", "---"]
    manifest = {**document.value, "data": {"texts": texts, "keys": dict.fromkeys(texts, "a key")}}
    file = tmp_path / "written.yaml"
    file.write_text(kubectl_yaml.write(manifest))

    shown = run_kubectl(
        kubeconfig, "create", "--dry-run=client", "--validate=false", "--output=json", f"--filename={file}"
    )

    assert json.loads(shown)["data"] == manifest["data"]


async def test_an_export_is_adopted_as_it_is(workers: Crew, user: RealUser, kubeconfig: Path, tmp_path: Path) -> None:
    scope = f"--namespace={user.namespace}"

    def run(*arguments: str) -> str:
        return run_kubectl(kubeconfig, *arguments, scope)

    def read() -> dict[str, Any]:
        found = json.loads(run("get", "deployments,services,configmaps", "--output=json", "--show-managed-fields"))
        return {f"{each['kind']}/{each['metadata']['name']}": each for each in found["items"]}

    await asyncio.to_thread(run, "apply", f"--filename={RUNNING}")
    await asyncio.to_thread(run, "wait", "deployment/web", "--for=condition=Available", "--timeout=60s")
    before = await asyncio.to_thread(read)
    exported = await asyncio.to_thread(run, "get", EXPORTED, "--output=yaml")
    made = click.testing.CliRunner().invoke(main.main, ["import", "--adopt", "--name=shop", "-"], input=exported)
    assert made.exit_code == 0, made.stderr
    assert "is left out: its owner Deployment web creates it" in made.stderr
    file = tmp_path / "stack.yaml"
    file.write_text(made.stdout)
    await asyncio.to_thread(run, "create", f"--filename={file}")
    await workers.hire()
    kubectl_stack = StackCommand(kubeconfig=kubeconfig, namespace=user.namespace)
    assert "CreateComplete 3/3" in await kubectl_stack.expect("wait", "shop", "--timeout", "60s")

    after = await asyncio.to_thread(read)

    assert {name: each["metadata"]["uid"] for name, each in after.items()} == {
        name: each["metadata"]["uid"] for name, each in before.items()
    }
    assert after["Deployment/web"]["spec"] == before["Deployment/web"]["spec"]
    assert after["Service/web"]["spec"] == before["Service/web"]["spec"]
    owned = {
        name: [entry["fieldsV1"] for entry in each["metadata"]["managedFields"] if "hearth" in entry["manager"]]
        for name, each in after.items()
    }
    assert {name: "f:clusterIP" in str(fields) for name, fields in owned.items() if fields} == dict.fromkeys(
        ("ConfigMap/settings", "Deployment/web", "Service/web"), False
    )
    assert "deployment.kubernetes.io/revision" not in str(owned["Deployment/web"])


async def test_an_exported_stack_is_imported_with_the_same_objects(
    workers: Crew, user: RealUser, kubeconfig: Path, tmp_path: Path
) -> None:
    await workers.hire()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "$${x}", "key": "${params.password}"}}
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}}
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"p": "${params.password}"}}
    template = {
        "parameters": {"password": {"type": "string", "sensitive": True}},
        "resources": {name: {"manifest": each} for name, each in zip("abc", (config, service, secret), strict=True)},
    }
    await user.create(
        stack_manifests.make_stack(
            {"deletionPolicy": "Abandon", "template": template, "parameters": {"password": "geheim-1"}},
            namespace=user.namespace,
        )
    )
    kubectl_stack = StackCommand(kubeconfig=kubeconfig, namespace=user.namespace)
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")

    plain = await kubectl_stack.run("export", "shop")
    whole = await kubectl_stack.run("export", "shop", "--include-secrets")

    def read() -> dict[str, Any]:
        listed = run_kubectl(kubeconfig, "get", "secrets,services,configmaps", "-o=json", f"-n={user.namespace}")
        return {
            each["metadata"]["name"]: (each["metadata"]["uid"], each.get("data"), each.get("spec"))
            for each in json.loads(listed)["items"]
        }

    assert (plain.returncode, whole.returncode) == (0, 0), plain.stderr + whole.stderr
    assert "secret/shop-c is left out" in plain.stderr
    assert "configmap/shop-a: data.key is sensitive and left out" in plain.stderr
    assert "geheim-1" not in plain.stdout
    manifests = [document.value for document in kubectl_yaml.parse_documents(whole.stdout)]
    found = [(each["kind"], sorted(each["metadata"])) for each in manifests]
    assert found == [(kind, ["name", "namespace"]) for kind in ("ConfigMap", "Secret", "Service")]
    assert manifests[2]["spec"] == service["spec"]
    before = await asyncio.to_thread(read)
    made = click.testing.CliRunner().invoke(main.main, ["import", "--adopt", "--name=again", "-"], input=whole.stdout)
    file = tmp_path / "again.yaml"
    file.write_text(made.stdout)
    await asyncio.to_thread(run_kubectl, kubeconfig, "delete", "stack/shop", f"-n={user.namespace}", "--timeout=60s")
    await asyncio.to_thread(run_kubectl, kubeconfig, "create", f"-f={file}", f"-n={user.namespace}")
    assert "CreateComplete 3/3" in await kubectl_stack.expect("wait", "again", "--timeout", "60s")

    assert await asyncio.to_thread(read) == before


def store_release(release: dict[str, Any], *, version: int, status: str, namespace: str) -> dict[str, Any]:
    """The Secret where Helm stores a revision."""
    packed = base64.b64encode(gzip.compress(json.dumps(release).encode()))
    name = release["name"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v{version}",
            "namespace": namespace,
            "labels": {"owner": "helm", "name": name, "status": status, "version": str(version)},
        },
        "data": {"release": base64.b64encode(packed).decode()},
    }


async def test_a_release_of_helm_is_taken_over(workers: Crew, user: RealUser, kubeconfig: Path, tmp_path: Path) -> None:
    await workers.hire()
    manifest = "---\n# Source: shop/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {{v: {0}}}\n"
    hook = {"name": "migrate", "kind": "Job", "events": ["pre-upgrade"], "manifest": "kind: Job"}
    for version, status in ((9, "superseded"), (10, "deployed"), (11, "failed")):
        stored = {"name": "web", "manifest": manifest.format(f'"{version}"'), "hooks": [hook]}
        await user.create(store_release(stored, version=version, status=status, namespace=user.namespace))
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": user.namespace}}
    await user.create(live | {"data": {"v": "10"}})
    kubectl_stack = StackCommand(kubeconfig=kubeconfig, namespace=user.namespace)

    def read() -> tuple[str, Any]:
        found = json.loads(run_kubectl(kubeconfig, "get", "configmap/a", "-o=json", f"-n={user.namespace}"))
        return found["metadata"]["uid"], found["data"]

    before = await asyncio.to_thread(read)
    made = await kubectl_stack.run("import", "--from-helm", "web")
    assert made.returncode == 0, made.stderr
    assert "the hook job/migrate (pre-upgrade) is omitted" in made.stderr
    file = tmp_path / "stack.yaml"
    file.write_text(made.stdout)
    await asyncio.to_thread(run_kubectl, kubeconfig, "create", f"-f={file}")
    assert "CreateComplete 1/1" in await kubectl_stack.expect("wait", "web", "--timeout", "60s")

    assert await asyncio.to_thread(read) == before == (before[0], {"v": "10"})
    assert "configmap/a" in await kubectl_stack.expect("tree", "web")
    assert "there is no deployed revision" in await kubectl_stack.expect("import", "--from-helm", "none", code=1)
