"""The images of the tests' node, which no registry has: Hearth's own, and those of the programs that tests run.

They are built by the code that builds Hearth's image, from Debian's packages, and kept until what they are made of changes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import build as image_build
import go_programs
import image_debian
import image_wheels
import places
import progress
from go_programs import Program
from image_layout import Layout

import hearth

REGISTRY = "registry.example"
"""No server has this name."""
VERSION = "1"
POSTGRES = "/usr/lib/postgresql/15/bin"
POSTGRES_USER = 999
BUSYBOX = ("sh", "cat", "sleep", "ls", "wget", "nslookup", "mkdir", "echo", "env", "rm", "test", "date", "id", "kill")
LEFT_OUT = (
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/lintian",
    "usr/lib/postgresql/15/lib/bitcode",
)
START_POSTGRES = """#!/bin/sh
# Serve the directory that PGDATA names; set it up first if it is empty.
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --pgdata="$PGDATA" --username=postgres --auth=trust --no-sync >/dev/null
  echo "host all all all trust" >>"$PGDATA/pg_hba.conf"
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp
"""
POSTGRES_PACKAGES = (
    *(
        "postgresql-15",
        "postgresql-client-15",
        "libpq5",
        "busybox-static",
        "tzdata",
        "libc6",
        "libgcc-s1",
        "libstdc++6",
    ),
    *("libssl3", "zlib1g", "libzstd1", "liblz4-1", "libxml2", "libicu72", "liblzma5", "libpam0g", "libaudit1"),
    *("libcap-ng0", "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libcom-err2", "libkeyutils1"),
    *("libldap-2.5-0", "libsasl2-2", "libsystemd0", "libgcrypt20", "libgpg-error0", "libcap2", "libreadline8"),
    *("libtinfo6", "libcrypt1", "libgnutls30", "libp11-kit0", "libffi8", "libidn2-0", "libunistring2", "libtasn1-6"),
    *("libnettle8", "libhogweed6", "libgmp10", "libuuid1"),
)
"""PostgreSQL and the libraries that it is linked with; its compiler of queries, with LLVM, is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of one layer."""

    name: str
    settings: Mapping[str, Any]
    packages: tuple[str, ...] = ()
    has_workload: bool = False
    """Whether it contains our own program."""
    links: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts by path; they are executable."""


TOOLS = {f"bin/{name}": "busybox" for name in BUSYBOX}
USERS = {"etc/passwd": f"root:x:0:0::/:/bin/sh\npostgres:x:{POSTGRES_USER}:{POSTGRES_USER}::/tmp:/bin/sh\n"}
IMAGES = (
    Image(name="pause", settings={"Entrypoint": ["/bin/workload", "pause"]}, has_workload=True),
    Image(
        name="workload",
        settings={"Entrypoint": ["/bin/workload"], "Env": ["PATH=/bin"]},
        packages=("busybox-static",),
        has_workload=True,
        links=TOOLS,
        files=USERS,
    ),
    Image(
        name="postgres",
        settings={
            "Entrypoint": ["/bin/start"],
            "Env": [f"PATH={POSTGRES}:/bin", "PGDATA=/data/postgres", "PGHOST=/tmp", "PGUSER=postgres"],
            "User": f"{POSTGRES_USER}:{POSTGRES_USER}",
        },
        packages=POSTGRES_PACKAGES,
        links=TOOLS,
        files={**USERS, "bin/start": START_POSTGRES},
    ),
)


def ensure() -> dict[str, Path]:
    """By name the archives of all images; builds what is missing."""
    program = go_programs.build_go_program(Program(name="workload", module=places.HERE / "workload", package="."))
    archives = {}
    for image in IMAGES:
        parts = [repr(image).encode(), program.read_bytes() if image.has_workload else b""]
        archives[image.name] = ensure_one(image.name, parts, functools.partial(build, image, program))
    archives["hearth"] = ensure_one("hearth", read_sources(), build_hearth)
    return {f"{REGISTRY}/{name}": path for name, path in archives.items()}


def ensure_one(name: str, parts: Iterable[bytes], make: Callable[[Path], Path]) -> Path:
    """The archive of one image; builds it unless the cache has it of the same parts. make: returns its layout."""
    digest = hashlib.sha256(b"\0".join([Path(__file__).read_bytes(), *parts])).hexdigest()[:16]
    kept = places.cache() / "node-images" / name / f"{digest}.tar"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with progress.step(f"building the image {name}"), tempfile.TemporaryDirectory(dir=kept.parent) as work:
            archive = Path(work, "image.tar")
            with tarfile.open(archive, "w") as tar:
                tar.add(make(Path(work)), arcname=".")
            for stale in kept.parent.glob("*.tar"):
                stale.unlink()
            archive.rename(kept)
    return kept


def build(image: Image, program: Path, work: Path) -> Path:
    """Return the layout of an image of one layer."""
    architecture = image_build.find_native()
    root, layout = work / "root", Layout(work / "oci")
    for place_ in ("tmp", "bin", "data"):
        (root / place_).mkdir(parents=True)
    if image.packages:
        cache = places.cache() / "node-images" / image.name / "packages"
        cache.mkdir(parents=True, exist_ok=True)
        for package in image_debian.fetch(architecture, cache, names=image.packages):
            image_debian.run(["dpkg-deb", "--extract", str(package.file), str(root)], root, os.environ)
    for name in LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    if image.has_workload:
        shutil.copy(program, root / "bin" / program.name)
    for path, target in image.links.items():
        if not (root / path).exists():
            (root / path).symlink_to(target)
    for path, text in image.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    layout.create()
    layout.finish([layout.add_manifest([layout.add_layer(root)], architecture, image.settings)], VERSION)
    return layout.folder


def read_sources() -> list[bytes]:
    """Everything that Hearth's image is made of in this checkout."""
    sources = [*(image_wheels.ROOT / "operator").rglob("*.py"), *(image_wheels.ROOT / "manifests/image").glob("*.py")]
    sources += [image_wheels.ROOT / "pyproject.toml", image_wheels.ROOT / "requirements.lock"]
    return [b"%b %b" % (str(path).encode(), path.read_bytes()) for path in sorted(sources)]


def build_hearth(work: Path) -> Path:
    """Return the layout of Hearth's image for this machine, as `make image` writes it."""
    image_build.build(work / "hearth", image_build.fetch([image_build.find_native()]))
    return work / "hearth" / "oci"


HEARTH = f"{REGISTRY}/hearth:{hearth.__version__}"
WORKLOAD, DATABASE = (f"{REGISTRY}/{name}:{VERSION}" for name in ("workload", "postgres"))
