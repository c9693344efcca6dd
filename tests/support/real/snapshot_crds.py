"""The CustomResourceDefinitions of VolumeSnapshots, from the Go module that publishes them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from hearth.model.child import Object
from support import repository

CONTROL_PLANE = repository.TESTS / "control_plane"
MODULE = CONTROL_PLANE / "snapshots"
"""Folder of the Go module: `go.mod` pins the version, and `go.sum` the content."""
FIND_GO = "import toolchain; print(toolchain.find_or_fetch((1, 26, 0)))"


@functools.cache
def load() -> tuple[Object, ...]:
    """Return the definitions of the group snapshot.storage.k8s.io; downloads the module once per machine."""
    go = subprocess.run(
        [sys.executable, "-c", FIND_GO], cwd=CONTROL_PLANE, capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = {"GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    found = subprocess.run(
        [go, "mod", "download", "-json"],
        cwd=MODULE,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(json.loads(found.stdout)["Dir"], "config", "crd")
    return tuple(yaml.safe_load(path.read_text()) for path in sorted(folder.glob("snapshot.storage.k8s.io_*.yaml")))
