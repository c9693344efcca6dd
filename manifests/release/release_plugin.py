"""The kubectl plugin with its own Python, for Linux, and its manifest for krew.

Python, the C library and its loader come from the Debian packages of the image, so the plugin needs no Python and no
version of the C library on the machine. The machine that builds it needs no other architecture to run.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import build as image_build
import image_layout
import image_sbom
import release_files
import yaml
from build import Parts

LIBRARIES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
"""Debian's name of the folders that contain shared libraries."""
LOADERS = {"amd64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}
KEPT = ("etc", "lib", "usr")
"""Folders of the image that the plugin contains."""
ADDRESS = "https://downloads.example/hearth"
"""Where krew downloads the plugin: a host that does not exist, until the person who publishes a release replaces it."""

PYTHON = """\
#!/bin/sh
# Python with the loader and the libraries of this folder. Python starts further processes through this file too.
root=${{0%/usr/bin/python3}}
exec "$root/lib/{libraries}/{loader}" --library-path "$root/lib/{libraries}:$root/usr/lib/{libraries}" \\
    --argv0 "$0" "$root/usr/bin/python3.11" "$@"
"""
PROGRAM = """\
#!/bin/sh
# The folder of this file may be anywhere, and the file may be called through a symbolic link, as krew creates it.
root=$(dirname "$(readlink -f "$0")")/python
# OpenSSL looks for the certificates of public authorities where Debian has them.
for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt "$root/etc/ssl/certs/ca-certificates.crt"; do
    [ -z "${SSL_CERT_FILE:-}" ] && [ -r "$file" ] && export SSL_CERT_FILE="$file"
done
exec "$root/usr/bin/python3" -I -c 'from hearth import __main__; __main__.FUNCTION()' "$@"
"""
PROGRAMS = {"kubectl-stack": "kubectl_stack", "kubectl_complete-stack": "complete_kubectl_stack"}
"""Functions that run the programs of the plugin."""
CAVEATS = """\
To complete `kubectl stack` in your shell, set up the completion of kubectl, and run:
  ln -s "${{KREW_ROOT:-$HOME/.krew}}/store/stack/v{version}/kubectl_complete-stack" "${{KREW_ROOT:-$HOME/.krew}}/bin/"
"""
DESCRIPTION = """\
Shows Stacks with their resources as trees, explains why a Stack is not ready, previews changes, and controls Stacks:
retry, rollback, snapshots, rollouts and more. It works with your own credentials.
"""


def write_plugin(output: Path, folder: Path, architecture: str, parts: Parts, own: Path, seconds: int) -> None:
    """Write the plugin as an archive.

    folder: an empty one. parts: with the wheels of the plugin. own: the wheel of Hearth. seconds: time of the files.
    """
    content = folder / "content"
    root = content / "python"
    wheels = [*parts.wheels, own]
    image_build.fill_base(root, parts.packages)
    bill = image_sbom.make(parts.packages, wheels, root)
    image_build.fill_packages(folder / "packages", wheels)
    shutil.copytree(folder / "packages", root, dirs_exist_ok=True)
    for path in root.iterdir():
        if path.name not in KEPT:
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
    replace_links(root)
    (content / "sbom.cdx.json").write_text(image_sbom.make_text(bill))
    programs = {
        "python/usr/bin/python3": PYTHON.format(libraries=LIBRARIES[architecture], loader=LOADERS[architecture]),
        **{name: PROGRAM.replace("FUNCTION", function) for name, function in PROGRAMS.items()},
    }
    for name, text in programs.items():
        (content / name).write_text(text)
        (content / name).chmod(0o755)
    release_files.copy_tracked(release_files.PAPERS, content)
    image_layout.set_modes(content)
    release_files.write_archive(output, content, seconds)


def replace_links(root: Path) -> None:
    """Replace symbolic links to files below `root` by the files, and remove other links. krew refuses links."""
    root = root.resolve()
    for path in [each for each in root.rglob("*") if each.is_symlink()]:
        target = path.resolve()
        path.unlink()
        if target.is_relative_to(root) and target.is_file():
            shutil.copy(target, path)


def make_krew_manifest(version: str, digests: Mapping[str, str]) -> str:
    """The manifest that krew installs the plugin from. digests: SHA-256 of the archive of each architecture."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
            "uri": f"{ADDRESS}/v{version}/kubectl-stack-{version}-linux-{architecture}.tar.gz",
            "sha256": digest,
            "bin": "kubectl-stack",
        }
        for architecture, digest in sorted(digests.items())
    ]
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "stack"},
        "spec": {
            "version": f"v{version}",
            "homepage": "https://hearth.dev",
            "shortDescription": "Inspect and control Stacks of Hearth",
            "description": DESCRIPTION,
            "caveats": CAVEATS.format(version=version),
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False)
