"""Imports on a real API server: the whole way of a file, and YAML as kubectl itself reads it."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hearth.template.text import kubectl_yaml
from support.real.control_plane_fixtures import VARIABLE

TESTS = Path(__file__).resolve().parents[2]
PROGRAM = TESTS / "control_plane" / "controlplane.py"
BUNDLE = TESTS / "data" / "kube-prometheus.yaml.gz"
SCALARS, SHOP = TESTS / "data" / "scalars.yaml", TESTS / "data" / "shop.yaml"


def run_kubectl(kubeconfig: Path, *arguments: str) -> str:
    command = [sys.executable, str(PROGRAM), "kubectl", arguments[0], f"--kubeconfig={kubeconfig}", *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_shop_runs_and_goes_without_a_trace(kubeconfig: Path) -> None:
    """One of everything: a kind and an object of it, claims, accounts and rights, lists, shell variables."""
    command = [sys.executable, str(TESTS / "control_plane" / "import_files.py"), "--timeout=90", str(SHOP)]

    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {VARIABLE: str(kubeconfig)}
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok  shop.yaml  17 resources  Ready after ")
    assert done.stdout.rstrip().endswith(
        "left: persistentvolumeclaim/data-database-0, persistentvolumeclaim/data-database-1"
    )


@pytest.mark.soak
def test_the_largest_of_bundles_runs_and_goes_without_a_trace(kubeconfig: Path, tmp_path: Path) -> None:
    """kube-prometheus as published, compressed, but for its APIService: no pod serves metrics on a bare control plane."""
    texts = re.split(r"(?m)^---\s*$", gzip.decompress(BUNDLE.read_bytes()).decode())
    kept = [text for text in texts if text.strip() and not re.search(r"(?m)^kind: APIService$", text)]
    file = tmp_path / "kube-prometheus.yaml.gz"
    file.write_bytes(gzip.compress("---\n".join(kept).encode()))
    command = [sys.executable, str(TESTS / "control_plane" / "import_files.py"), "--timeout=300", str(file)]

    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {VARIABLE: str(kubeconfig)}
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok  kube-prometheus.yaml.gz  130 resources  5 ConfigMaps beside it  Ready after ")
    assert done.stdout.rstrip().endswith("left: nothing")


def test_what_does_not_become_ready_is_reported(kubeconfig: Path, tmp_path: Path) -> None:
    """With the reason, and everything is deleted again all the same."""
    file = tmp_path / "broken.yaml"
    file.write_text("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 123456}]}}")
    command = [sys.executable, str(TESTS / "control_plane" / "import_files.py"), "--timeout=5", str(file)]

    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {VARIABLE: str(kubeconfig)}
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("FAILED  broken.yaml  1 resources")
    assert "spec.ports[0].port: Invalid value: 123456" in done.stdout


def test_scalars_are_read_as_kubectl_reads_them(kubeconfig: Path) -> None:
    """The file of the unit test, asked of the program that it speaks of."""
    shown = run_kubectl(
        kubeconfig, "create", "--dry-run=client", "--validate=false", "--output=json", f"--filename={SCALARS}"
    )

    (document,) = kubectl_yaml.parse_documents(SCALARS.read_text())
    assert document.value["data"] == json.loads(shown)["data"]


def test_what_we_write_kubectl_reads_back(kubeconfig: Path, tmp_path: Path) -> None:
    """Every text that could be taken for something else, as a value and as a key."""
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
