"""CustomResourceDefinitions of other projects that the chart can use."""

from __future__ import annotations

import gzip
from pathlib import Path

import go_programs

TESTS = Path(__file__).resolve().parents[2]
MONITORING = ("servicemonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com")


def read() -> str:
    """Those of cert-manager and of the Prometheus Operator, as one YAML stream."""
    folder = go_programs.download(TESTS / "ecosystem" / "go" / "crds") / "deploy" / "crds"
    texts = [path.read_text() for path in sorted(folder.glob("cert-manager.io_*.yaml"))]
    manifests = gzip.decompress((TESTS / "data" / "kube-prometheus.yaml.gz").read_bytes()).decode()
    # Not parsed: the text has a `=` that PyYAML rejects.
    texts += [each for each in manifests.split("\n---\n") if any(f"  name: {name}\n" in each for name in MONITORING)]
    return "\n---\n".join(texts)
