"""The container image: its contents, its reproducibility, and that it runs with the chart's RBAC rules."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build as image_build
import image_sbom
import image_wheels
import pytest

import hearth
from support.ecosystem import kinds
from support.ecosystem.kubectl import Kubectl
from support.ecosystem.release import Release

NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
MEGABYTE = 1_000_000
USER = "65532:65532"
LIST = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
COSTLY = f"{LIST}.map(a, {LIST}.map(b, {LIST}.map(c, {LIST}.exists(d, d > 4 && a * b * c > 0)))).size()"
"""Too costly for a reconcile."""
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
    """The architecture of an ELF file."""
    with file.open("rb") as opened:
        return int.from_bytes(opened.read(20)[18:20], "little")


@pytest.fixture(scope="module")
def parts() -> dict[str, image_build.Parts]:
    return image_build.fetch(sorted(image_wheels.PLATFORMS))


@pytest.fixture(scope="module")
def output(parts: dict[str, image_build.Parts], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that `make image` creates."""
    folder = tmp_path_factory.mktemp("image") / "output"
    image_build.build(folder, parts)
    return folder


@pytest.fixture(scope="module")
def root(output: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file system of a container on this machine."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to change into the file system of the image")
    folder = tmp_path_factory.mktemp("root")
    Image(output / "oci").unpack(NATIVE, folder)
    # pytest makes folders that only their owner may enter.
    for each in (folder, folder.parent, folder.parent.parent):
        each.chmod(0o755)
    return folder


def test_two_builds_are_the_same_image(
    output: Path, parts: dict[str, image_build.Parts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    image_build.build(Path("again"), {NATIVE: parts[NATIVE]})

    again, first = (Image(folder / "oci").find_manifests()[NATIVE] for folder in (tmp_path / "again", output))
    assert again == first


def test_an_engine_copies_the_same_files(
    output: Path, root: Path, parts: dict[str, image_build.Parts], tmp_path: Path
) -> None:
    assert image_build.find_native() == NATIVE
    image_build.lay_out(tmp_path / "root", parts[NATIVE])

    entries = {entry.name: (entry.mode, entry.size) for entry in Image(output / "oci").list_entries(NATIVE)}
    assert list_files(tmp_path / "root") == entries
    for name, (_, size) in entries.items():
        if size:
            assert (tmp_path / "root" / name).read_bytes() == (root / name).read_bytes(), name


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_the_image_is_small_and_needs_no_rights(output: Path, architecture: str) -> None:
    image = Image(output / "oci")
    entries = list(image.list_entries(architecture))

    assert image.measure(architecture) < 150 * MEGABYTE
    assert image.read_config(architecture)["User"] == USER
    assert {entry.name for entry in entries if entry.isreg() and "/bin/" in f"/{entry.name}"} == {"usr/bin/python3.11"}
    assert [entry.name for entry in entries if entry.mode & 0o6022 and entry.name != "tmp"] == []
    assert {(entry.uid, entry.gid) for entry in entries} == {(0, 0)}


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_every_library_is_for_the_machine(output: Path, architecture: str, tmp_path: Path) -> None:
    Image(output / "oci").unpack(architecture, tmp_path)
    libraries = [path for path in tmp_path.rglob("*.so*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]

    assert len(libraries) > 50
    expected = ELF_MACHINES[architecture]
    assert [path for path in libraries if find_machine(path) != expected] == []


def test_the_bill_of_materials_names_all_packages(output: Path, parts: dict[str, image_build.Parts]) -> None:
    bill = json.loads((output / f"sbom-{NATIVE}.cdx.json").read_text())
    each = parts[NATIVE]

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == hearth.__version__
    assert len(bill["components"]) == len(each.packages) + len(each.wheels)
    names = {component["name"] for component in bill["components"]}
    assert {"libc6", "python3.11-minimal", "aiohttp", "cryptography"} <= names
    assert "kubernetes" not in names
    for component in bill["components"]:
        assert component["purl"].startswith(("pkg:deb/debian/", "pkg:pypi/"))
        assert component["licenses"][0]["license"]["name"] != "not stated", component["name"]
    table = (output / f"licenses-{NATIVE}.txt").read_text()
    assert table == image_sbom.make_table(bill)


def test_every_module_is_compiled(root: Path) -> None:
    """The image is read-only, so Python would otherwise compile its modules at every start."""
    folder = root / image_wheels.PLACE / "hearth"
    modules = list(folder.rglob("*.py"))

    assert len(modules) > 200
    assert all((path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc").exists() for path in modules)


def test_time_zones_are_there(root: Path) -> None:
    assert (root / image_wheels.PLACE / "tzdata" / "zoneinfo" / "Europe" / "Berlin").exists()


def test_the_command_line_works(root: Path, output: Path) -> None:
    command = make_command(root, Image(output / "oci").read_config(NATIVE))

    done = subprocess.run([*command, "version"], capture_output=True, text=True, check=False)
    written = subprocess.run([*command, "crds", "--directory", "/"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, f"{hearth.__version__}\n"), done.stderr
    assert "Read-only file system" in written.stderr


def test_the_image_runs_with_the_rights_of_the_chart(root: Path, output: Path, release: Release) -> None:
    release.install()
    release.root, release.program = root, make_command(root, Image(output / "oci").read_config(NATIVE))
    operator = release.start()
    user = Kubectl(kubeconfig=release.kubeconfig, namespace="image")
    user.run("delete", "namespace", "image", "--ignore-not-found")
    user.call("create", "namespace", "image")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": f"${{string({COSTLY})}} in all"}}
    user.apply([kinds.make_stack("shop", {"config": {"manifest": config}})])

    user.wait("stack/shop", "condition=Ready")
    (made,) = user.get("configmap", "-l=hearth.dev/stack=shop")
    assert made["data"] == {"size": "10 in all"}
    assert operator.process is not None
    process = Path("/proc", str(operator.process.pid))
    assert "Uid:\t65532\t65532" in (process / "status").read_text()
    assert any(path.read_text() for path in process.glob("task/*/children")), "no process of the operator evaluated it"
    assert [line for line in operator.read_events() if line["level"] == "error"] == []
    release.stop()
