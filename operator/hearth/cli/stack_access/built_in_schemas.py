"""Schemas of Kubernetes' built-in kinds, for commands that run without a cluster.

`support.real.built_in_schemas` in the tests generates the file. It contains only the parts that validation reads.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from hearth.template.text import error_hints

FILE: Final = Path(__file__).with_name("built_in_schemas.json.gz")


@functools.cache
def read() -> Mapping[str, Any]:
    """Return `version`; `kinds`, the definition of each kind by its key, e.g. `apps/v1/Deployment`; and `definitions`
    by name.
    """
    content: Mapping[str, Any] = orjson.loads(gzip.decompress(FILE.read_bytes()))
    return content


def find_schema(api_version: str, kind: str) -> Mapping[str, Any] | None:
    """Return the schema of a built-in kind; None for any other kind."""
    name = read()["kinds"].get(f"{api_version}/{kind}")
    return find_definition(name) if name is not None else None


def find_definition(reference: str) -> Mapping[str, Any] | None:
    """Return the target of a reference."""
    found: Mapping[str, Any] | None = read()["definitions"].get(reference.rpartition("/")[2])
    return found


def explain_unknown_kind(api_version: str, kind: str) -> str:
    """Explain that Kubernetes does not serve this kind; "" if it does, or if the version may belong to another project."""
    content = read()
    of_version = [each.rpartition("/")[2] for each in content["kinds"] if each.rpartition("/")[0] == api_version]
    if not kind or not of_version or kind in of_version:
        return ""
    if kind == "List" or (kind.endswith("List") and kind.removesuffix("List") in of_version):
        return f"is a {kind}, which is not a single object; write each of its items as a resource"
    hint = error_hints.did_you_mean(kind, of_version)
    return f"is {error_hints.quote(kind)}, which {api_version} of Kubernetes {content['version']} does not have{hint}"
