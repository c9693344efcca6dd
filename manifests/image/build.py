"""The container image of Hearth as an OCI layout, without a container engine.

    make image                                             build/image/oci, for amd64 and arm64
    make image ENGINE=podman                               by an engine, from the Containerfile, which calls this program
    skopeo copy oci:build/image/oci:0.1.0 docker://…       to a registry; podman and docker read the layout as well

Python and its libraries come from Debian, the rest from the wheels of the lock file. There is no shell. It runs as user
65532, and needs no writable file but in /tmp.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import image_debian
import image_layout
import image_sbom
import image_wheels
from image_debian import Impossible, Package
from image_layout import Layout

import hearth

USER = 65_532
SETTINGS = {
    "User": f"{USER}:{USER}",
    # -I: neither the working directory nor PYTHON… variables decide what is imported.
    "Entrypoint": ["/usr/bin/python3.11", "-I", "-m", "hearth"],
    "Cmd": ["run"],
    "Env": ["PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
    "WorkingDir": "/",
    "ExposedPorts": {"8080/tcp": {}, "9443/tcp": {}},
    "Labels": {
        "org.opencontainers.image.title": "hearth",
        "org.opencontainers.image.version": hearth.__version__,
        "org.opencontainers.image.description": "A Kubernetes operator that keeps Stacks converged",
        "org.opencontainers.image.licenses": "Apache-2.0",
    },
}
FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nhearth:x:{USER}:{USER}:hearth:/:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nhearth:x:{USER}:\n",
    # Without it, names in /etc/hosts come last.
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an image of one architecture is put together from."""

    packages: list[Package]
    wheels: list[Path]


def main() -> int:
    """Build what the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build/image"), help="folder that is replaced")
    parser.add_argument(
        "--architectures", nargs="+", choices=sorted(image_wheels.PLATFORMS), default=sorted(image_wheels.PLATFORMS)
    )
    parser.add_argument(
        "--debian",
        default=image_debian.ARCHIVE,
        metavar="URL",
        help="archive of Debian's packages; default: %(default)s",
    )
    parser.add_argument("--root", action="store_true", help="only the file system, for this machine")
    arguments = parser.parse_args()
    try:
        if arguments.root:
            (parts,) = fetch([find_native()], arguments.debian).values()
            lay_out(arguments.output, parts)
            print(arguments.output)
        else:
            digest = build(arguments.output, fetch(arguments.architectures, arguments.debian))
            print(f"{arguments.output}/oci  {digest}")
    except Impossible as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def find_native() -> str:
    """The architecture of this machine, as images name it."""
    machine = platform.machine()
    known = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
    if machine not in known:
        raise Impossible(f"there are no wheels for {machine}, only for {', '.join(image_wheels.PLATFORMS)}")
    return known[machine]


def fetch(architectures: Sequence[str], archive: str = image_debian.ARCHIVE) -> dict[str, Parts]:
    """Download everything; what is there already stays. Needs the network, and is all that does.

    archive: of Debian's packages.
    """
    found = {}
    for architecture in architectures:
        folder = find_cache(architecture)
        folder.mkdir(parents=True, exist_ok=True)
        packages = image_debian.fetch(architecture, folder, archive)
        found[architecture] = Parts(packages=packages, wheels=image_wheels.fetch(architecture, folder / "wheels"))
    return found


def find_cache(architecture: str) -> Path:
    """The folder that keeps downloads between builds."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "hearth" / "image" / architecture


def build(output: Path, parts: dict[str, Parts]) -> str:
    """Write layout, bills of materials and licenses; the digest of the image."""
    # Programs run in other folders, and Python 3.11 names a temporary folder as the argument does.
    output = output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    layout = Layout(output / "oci")
    layout.create()
    manifests = []
    with tempfile.TemporaryDirectory(dir=output) as folder:
        own = image_wheels.build_own(Path(folder))
        for architecture, each in parts.items():
            base, packages = Path(folder, architecture, "base"), Path(folder, architecture, "packages")
            write_bill(output, architecture, fill(base, packages, each, own))
            layers = [layout.add_layer(base), layout.add_layer(packages)]
            manifests.append(layout.add_manifest(layers, architecture, SETTINGS))
    return layout.finish(manifests, hearth.__version__)


def lay_out(root: Path, parts: Parts) -> None:
    """Write the file system of the image: what an engine copies into one."""
    shutil.rmtree(root, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        fill(root, Path(folder, "packages"), parts, image_wheels.build_own(Path(folder)))
        shutil.copytree(Path(folder, "packages"), root, symlinks=True, dirs_exist_ok=True)
    image_layout.set_modes(root)


def fill(base: Path, packages: Path, parts: Parts, own: Path) -> image_sbom.Bill:
    """Fill the folders of both layers; the bill of materials, which is in the image. own: the wheel of Hearth."""
    fill_base(base, parts.packages)
    fill_packages(packages, [*parts.wheels, own])
    bill = image_sbom.make(parts.packages, [*parts.wheels, own], base)
    inside = packages / "usr/share/sbom/hearth.cdx.json"
    inside.parent.mkdir(parents=True)
    inside.write_text(image_sbom.make_text(bill))
    return bill


def fill_base(root: Path, packages: list[Package]) -> None:
    """The lower layer, which changes with Debian alone."""
    root.mkdir(parents=True)
    image_debian.unpack(packages, root)
    for name, text in FILES.items():
        (root / name).write_text(text)
    compile_modules(root, root / "usr/lib/python3.11")


def fill_packages(root: Path, wheels: list[Path]) -> None:
    """The upper layer. Modules are compiled, as the image cannot keep what Python compiles at its start."""
    root.mkdir(parents=True)
    image_wheels.unpack(wheels, root)
    compile_modules(root, root / image_wheels.PLACE)


def compile_modules(root: Path, folder: Path) -> None:
    """Compile the modules in `folder`, which is the same for all architectures and all releases of Python 3.11."""
    if sys.version_info[:2] != (3, 11):
        raise Impossible(f"the image has Python 3.11, and this is {platform.python_version()}: set up with python3.11")
    options = ["-q", "-j1", "-s", str(root), "-p", "/", "--invalidation-mode=unchecked-hash", str(folder)]
    environment = {"PYTHONHASHSEED": "0", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "compileall", *options], env=environment, capture_output=True, text=True, check=False
    )
    # Some packages contain templates of modules, which are none.
    if done.returncode not in (0, 1):
        raise Impossible(f"cannot compile modules: {done.stderr[-2000:]}")


def write_bill(output: Path, architecture: str, bill: image_sbom.Bill) -> None:
    """The bill of materials beside the layout, and the licenses as a table."""
    (output / f"sbom-{architecture}.cdx.json").write_text(image_sbom.make_text(bill))
    (output / f"licenses-{architecture}.txt").write_text(image_sbom.make_table(bill))


if __name__ == "__main__":
    sys.exit(main())
