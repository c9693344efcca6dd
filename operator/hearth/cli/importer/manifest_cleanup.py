"""Conversion of one manifest to a template: removes what a server added, and escapes expressions.

Must not know where the manifest comes from, nor the other manifests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.cli.importer import cluster_scoped_kinds, server_values, withheld_values
from hearth.model import names
from hearth.model.child import Object
from hearth.template.parser import template_parser
from hearth.template.text import error_hints, interpolation

ADDED: Final = frozenset({*template_parser.SERVER_FIELDS, "generateName"})
"""Fields of the metadata that no template may have: applying has no use for the beginning of a name."""
BOOKKEEPING: Final = template_parser.TRACKING_METADATA | {
    "kubectl.kubernetes.io/last-applied-configuration",
    withheld_values.ANNOTATION,
}
"""Labels and annotations in which Hearth and kubectl record what they did; valid for the original object only."""


def clean(manifest: Mapping[str, Any], *, is_cluster_wide: bool = False) -> Object:
    """Return the manifest without what a server added, and with every expression escaped.

    is_cluster_wide: whether objects of its kind have no namespace; the API server ignores a stated one.
    """
    sent = server_values.drop(manifest) if server_values.is_export(manifest) else manifest
    kept = {key: value for key, value in sent.items() if key != "status"}
    is_ours = cluster_scoped_kinds.group_of(kept["apiVersion"]) == names.GROUP
    if isinstance(kept.get("metadata"), dict):
        kept["metadata"] = clean_metadata(kept["metadata"], is_export=sent is not manifest)
        for key in ("name", "namespace"):
            if not kept["metadata"].get(key, ...) or (key == "namespace" and is_cluster_wide):
                kept["metadata"].pop(key, None)
    # The template of a Stack within a Stack holds expressions of its own, which the outer one leaves alone.
    return {key: escape_spec(value) if key == "spec" and is_ours else escape(value) for key, value in kept.items()}


def clean_metadata(metadata: Mapping[str, Any], *, is_export: bool) -> Object:
    """Return the metadata without what a server, kubectl or Hearth added. is_export: whether a server stored it."""
    kept = {key: value for key, value in metadata.items() if key not in ADDED}
    if is_export:
        server_values.drop_keys(kept)
    for word in ("labels", "annotations"):
        stated = kept.get(word)
        if isinstance(stated, dict) and BOOKKEEPING & stated.keys():
            kept[word] = {key: value for key, value in stated.items() if key not in BOOKKEEPING}
        if kept.get(word, ...) in ({}, None):
            # kubectl leaves an empty map where it removed the last key.
            del kept[word]
    return kept


def escape_spec(spec: Any) -> Any:
    """Return the spec of one of Hearth's kinds."""
    if not isinstance(spec, dict):
        return escape(spec)
    return {key: value if key == "template" else escape(value) for key, value in spec.items()}


def escape(value: Any) -> Any:
    """Return `value` with every text escaped, so that a template yields it unchanged; keys are never expressions."""
    match value:
        case str():
            return interpolation.escape(value)
        case list():
            return [escape(item) for item in value]
        case dict():
            return {key: escape(item) for key, item in value.items()}
        case _:
            return value


def find_expression_keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the keys in a clean manifest that a template would take for expressions."""
    match value:
        case list():
            for at, item in enumerate(value):
                yield from find_expression_keys(item, f"{path}[{at}]")
        case dict():
            is_ours = not path and cluster_scoped_kinds.group_of(value["apiVersion"]) == names.GROUP
            for key, item in value.items():
                place = (path + error_hints.write_key(key)).removeprefix(".")
                if interpolation.has_expressions(key):
                    yield place
                if not (is_ours and key == "spec"):
                    yield from find_expression_keys(item, place)
