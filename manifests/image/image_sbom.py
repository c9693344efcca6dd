"""The bill of materials of an image, in CycloneDX 1.6, and its licenses. Source: https://cyclonedx.org/docs/1.6/json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import image_debian
import image_wheels
from image_debian import Package

Bill: TypeAlias = dict[str, Any]


def make(packages: Sequence[Package], wheels: Sequence[Path], root: Path) -> Bill:
    """All that is in the image. root: the folder in which the packages were unpacked."""
    *others, own = [describe_wheel(wheel) for wheel in wheels]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        # No time and no serial number: the same image has the same bill.
        "metadata": {"component": {**own, "type": "application"}},
        "components": [*(describe_package(each, root) for each in packages), *others],
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": sorted(each["bom-ref"] for each in others)}],
    }


def describe_package(package: Package, root: Path) -> Bill:
    """A Debian package."""
    version, architecture = quote(package.version, safe=""), package.architecture
    purl = f"pkg:deb/debian/{quote(package.name, safe='')}@{version}?arch={architecture}&distro=debian-12"
    licenses = [{"license": {"name": name}} for name in image_debian.find_licenses(root, package)]
    return describe(package.name, package.version, purl, package.file, licenses)


def describe_wheel(wheel: Path) -> Bill:
    """A Python package."""
    metadata = image_wheels.read_metadata(wheel)
    name, version = str(metadata["Name"]), str(metadata["Version"])
    stated = [{"license": {"name": image_wheels.find_license(metadata)}}]
    return describe(name, version, f"pkg:pypi/{name.lower().replace('_', '-')}@{version}", wheel, stated)


def describe(name: str, version: str, purl: str, file: Path, licenses: list[Bill]) -> Bill:
    """A component."""
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
        "licenses": licenses,
    }


def make_text(bill: Bill) -> str:
    """The bill as a file."""
    return json.dumps(bill, indent=2) + "\n"


def make_table(bill: Bill) -> str:
    """A line for each component: name, version, licenses."""
    components = [bill["metadata"]["component"], *bill["components"]]
    lines = (
        f"{each['name']} {each['version']}: {', '.join(entry['license']['name'] for entry in each['licenses'])}\n"
        for each in components
    )
    return "".join(lines)
