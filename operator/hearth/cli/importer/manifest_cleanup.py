"""One manifest as a template holds it: what a server added is left out, and nothing in it reads as an expression.

Must not know where the manifest comes from, nor what else is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.cli.importer import cluster_scoped_kinds
from hearth.model import names
from hearth.model.child import Object
from hearth.template.parser import template_parser
from hearth.template.text import interpolation

ADDED: Final = frozenset(template_parser.SERVER_FIELDS)
BOOKKEEPING: Final = template_parser.TRACKING_METADATA | {"kubectl.kubernetes.io/last-applied-configuration"}
"""Labels and annotations in which Hearth and kubectl remember what they applied; true of the original alone."""


def clean(manifest: Mapping[str, Any]) -> Object:
    """The manifest without what a server added, every text in it meaning itself."""
    kept = {key: value for key, value in manifest.items() if key != "status"}
    is_ours = cluster_scoped_kinds.group_of(kept["apiVersion"]) == names.GROUP
    if isinstance(kept.get("metadata"), dict):
        kept["metadata"] = clean_metadata(kept["metadata"])
    # The template of a Stack within a Stack holds expressions of its own, which the outer one leaves alone.
    return {key: escape_spec(value) if key == "spec" and is_ours else escape(value) for key, value in kept.items()}


def clean_metadata(metadata: Mapping[str, Any]) -> Object:
    """The metadata without what a server, kubectl or Hearth added."""
    kept = {key: value for key, value in metadata.items() if key not in ADDED}
    for word in ("labels", "annotations"):
        stated = kept.get(word)
        if isinstance(stated, dict) and BOOKKEEPING & stated.keys():
            kept[word] = {key: value for key, value in stated.items() if key not in BOOKKEEPING}
    return kept


def escape_spec(spec: Any) -> Any:
    """The spec of a kind of Hearth's own."""
    if not isinstance(spec, dict):
        return escape(spec)
    return {key: value if key == "template" else escape(value) for key, value in spec.items()}


def escape(value: Any) -> Any:
    """`value` with every text in it such that a template gives it back as it is; keys are never expressions."""
    match value:
        case str():
            return interpolation.escape(value)
        case list():
            return [escape(item) for item in value]
        case dict():
            return {key: escape(item) for key, item in value.items()}
        case _:
            return value
