"""Builds the images for the tests' node, which are in no registry: Hearth's own image and the programs that tests run.

They are built from Debian packages by the same code as Hearth's image, and cached until their sources change.
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
HEARTH = f"{REGISTRY}/hearth:{hearth.__version__}"
WORKLOAD = f"{REGISTRY}/workload:{VERSION}"
POSTGRES_SERVER, REDIS_SERVER = "docker.io/library/postgres:17", f"{REGISTRY}/redis:{VERSION}"
NGINX = "nginx:1.29"
POSTGRES = "/usr/lib/postgresql/15/bin"
POSTGRES_USER = 999
BUSYBOX = (
    "sh",
    "cat",
    "sleep",
    "ls",
    "wget",
    "nslookup",
    "mkdir",
    "echo",
    "env",
    "rm",
    "test",
    "date",
    "id",
    "kill",
    "chown",
    "chmod",
    "su",
    "timeout",
)
LEFT_OUT = (
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/lintian",
    "usr/lib/postgresql/15/lib/bitcode",
)
START_POSTGRES = """#!/bin/sh
# Like the usual image of PostgreSQL: serve the directory that PGDATA names; set it up first if it is empty.
set -e
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA"
  chown postgres "$PGDATA"
  chmod 700 "$PGDATA"
  exec su postgres -s /bin/sh -- /bin/start
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  method=trust
  if [ -n "$POSTGRES_PASSWORD" ]; then
    method=scram-sha-256
    echo "$POSTGRES_PASSWORD" >/tmp/password
  fi
  initdb --pgdata="$PGDATA" --username=postgres --auth-local=trust --auth-host="$method" \
    ${POSTGRES_PASSWORD:+--pwfile=/tmp/password} --no-sync >/dev/null
  rm -f /tmp/password
  echo "host all all all $method" >>"$PGDATA/pg_hba.conf"
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
"""PostgreSQL and its linked libraries, without its JIT compiler, which needs LLVM."""
REDIS_PACKAGES = (
    *(
        "redis-server",
        "redis-tools",
        "busybox-static",
        "libc6",
        "libgcc-s1",
        "libstdc++6",
        "libatomic1",
        "libjemalloc2",
    ),
    *(
        "liblzf1",
        "libssl3",
        "libsystemd0",
        "libgcrypt20",
        "libgpg-error0",
        "libcap2",
        "liblzma5",
        "libzstd1",
        "liblz4-1",
    ),
)
"""Redis and its linked libraries."""
NGINX_PACKAGES = ("nginx", "nginx-common", "busybox-static", "libc6", "libcrypt1", "libpcre2-8-0", "libssl3", "zlib1g")
"""nginx and its linked libraries."""
NGINX_SETTINGS = """user root;
daemon off;
pid /tmp/nginx.pid;
error_log /dev/stderr;
events {}
http {
  include mime.types;
  access_log off;
  server {
    listen 80;
    root /usr/share/nginx/html;
  }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of one layer."""

    name: str
    settings: Mapping[str, Any]
    tag: str = VERSION
    packages: tuple[str, ...] = ()
    program: str = ""
    """Our own program that it contains, by the name of its module."""
    links: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts by path; they are executable."""


TOOLS = {f"bin/{name}": "busybox" for name in BUSYBOX}
USERS = {"etc/passwd": f"root:x:0:0::/:/bin/sh\npostgres:x:{POSTGRES_USER}:{POSTGRES_USER}::/tmp:/bin/sh\n"}
IMAGES = (
    Image(name=f"{REGISTRY}/pause", settings={"Entrypoint": ["/bin/workload", "pause"]}, program="workload"),
    Image(
        name=f"{REGISTRY}/workload",
        settings={"Entrypoint": ["/bin/workload"], "Env": ["PATH=/bin"]},
        packages=("busybox-static",),
        program="workload",
        links=TOOLS,
        files=USERS,
    ),
    *(
        Image(
            name=f"{REGISTRY}/store",
            tag=tag,
            settings={"Cmd": ["store"], "Env": ["PATH=/bin", f"VERSION={tag}"]},
            program="store",
        )
        for tag in ("1.4", "1.5")
    ),
    Image(
        # The name that manifests/examples/three-tier.yaml has; Debian's version differs.
        name="docker.io/library/postgres",
        tag="17",
        settings={
            "Entrypoint": ["/bin/start"],
            "Env": [f"PATH={POSTGRES}:/bin", "PGDATA=/var/lib/postgresql/data", "PGHOST=/tmp", "PGUSER=postgres"],
        },
        packages=POSTGRES_PACKAGES,
        links=TOOLS,
        files={**USERS, "bin/start": START_POSTGRES},
    ),
    Image(
        name=f"{REGISTRY}/redis",
        settings={"Entrypoint": ["/usr/bin/redis-server"], "Env": ["PATH=/usr/bin:/bin"]},
        packages=REDIS_PACKAGES,
        links=TOOLS,
        files=USERS,
    ),
    Image(
        # The name that the tutorial and manifests/examples/collection.yaml have; Debian's version differs.
        name="docker.io/library/nginx",
        tag="1.29",
        settings={"Entrypoint": ["/usr/sbin/nginx"], "Env": ["PATH=/usr/sbin:/bin"]},
        packages=NGINX_PACKAGES,
        links=TOOLS,
        files={**USERS, "etc/group": "root:x:0:\n", "etc/nginx/nginx.conf": NGINX_SETTINGS},
    ),
)


def ensure() -> dict[str, Path]:
    """Return the archives of all images by name and tag; missing images are built."""
    programs = {
        name: go_programs.build_go_program(Program(name=name, module=places.HERE / name, package="."))
        for name in sorted({image.program for image in IMAGES if image.program})
    }
    archives = {}
    for image in IMAGES:
        program = programs.get(image.program)
        parts = [repr(image).encode(), program.read_bytes() if program else b""]
        name = f"{image.name}:{image.tag}"
        archives[name] = ensure_one(name, parts, functools.partial(build, image, program))
    archives[HEARTH] = ensure_one(HEARTH, read_sources(), build_hearth)
    return archives


def ensure_one(name: str, parts: Iterable[bytes], make: Callable[[Path], Path]) -> Path:
    """Return the archive of one image; builds it unless it is cached with the same parts. make: returns its layout."""
    digest = hashlib.sha256(b"\0".join([Path(__file__).read_bytes(), *parts])).hexdigest()[:16]
    kept = find_cache(name) / f"{digest}.tar"
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


def find_cache(name: str) -> Path:
    """The folder of an image: its archive, and the packages that it is made of."""
    return places.cache() / "node-images" / name.rpartition("/")[2].replace(":", "-")


def build(image: Image, program: Path | None, work: Path) -> Path:
    """Return the layout of an image of one layer."""
    architecture = image_build.find_native()
    root, layout = work / "root", Layout(work / "oci")
    for place_ in ("tmp", "bin", "data"):
        (root / place_).mkdir(parents=True)
    if image.packages:
        cache = find_cache(f"{image.name}:{image.tag}") / "packages"
        cache.mkdir(parents=True, exist_ok=True)
        for package in image_debian.fetch(architecture, cache, names=image.packages):
            image_debian.run(["dpkg-deb", "--extract", str(package.file), str(root)], root, os.environ)
    for name in LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    if program is not None:
        shutil.copy(program, root / "bin" / program.name)
    for path, target in image.links.items():
        if not (root / path).exists():
            (root / path).symlink_to(target)
    for path, text in image.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    layout.create()
    layout.finish([layout.add_manifest([layout.add_layer(root)], architecture, image.settings)], image.tag)
    return layout.folder


def read_sources() -> list[bytes]:
    """The sources of Hearth's image in this checkout."""
    sources = [*(image_wheels.ROOT / "operator").rglob("*.py"), *(image_wheels.ROOT / "manifests/image").glob("*.py")]
    sources += [image_wheels.ROOT / "pyproject.toml", image_wheels.ROOT / "requirements.lock"]
    return [b"%b %b" % (str(path).encode(), path.read_bytes()) for path in sorted(sources)]


def build_hearth(work: Path) -> Path:
    """Return the layout of Hearth's image for this machine, as `make image` writes it."""
    image_build.build(work / "hearth", image_build.fetch([image_build.find_native()]))
    return work / "hearth" / "oci"
