"""The Debian packages of the image: Python, and the shared libraries that it and the wheels need.

They are the newest of the release, so each build has the security fixes of its day; the bill of materials names them.
Another archive, as of a snapshot, gives those of another day. apt verifies their signatures. Knows nothing of Python
packages.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RELEASE = "bookworm"
ARCHIVE = "http://deb.debian.org/{}"
"""Where the packages are; `{}` stands for `debian`, or `debian-security`."""
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *("libc6", "libgcc-s1", "libstdc++6", "libexpat1", "libffi8", "libssl3", "libuuid1", "zlib1g", "libbz2-1.0"),
    *("liblzma5", "libcrypt1", "gcc-12-base", "ca-certificates", "base-files"),
)
"""No shell, no package manager, and no library of a module that nothing here imports (curses, readline, dbm, sqlite)."""
UNUSED = (
    *("usr/bin/pdb3.11", "usr/bin/c_rehash", "usr/sbin", "usr/share/man", "usr/share/lintian", "usr/share/bug"),
    *("usr/share/doc-base", "usr/share/menu", "usr/share/pixmaps", "usr/share/applications"),
    *("usr/lib/python3.11/lib2to3", "usr/lib/python3.11/pydoc_data", "usr/lib/x86_64-linux-gnu/gconv"),
    *("usr/lib/aarch64-linux-gnu/gconv", "usr/lib/ssl/misc", "usr/share/dict", "usr/share/base-files", "var/lib"),
)
"""Of these packages, what a server without users, a shell and a package manager does not read."""


class Impossible(Exception):
    """The image cannot be built here; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package as it was downloaded."""

    name: str
    version: str
    architecture: str
    """Of the package: `all` for one without programs."""
    control: str
    """Its paragraph, as scanners of images read it."""
    file: Path


def fetch(architecture: str, folder: Path, archive: str = ARCHIVE, names: Sequence[str] = PACKAGES) -> list[Package]:
    """Download the packages for that architecture, in the newest versions of the archive.

    folder: keeps what did not change.
    """
    if not KEYS.exists():
        raise Impossible(f"no {KEYS}: build the image on Debian or Ubuntu, or by `make image ENGINE=docker`")
    environment = os.environ | {"APT_CONFIG": str(write_configuration(architecture, folder, archive)), "LC_ALL": "C"}
    archives = folder / "archives"
    archives.mkdir(exist_ok=True)
    run(["apt-get", "-qq", "update"], folder, environment)
    # In a folder without them: it leaves out what is there.
    uris = run(["apt-get", "-qq", "download", "--print-uris", *names], folder, environment)
    wanted = {line.split()[1] for line in uris.splitlines()}
    for stale in {path.name for path in archives.glob("*.deb")} - wanted:
        (archives / stale).unlink()
    run(["apt-get", "-qq", "download", *names], archives, environment)
    return sorted((read_package(archives / name) for name in wanted), key=lambda package: package.name)


def write_configuration(architecture: str, folder: Path, archive: str) -> Path:
    """Configuration of an apt of our own, which leaves that of the machine alone."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "state" / "status").touch()
    debian, security = (archive.replace("{}", name) for name in ("debian", "debian-security"))
    suites = (f"{debian} {RELEASE}", f"{debian} {RELEASE}-updates", f"{security} {RELEASE}-security")
    # Lists of a snapshot have expired.
    options = f"signed-by={KEYS}" + (" check-valid-until=no" if archive != ARCHIVE else "")
    sources = [f"deb [{options}] {suite} main\n" for suite in suites]
    (folder / "sources.list").write_text("".join(sources))
    lines = (
        f'Dir::State "{folder}/state";',
        f'Dir::State::status "{folder}/state/status";',
        f'Dir::Cache "{folder}/cache";',
        f'Dir::Etc::sourcelist "{folder}/sources.list";',
        'Dir::Etc::sourceparts "-";',
        f'APT::Architecture "{architecture}";',
        f'APT::Architectures {{ "{architecture}"; }};',
        'APT::Sandbox::User "";',
        'Acquire::Languages "none";',
        'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";',
    )
    path = folder / "apt.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


def read_package(file: Path) -> Package:
    """The package in a file."""
    control = run(["dpkg-deb", "--field", str(file)], file.parent, os.environ)
    fields = dict(re.findall(r"^(Package|Version|Architecture): (.*)$", control, re.MULTILINE))
    return Package(
        name=fields["Package"],
        version=fields["Version"],
        architecture=fields["Architecture"],
        control=control,
        file=file,
    )


def unpack(packages: list[Package], root: Path) -> None:
    """Their files, without what nothing reads; `var/lib/dpkg/status.d` says what is there, as in distroless images."""
    for package in packages:
        run(["dpkg-deb", "--extract", str(package.file), str(root)], root, os.environ)
    for name in UNUSED:
        run(["rm", "-rf", str(root / name)], root, os.environ)
    for folder in (root / "usr/share/doc").iterdir():
        for file in folder.iterdir():
            if file.name != "copyright":
                run(["rm", "-rf", str(file)], root, os.environ)
    status = root / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    for package in packages:
        (status / package.name).write_text(package.control)
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in certificates))


def find_licenses(root: Path, package: Package) -> list[str]:
    """The names of licenses in its copyright file, in order; where that is free text, its path."""
    path = root / "usr/share/doc" / package.name / "copyright"
    text = path.read_text(errors="replace") if path.exists() else ""
    # Others use the same word within sentences.
    is_structured = text.startswith("Format:")
    names = [name.strip() for name in re.findall(r"^License: *(\S.*)$", text, re.MULTILINE) if is_structured]
    return list(dict.fromkeys(names)) or [f"see {path.relative_to(root)}"]


def run(command: list[str], folder: Path, environment: os._Environ[str] | dict[str, str]) -> str:
    """What the command prints. Raises Impossible with its message."""
    done = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Impossible(f"`{' '.join(command[:3])} …` failed: {done.stderr.strip()}")
    return done.stdout
