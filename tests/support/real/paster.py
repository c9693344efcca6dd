"""A user who pastes the commands that messages offer."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

from support.real import user_shell
from support.real.stack_command import StackCommand

LIMIT_SECONDS = 120


class Paster:
    """A user who pastes what is printed."""

    def __init__(self, environment: dict[str, str], stack: StackCommand) -> None:
        self.environment = environment
        self.stack = stack

    @classmethod
    def make(cls, kubeconfig: Path, namespace: str, home: Path) -> Paster:
        """One in a namespace. home: a folder of his own."""
        environment = user_shell.make_environment(kubeconfig, namespace, home)
        return cls(environment, StackCommand(kubeconfig=kubeconfig, namespace=namespace))

    async def paste(self, text: str, pattern: str) -> str:
        """Run the command in the text that matches; what it prints."""
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
