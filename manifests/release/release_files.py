"""The artifacts of a release. The same commit gives the same bytes: order, owners, times and modes come from here."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import image_layout
import image_sbom
from image_debian import Impossible
from image_sbom import Bill
from image_wheels import ROOT

PAPERS = ("LICENSE", "SECURITY.md")
"""Files that every archive contains."""
REGISTRY = "registry.example/hearth"
"""The image in manifests: a registry that does not exist, so that no unknown image runs."""
INSTALLATIONS = ("crds", *(f"manifests/{each}" for each in ("definitions", "examples", "finalizer", "install")))
INSTALLATIONS += tuple(f"manifests/{each}" for each in ("observability", "rbac", "shards", "strict"))


def run(*command: str, folder: Path = ROOT, environment: Mapping[str, str] = os.environ) -> str:
    """The output of a program that runs in a folder. Raises Impossible with its message."""
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Impossible(f"there is no {command[0]}: install it") from error
    if done.returncode != 0:
        raise Impossible(f"{' '.join(command[:3])} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def copy_tracked(names: Sequence[str], folder: Path, prefix: str = "") -> None:
    """Copy the files that git tracks below `names`. prefix: removed from their paths."""
    for name in run("git", "ls-files", "-z", "--", *names).split("\0")[:-1]:
        target = folder / name.removeprefix(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        shutil.copymode(ROOT / name, target)


def write_archive(output: Path, root: Path, seconds: int) -> None:
    """Write a folder as a compressed archive. seconds: time of its files, since the epoch."""
    output.write_bytes(gzip.compress(image_layout.pack(root, seconds), compresslevel=6, mtime=0))


def write_chart(output: Path, folder: Path, seconds: int) -> None:
    """Write the chart as Helm installs it. folder: an empty one."""
    copy_tracked(["manifests/chart"], folder / "hearth", prefix="manifests/chart/")
    copy_tracked(PAPERS, folder / "hearth")
    write_archive(output, folder, seconds)


def write_manifests(output: Path, folder: Path, seconds: int) -> None:
    """Write the installations for kustomize, and the examples. folder: an empty one."""
    copy_tracked([*INSTALLATIONS, *PAPERS], folder / output.name.removesuffix(".tar.gz"))
    write_archive(output, folder, seconds)


def write_crds(output: Path) -> None:
    """Write all CRDs as one file."""
    texts = [path.read_text() for path in sorted((ROOT / "crds").glob("*.yaml"))]
    output.write_text("".join(text if text.startswith("---") else f"---\n{text}" for text in texts))


def bind_bill(bill: Bill, architecture: str, digest: str) -> Bill:
    """The bill of materials, as that of the image with this digest. digest: of the manifest of the architecture."""
    application = bill["metadata"]["component"]
    purl = f"pkg:oci/hearth@{quote(digest, safe='')}?arch={architecture}"
    image = {
        "type": "container",
        "bom-ref": purl,
        "name": "hearth",
        "version": application["version"],
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
        "licenses": application["licenses"],
    }
    components = [application, *bill["components"]]
    everything = {"ref": purl, "dependsOn": sorted(each["bom-ref"] for each in components)}
    return {
        **bill,
        "metadata": {"component": image},
        "components": components,
        "dependencies": [everything, *bill["dependencies"]],
    }


def describe_wheels(wheels: Sequence[Path]) -> list[Bill]:
    """The wheels as components."""
    return [image_sbom.describe_wheel(each) for each in wheels]
