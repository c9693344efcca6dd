"""The shell of a user: kubectl with its plugin and hearth, in one namespace."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from support.real import stack_command

PROGRAM = Path(__file__).resolve().parents[2] / "control_plane" / "controlplane.py"


def make_environment(kubeconfig: Path, namespace: str, folder: Path) -> dict[str, str]:
    """The variables of such a shell. folder: where its programs are put."""
    config = yaml.safe_load(kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    own = folder / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    programs = folder / "bin"
    programs.mkdir()
    built = subprocess.run([sys.executable, str(PROGRAM), "build"], check=True, capture_output=True, text=True)
    (programs / "kubectl").symlink_to(Path(built.stdout.strip()) / "kubectl")
    for script in (stack_command.SCRIPT, "hearth"):
        program = programs / script
        program.write_text(f'#!/bin/sh\nexec {shlex.join(stack_command.find_program(script))} "$@"\n')
        program.chmod(0o755)
    return os.environ | {"KUBECONFIG": str(own), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
