"""`make release`: two builds of one commit are equal, and each artifact works and has the license."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import release_olm

import hearth
from support import repository
from support.ecosystem import programs

NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
VERSION = hearth.__version__
PLUGIN = f"kubectl-stack-{VERSION}-linux-{NATIVE}.tar.gz"
KREW_MANIFEST = f"kubectl-stack-{VERSION}-krew.yaml"
PAPERS = {"LICENSE", "SECURITY.md"}
COMMIT_AS = ["-c", "user.name=a", "-c", "user.email=a@example"]


def call(*command: str | Path, folder: Path = repository.ROOT) -> str:
    """The output of a command. Raises AssertionError with both outputs if it fails."""
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(checkout: Path, commit: str, key: Path) -> Path:
    """Clone the commit into `checkout`, and build a release there; its folder."""
    call("git", "clone", "--quiet", "--shared", "--no-checkout", repository.ROOT, checkout)
    call("git", "checkout", "--quiet", commit, folder=checkout)
    search = [checkout / name for name in ("operator", "manifests/image", "manifests/release")]
    program = checkout / "manifests" / "release" / "make_release.py"
    command = [sys.executable, str(program), f"--key={key}", "--architectures", NATIVE]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, search))}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "signed with the key" in done.stdout
    return checkout / "dist" / f"release-{VERSION}"


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two releases of the checkout with its uncommitted changes, built at paths of different lengths."""
    folder = tmp_path_factory.mktemp("releases")
    key = folder / "key.pem"
    call("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    call("openssl", "pkey", "-in", key, "-pubout", "-out", folder / "hearth.pub")
    commit = call("git", *COMMIT_AS, "stash", "create").strip() or "HEAD"
    commit = call("git", "rev-parse", commit).strip()
    return build(folder / "one", commit, key), build(folder / "another" / "place", commit, key)


def read_papers(release: Path) -> Iterator[tuple[str, set[str]]]:
    """The name of each artifact that holds programs, with its license files."""
    (wheel,) = release.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    yield "wheel", {name.rpartition("/")[2] for name in names if "/hearth-" in f"/{name}" and "/licenses/" in name}
    with tarfile.open(release / PLUGIN) as archive:
        yield "plugin", PAPERS & set(archive.getnames())
    with tarfile.open(release / f"hearth-{VERSION}-image.tar") as image:
        found = set()
        for entry in image.getmembers():
            blob = image.extractfile(entry)
            if blob is not None and blob.read(2) == b"\x1f\x8b":
                blob.seek(0)
                with tarfile.open(fileobj=blob) as layer:
                    found |= {
                        name.rpartition("/")[2]
                        for name in layer.getnames()
                        if "/hearth-" in name and "licenses/" in name
                    }
        yield "image", found


def test_two_builds_of_one_commit_are_equal(releases: tuple[Path, Path]) -> None:
    one, other = ({path.name: path for path in folder.iterdir()} for folder in releases)

    assert sorted(one) == sorted(other)
    assert [name for name in one if one[name].read_bytes() != other[name].read_bytes()] == []
    assert {
        f"hearth-{VERSION}.tgz",
        f"hearth-{VERSION}-image.tar",
        PLUGIN,
        KREW_MANIFEST,
        "checksums.txt.sig",
    } <= one.keys()


def test_every_program_comes_with_its_license(releases: tuple[Path, Path]) -> None:
    assert dict(read_papers(releases[0])) == {"wheel": PAPERS, "plugin": PAPERS, "image": PAPERS}


@pytest.fixture(scope="module")
def krew_home(releases: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of krew after it installed the plugin."""
    home = tmp_path_factory.mktemp("krew")
    done = programs.install_by_krew(releases[0] / KREW_MANIFEST, releases[0] / PLUGIN, home)
    assert done.returncode == 0, done.stderr
    return home


def run_alone(program: Path, *arguments: str | Path) -> str:
    """The output of a program without any variable of the environment, and so without a Python on PATH."""
    return call("/usr/bin/env", "-i", "PATH=/nonexistent:/bin", program, *arguments, folder=Path("/"))


def test_the_plugin_runs_without_python_where_krew_installs_it(krew_home: Path) -> None:
    plugin = krew_home / "bin" / "kubectl-stack"
    store = krew_home / "store" / "stack" / f"v{VERSION}"

    assert VERSION in run_alone(plugin, "--version")
    assert run_alone(plugin, "lint", "-f", repository.EXAMPLES / "guestbook.yaml") == "1 Stack: no mistake\n"
    assert "history\t" in run_alone(store / "kubectl_complete-stack", "hi")


def test_processes_of_the_plugin_run_with_its_python(krew_home: Path) -> None:
    python = krew_home / "store" / "stack" / f"v{VERSION}" / "python" / "usr" / "bin" / "python3"
    start = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import hearth, sys; print(sys.executable)'])"
    )

    assert run_alone(python, "-I", "-c", start) == f"{python}\n"


def test_krew_refuses_a_changed_archive(releases: tuple[Path, Path], tmp_path: Path) -> None:
    content = bytearray((releases[0] / PLUGIN).read_bytes())
    content[len(content) // 2] ^= 1
    changed = tmp_path / PLUGIN
    changed.write_bytes(content)

    done = programs.install_by_krew(releases[0] / KREW_MANIFEST, changed, tmp_path / "krew")

    assert done.returncode != 0
    assert "checksum does not match" in done.stderr


def test_the_bill_of_materials_is_that_of_the_image(releases: tuple[Path, Path], tmp_path: Path) -> None:
    bill = json.loads((releases[0] / f"hearth-{VERSION}-sbom-{NATIVE}.cdx.json").read_text())
    (digest,) = [each["content"] for each in bill["metadata"]["component"]["hashes"]]
    provenance = json.loads((releases[0] / f"hearth-{VERSION}-provenance.json").read_text())
    (image,) = [each for each in provenance["subject"] if each["name"] == f"hearth:{VERSION}"]

    with tarfile.open(releases[0] / f"hearth-{VERSION}-image.tar") as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        (named,) = json.load(index)["manifests"]
        assert named["digest"] == f"sha256:{image['digest']['sha256']}"
        manifests = archive.extractfile(f"blobs/sha256/{image['digest']['sha256']}")
        assert manifests is not None
        assert [each["digest"] for each in json.load(manifests)["manifests"]] == [f"sha256:{digest}"]


def test_the_validator_of_olm_accepts_the_bundle(tmp_path: Path) -> None:
    for name, text in release_olm.make_bundle(repository.ROOT, f"registry.example/hearth@sha256:{'a' * 64}").items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    assert programs.find_bundle_errors(tmp_path / "manifests") == []

    (tmp_path / "manifests" / "stacks.hearth.dev.customresourcedefinition.yaml").unlink()
    (error,) = programs.find_bundle_errors(tmp_path / "manifests")
    assert "stacks.hearth.dev" in error or "Kind=Stack" in error
