"""Helm, built from its Go module, on one cluster."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import go_programs
import yaml
from go_programs import Program

from support import repository

MODULE = repository.TESTS / "ecosystem" / "go" / "helm"
CHART = repository.MANIFESTS / "chart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Helm:
    """The program, with a configuration and a cache of its own."""

    program: Path
    home: Path
    """A home folder for Helm, so that it reads no files of the user."""
    kubeconfig: Path | None = None

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The finished process, successful or not."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "KUBE"))}
        environment |= {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home)}
        environment |= {"XDG_DATA_HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig or self.home / "none")}
        return subprocess.run(
            [self.program, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=300
        )

    def call(self, *arguments: str) -> str:
        """The output; raises AssertionError with the message if it fails."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}\n{done.stdout[-2000:]}"
        return done.stdout

    def render(self, *arguments: str, name: str = "hearth", namespace: str = "hearth-system") -> list[dict[str, Any]]:
        """The objects of the chart with these arguments, e.g. `--set=replicas=1`."""
        text = self.call("template", name, str(CHART), f"--namespace={namespace}", *arguments)
        return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def build() -> Path:
    """Return the path of the program; the first time on a machine it takes minutes."""
    version = go_programs.read_pin(MODULE, "helm.sh/helm/v4")
    flags = f"-s -w -X helm.sh/helm/v4/internal/version.version={version}"
    return go_programs.build_go_program(
        Program(name="helm", module=MODULE, package="helm.sh/helm/v4/cmd/helm", linker_flags=flags)
    )
