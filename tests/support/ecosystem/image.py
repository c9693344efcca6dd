"""An image that was built, as a container engine sees it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ELF_MACHINES = {"amd64": 0x3E, "arm64": 0xB7}
ENTER = """
set -e
mount --bind "$0" "$0"
mount --bind /proc "$0/proc"
mount --bind /dev "$0/dev"
mount --bind "$0/tmp" "$0/tmp"
mount -o remount,bind,ro "$0"
exec "$@"
"""
"""In mounts of its own, as a container has: a read-only root, /proc, /dev, and a /tmp that can be written."""


@dataclass(frozen=True, slots=True)
class Image:
    """An OCI layout with one image for several architectures."""

    folder: Path

    def read(self, descriptor: dict[str, Any]) -> dict[str, Any]:
        """The JSON document that a descriptor names."""
        found: dict[str, Any] = json.loads(self.find_blob(descriptor).read_text())
        return found

    def find_blob(self, descriptor: dict[str, Any]) -> Path:
        """The file of a descriptor."""
        algorithm, _, digest = str(descriptor["digest"]).partition(":")
        return self.folder / "blobs" / algorithm / digest

    def find_manifests(self) -> dict[str, dict[str, Any]]:
        """By architecture the descriptor of its manifest."""
        (index,) = json.loads((self.folder / "index.json").read_text())["manifests"]
        return {each["platform"]["architecture"]: each for each in self.read(index)["manifests"]}

    def read_config(self, architecture: str) -> dict[str, Any]:
        """User, command and environment."""
        manifest = self.read(self.find_manifests()[architecture])
        found: dict[str, Any] = self.read(manifest["config"])["config"]
        return found

    def measure(self, architecture: str) -> int:
        """Bytes that a node downloads."""
        return sum(each["size"] for each in self.read(self.find_manifests()[architecture])["layers"])

    def list_entries(self, architecture: str) -> Iterator[tarfile.TarInfo]:
        """All files of all layers."""
        for layer in self.read(self.find_manifests()[architecture])["layers"]:
            with tarfile.open(self.find_blob(layer)) as archive:
                yield from archive

    def unpack(self, architecture: str, root: Path) -> None:
        """The file system of a container. Nothing but /tmp may be written by an ordinary user."""
        for layer in self.read(self.find_manifests()[architecture])["layers"]:
            with tarfile.open(self.find_blob(layer)) as archive:
                archive.extractall(root, filter="fully_trusted")  # noqa: S202 -- our own


def list_files(root: Path) -> dict[str, tuple[int, int]]:
    """Mode and size of each file below a folder, as layers have it: a folder has no size, a link has no mode."""
    return {str(path.relative_to(root)): describe_file(path) for path in root.rglob("*")}


def describe_file(path: Path) -> tuple[int, int]:
    """Its mode and size."""
    if path.is_symlink():
        return 0o755, 0
    found = path.stat()
    return found.st_mode & 0o7777, found.st_size if path.is_file() else 0


def make_command(root: Path, config: dict[str, Any]) -> tuple[str, ...]:
    """The entrypoint of an image as an engine would start it; it needs root. config: of the image."""
    enter = ("unshare", "--mount", "sh", "-c", ENTER, str(root), "env", "-i", *config["Env"])
    return (*enter, "/usr/sbin/chroot", f"--userspec={config['User']}", str(root), *config["Entrypoint"])


def find_machine(file: Path) -> int:
    """For which machine an ELF file is."""
    with file.open("rb") as opened:
        return int.from_bytes(opened.read(20)[18:20], "little")
