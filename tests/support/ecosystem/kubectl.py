"""Runs kubectl on one cluster, as a user does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import binaries
import yaml

Object: TypeAlias = dict[str, Any]
PATIENCE = "120s"
"""Ten times the longest time seen on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """All commands use one namespace unless they specify another."""

    kubeconfig: Path
    namespace: str = "default"
    patience: str = PATIENCE

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The finished process, successful or not."""
        command = [str(binaries.ensure() / "kubectl"), f"--kubeconfig={self.kubeconfig}", f"-n={self.namespace}"]
        return subprocess.run([*command, *arguments], input=stdin, capture_output=True, text=True, check=False)

    def call(self, *arguments: str, stdin: str = "") -> str:
        """The output; raises AssertionError with the message if it fails."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def apply(self, objects: Iterable[Object], *arguments: str) -> str:
        """Server-side apply of these objects; unknown fields are errors."""
        text = yaml.safe_dump_all(objects)
        return self.call("apply", "--server-side", "--validate=strict", *arguments, "-f", "-", stdin=text)

    def get(self, *names: str) -> list[Object]:
        """The objects that these arguments name or select; missing ones are left out."""
        found = json.loads(self.call("get", *names, "--ignore-not-found", "-o", "json") or '{"items": []}')
        return list(found["items"]) if "items" in found else [found]

    def wait(self, what: str, condition: str, *more: str) -> None:
        """Wait until the condition holds, e.g. `jsonpath={.status.phase}=UpdateComplete`, `delete`."""
        done = self.run("wait", what, f"--for={condition}", f"--timeout={self.patience}", *more)
        assert done.returncode == 0, f"{done.stderr}\n{self.run('get', what, '-o', 'yaml').stdout[-4000:]}"
