"""An OCI image layout on disk: layers from folders, one manifest for each architecture, an index over both.

The same files give the same bytes: order, owners, times and modes are stated here, not taken from the disk. Knows nothing
of what is in the image. Source: https://github.com/opencontainers/image-spec.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Descriptor: TypeAlias = dict[str, Any]

EPOCH = 315_532_800
"""1980-01-01: the earliest time that all formats can hold."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A compressed layer that was written."""

    descriptor: Descriptor
    diff_id: str
    """Digest of the layer before compression."""
    size: int
    """Bytes before compression."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of an image layout."""

    folder: Path

    def create(self) -> None:
        """Begin it."""
        (self.folder / "blobs" / "sha256").mkdir(parents=True)
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def add_blob(self, content: bytes, media_type: str) -> Descriptor:
        """Write a blob; its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, content: Mapping[str, Any], media_type: str) -> Descriptor:
        """Write a JSON document; its descriptor."""
        return self.add_blob(encode(content), media_type)

    def add_layer(self, root: Path) -> Layer:
        """Write a folder as a layer."""
        content = pack(root)
        packed = gzip.compress(content, compresslevel=6, mtime=0)
        diff_id = f"sha256:{hashlib.sha256(content).hexdigest()}"
        return Layer(descriptor=self.add_blob(packed, LAYER), diff_id=diff_id, size=len(content))

    def add_manifest(self, layers: Sequence[Layer], architecture: str, settings: Mapping[str, Any]) -> Descriptor:
        """Write the manifest of one architecture; its descriptor for the index. settings: `config` of the image."""
        rootfs = {"type": "layers", "diff_ids": [each.diff_id for each in layers]}
        platform = {"architecture": architecture, "os": "linux"}
        config = {**platform, "created": "1980-01-01T00:00:00Z", "config": settings, "rootfs": rootfs}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.add_json(config, CONFIG),
            "layers": [each.descriptor for each in layers],
        }
        return {**self.add_json(manifest, MANIFEST), "platform": platform}

    def finish(self, manifests: Sequence[Descriptor], tag: str) -> str:
        """Write the index; the digest of the image for all architectures."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests)}
        image = self.add_json(index, INDEX)
        named = {**image, "annotations": {"org.opencontainers.image.ref.name": tag}}
        (self.folder / "index.json").write_bytes(encode({**index, "manifests": [named]}))
        return str(image["digest"])


def encode(content: Mapping[str, Any]) -> bytes:
    """JSON, the same for the same content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def pack(root: Path, seconds: int = EPOCH) -> bytes:
    """The folder as an archive: everything belongs to root, and nothing but /tmp may be written by others.

    seconds: time of all files, since the epoch.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            entry = archive.gettarinfo(path, arcname=str(path.relative_to(root)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = seconds
            entry.mode = find_mode(entry.name, entry.mode, is_file=entry.isreg())
            if entry.isreg():
                # A second name of the same file would be a link to the first.
                entry.type = tarfile.REGTYPE
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return buffer.getvalue()


def set_modes(root: Path) -> None:
    """Give the files of a folder the modes that they have in an image."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(find_mode(str(path.relative_to(root)), path.stat().st_mode, is_file=path.is_file()))


def find_mode(name: str, mode: int, *, is_file: bool) -> int:
    """Readable by all, executable where it was; no set-user bits."""
    if name == "tmp":
        return 0o1777
    return 0o755 if not is_file or mode & 0o100 else 0o644
