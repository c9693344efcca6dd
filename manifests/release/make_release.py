"""All artifacts of one version, with checksums and provenance, in dist/release-VERSION.

    make release                        not signed
    make release KEY=key.pem            signed with a private key (ECDSA P-256, PEM)
    make release RELEASE_ARGS=--help    further options

The same commit and the same Debian packages give the same bytes. docs/verify.md describes the files.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import build as image_build
import image_debian
import image_layout
import image_sbom
import image_wheels
import release_files
import release_olm
import release_plugin
import release_proofs
from build import Parts
from cryptography.hazmat.primitives.asymmetric import ec
from image_debian import Impossible
from image_sbom import Bill
from image_wheels import ROOT
from release_proofs import Source, Subject

import hearth

VERSION = hearth.__version__
TOOLS = ("git", "apt-get", "dpkg-deb")
SHOWN_CHANGES = 5
UNSIGNED = "NOT SIGNED: for a release that others can verify, run make release KEY=key.pem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to build."""

    architectures: Sequence[str]
    debian: str
    """URL of the archive of Debian's packages."""


def main() -> int:
    """Build what the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", type=Path, metavar="FILE", help="private key that signs the release; default: none")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / f"release-{VERSION}", help="folder to replace")
    known = sorted(image_wheels.PLATFORMS)
    parser.add_argument("--architectures", nargs="+", choices=known, default=known)
    parser.add_argument("--debian", default=image_debian.ARCHIVE, metavar="URL", help="archive of Debian's packages")
    arguments = parser.parse_args()
    try:
        # First everything that can fail within a second.
        check_tools()
        key = None if arguments.key is None else release_proofs.read_key(arguments.key)
        source = read_source(ROOT)
        order = Order(architectures=arguments.architectures, debian=arguments.debian)
        make(arguments.output, order, source, key)
    except Impossible as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(arguments.output)
    print((arguments.output / "checksums.txt").read_text(), end="")
    print(UNSIGNED if key is None else f"signed with the key {release_proofs.identify_key(key)}")
    return 0


def check_tools(search_path: str | None = None) -> None:
    """Raise Impossible if a program is missing. search_path: folders of programs; default: PATH."""
    if missing := [each for each in TOOLS if shutil.which(each, path=search_path) is None]:
        raise Impossible(f"a release needs {', '.join(missing)}: install them, or build on Debian or Ubuntu")


def read_source(root: Path) -> Source:
    """The commit of a checkout. Raises Impossible if files differ from it."""
    inside = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=root, capture_output=True, check=False)
    if inside.returncode != 0:
        raise Impossible(f"{root} is not a git checkout: clone the repository, because provenance names the commit")
    if changes := release_files.run("git", "status", "--porcelain", folder=root).splitlines():
        shown = ", ".join(changes[:SHOWN_CHANGES]) + (", …" if len(changes) > SHOWN_CHANGES else "")
        raise Impossible(
            f"{root} has uncommitted changes ({shown}): commit or remove them, then run make release again"
        )
    commit, time = release_files.run("git", "show", "--no-patch", "--format=%H %ct", "HEAD", folder=root).split()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return Source(
        repository=project["urls"]["Homepage"],
        commit=commit,
        time=int(time),
        lock_digest=release_proofs.hash_file(root / "requirements.lock").digest,
    )


def make(output: Path, order: Order, source: Source, key: ec.EllipticCurvePrivateKey | None) -> None:
    """Build all artifacts, then their proofs, and put the complete folder in its place."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".release-") as name:
        folder, work = Path(name, "release"), Path(name, "work")
        folder.mkdir()
        work.mkdir()
        release_files.write_crds(folder / f"hearth-{VERSION}-crds.yaml")
        release_files.write_chart(folder / f"hearth-{VERSION}.tgz", work / "chart", source.time)
        manifests = folder / f"hearth-{VERSION}-manifests.tar.gz"
        release_files.write_manifests(manifests, work / "manifests", source.time)
        wheel = image_wheels.build_own(folder)
        parts = image_build.fetch(order.architectures, order.debian)
        image, materials = make_image(folder, work, parts)
        make_olm_bundle(folder, work / "olm", source, image)
        materials += make_plugins(folder, work, parts, source, wheel)
        write_proofs(folder, order, source, image, materials)
        if key is not None:
            sign(folder, key)
        shutil.rmtree(output, ignore_errors=True)
        folder.rename(output)


def make_image(folder: Path, work: Path, parts: Mapping[str, Parts]) -> tuple[Subject, list[Bill]]:
    """Write the image and its bills of materials; the image as a subject, and its components."""
    digest = image_build.build(work / "image", dict(parts))
    layout = work / "image" / "oci"
    image = folder / f"hearth-{VERSION}-image.tar"
    image.write_bytes(image_layout.pack(layout))
    materials = []
    index = json.loads((layout / "blobs" / digest.replace(":", "/")).read_text())
    for manifest in index["manifests"]:
        architecture = manifest["platform"]["architecture"]
        bill = json.loads((work / "image" / f"sbom-{architecture}.cdx.json").read_text())
        bound = release_files.bind_bill(bill, architecture, manifest["digest"])
        (folder / f"hearth-{VERSION}-sbom-{architecture}.cdx.json").write_text(image_sbom.make_text(bound))
        materials += bill["components"]
    return Subject(name=f"hearth:{VERSION}", digest=digest.removeprefix("sha256:")), materials


def make_olm_bundle(folder: Path, work: Path, source: Source, image: Subject) -> None:
    """Write the bundle for OLM. work: an empty folder."""
    reference = f"{release_files.REGISTRY}@sha256:{image.digest}"
    for name, text in release_olm.make_bundle(ROOT, reference).items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    release_files.copy_tracked(release_files.PAPERS, work)
    release_files.write_archive(folder / f"hearth-{VERSION}-olm.tar.gz", work, source.time)


def make_plugins(folder: Path, work: Path, parts: Mapping[str, Parts], source: Source, own: Path) -> list[Bill]:
    """Write the kubectl plugin for each architecture, and its manifest for krew; the wheels as components.

    own: the wheel of Hearth.
    """
    materials, digests = [], {}
    for architecture, part in parts.items():
        wheels = image_wheels.fetch(architecture, image_build.find_cache(architecture) / "plugin", left_out=None)
        plugin = folder / f"kubectl-stack-{VERSION}-linux-{architecture}.tar.gz"
        complete = replace(part, wheels=wheels)
        release_plugin.write_plugin(plugin, work / f"plugin-{architecture}", architecture, complete, own, source.time)
        digests[architecture] = release_proofs.hash_file(plugin).digest
        materials += release_files.describe_wheels(wheels)
    manifest = release_plugin.make_krew_manifest(VERSION, digests)
    (folder / f"kubectl-stack-{VERSION}-krew.yaml").write_text(manifest)
    return materials


def write_proofs(folder: Path, order: Order, source: Source, image: Subject, materials: list[Bill]) -> None:
    """Write provenance and checksums of all artifacts in the folder."""
    subjects = [release_proofs.hash_file(path) for path in sorted(folder.iterdir())]
    parameters = {"version": VERSION, "architectures": sorted(order.architectures), "debian": order.debian}
    statement = release_proofs.make_provenance([*subjects, image], source, materials, parameters)
    provenance = folder / f"hearth-{VERSION}-provenance.json"
    provenance.write_bytes(release_proofs.encode(statement))
    checksums = release_proofs.make_checksums([*subjects, release_proofs.hash_file(provenance)])
    (folder / "checksums.txt").write_text(checksums)


def sign(folder: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a signature of the checksums, and the provenance as a signed envelope."""
    signature = release_proofs.sign((folder / "checksums.txt").read_bytes(), key)
    (folder / "checksums.txt.sig").write_text(base64.b64encode(signature).decode() + "\n")
    payload = (folder / f"hearth-{VERSION}-provenance.json").read_bytes()
    envelope = release_proofs.make_envelope(payload, key)
    (folder / f"hearth-{VERSION}-provenance.dsse.json").write_bytes(release_proofs.encode(envelope))


if __name__ == "__main__":
    sys.exit(main())
