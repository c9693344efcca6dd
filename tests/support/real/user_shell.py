"""The shell of a user: kubectl with its plugin and hearth, in one namespace. It can run pasted commands."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from support import repository
from support.real import stack_command
from support.real.stack_command import StackCommand

LIMIT_SECONDS = 120


def run_kubectl(
    kubeconfig: Path, word: str, *arguments: str, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the kubectl of the control plane, with the rights of that kubeconfig. word: its verb. Blocks."""
    command = [
        sys.executable,
        str(repository.CONTROL_PLANE),
        "kubectl",
        word,
        "--kubeconfig",
        str(kubeconfig),
        *arguments,
    ]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def make_environment(kubeconfig: Path, namespace: str, folder: Path) -> dict[str, str]:
    """The variables of such a shell. folder: the folder of its programs."""
    config = yaml.safe_load(kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    own = folder / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    programs = folder / "bin"
    programs.mkdir()
    built = subprocess.run(
        [sys.executable, str(repository.CONTROL_PLANE), "build"], check=True, capture_output=True, text=True
    )
    (programs / "kubectl").symlink_to(Path(built.stdout.strip()) / "kubectl")
    for script in (stack_command.SCRIPT, "hearth"):
        program = programs / script
        program.write_text(f'#!/bin/sh\nexec {shlex.join(stack_command.find_program(script))} "$@"\n')
        program.chmod(0o755)
    return os.environ | {"KUBECONFIG": str(own), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


class Paster:
    """A user who pastes printed commands."""

    def __init__(self, environment: dict[str, str], stack: StackCommand) -> None:
        self.environment = environment
        self.stack = stack

    @classmethod
    def make(cls, kubeconfig: Path, namespace: str, home: Path) -> Paster:
        """Create a user in a namespace. home: the user's folder."""
        environment = make_environment(kubeconfig, namespace, home)
        return cls(environment, StackCommand(kubeconfig=kubeconfig, namespace=namespace))

    async def paste(self, text: str, pattern: str) -> str:
        """Run the command in the matching text and return its output."""
        found = re.search(pattern, text)
        assert found is not None, f"{pattern!r} is not in {text!r}"
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", found[0]],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
            env=self.environment,
        )
        assert done.returncode == 0, f"{found[0]}: {done.stdout}{done.stderr}"
        return str(done.stdout) + str(done.stderr)
