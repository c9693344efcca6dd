"""The image configuration that a Containerfile describes. Supports only the instructions that our Containerfile
uses.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

NAMES = {"USER": "User", "WORKDIR": "WorkingDir", "ENTRYPOINT": "Entrypoint", "CMD": "Cmd"}


def read_stages(file: Path) -> list[list[tuple[str, str]]]:
    """The instructions of each stage, with their arguments."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    instructions = [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]
    stages: list[list[tuple[str, str]]] = []
    for word, arguments in instructions:
        if word == "FROM":
            stages.append([])
        stages[-1].append((word, arguments))
    return stages


def read_settings(file: Path) -> dict[str, Any]:
    """The `config` of the image that the last stage creates."""
    found: dict[str, Any] = {"Env": [], "ExposedPorts": {}, "Labels": {}}
    for word, arguments in read_stages(file)[-1]:
        if word == "ENV":
            found["Env"] += shlex.split(arguments)
        elif word == "EXPOSE":
            found["ExposedPorts"] |= {port: {} for port in arguments.split()}
        elif word == "LABEL":
            found["Labels"] |= dict(each.split("=", 1) for each in shlex.split(arguments))
        elif word in NAMES:
            found[NAMES[word]] = json.loads(arguments) if arguments.startswith("[") else arguments
    return found


def list_copied(file: Path) -> list[str]:
    """The files and folders of the checkout that the first stage copies."""
    return [name for word, arguments in read_stages(file)[0] if word == "COPY" for name in arguments.split()[:-1]]
