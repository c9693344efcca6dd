"""Finds literal values of Secrets in a template, which anyone who can read the Stack or its revisions can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.model import object_fields
from hearth.model.text import enumeration, redaction
from hearth.template.text import error_hints, interpolation

PARTS: Final = ("data", "stringData")
PUBLIC: Final = frozenset({"ca.crt", "tls.crt"})
"""Keys of certificates, which every server shows."""


def is_secret(manifest: Any) -> bool:
    """Return whether a manifest is a Secret."""
    return object_fields.text(manifest, "apiVersion") == "v1" and object_fields.text(manifest, "kind") == "Secret"


def find_warnings(template: Any, path: str = "spec.template") -> Iterator[str]:
    """Yield a sentence for each Secret with literal values, also in nested Stacks. template: of any shape; path: its place."""
    for name, resource in object_fields.mapping(template, "resources").items():
        manifest = object_fields.find(resource, "manifest")
        where = f"{path}.resources{error_hints.write_key(str(name))}.manifest"
        if is_secret(manifest):
            for part in PARTS:
                keys = [
                    str(key) for key, value in object_fields.mapping(manifest, part).items() if is_literal(key, value)
                ]
                if keys:
                    yield (
                        f"{where}.{part}: has the literal value of {enumeration.enumerate_names(keys)}, which every reader of "
                        "the Stack or its revisions sees; write ${params.NAME} with a parameter that is sensitive: true, "
                        "and set it with spec.parametersFrom"
                    )
        nested = object_fields.find(manifest, "spec", "template")
        if isinstance(nested, dict):
            yield from find_warnings(nested, f"{where}.spec.template")


def is_literal(key: Any, value: Any) -> bool:
    """Return whether an entry of a Secret is a value and not an expression."""
    is_value = isinstance(value, str) and bool(value)
    has_expression = is_value and interpolation.has_expressions(value.replace(interpolation.LITERAL_OPENING, ""))
    return is_value and not has_expression and key not in PUBLIC and not redaction.is_mask(value)


def hide(value: Any) -> Any:
    """Return a definition with every literal value of a Secret replaced, at any depth."""
    if isinstance(value, list):
        return [hide(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    hidden = {key: hide(each) for key, each in value.items()}
    if is_secret(value):
        for part in PARTS:
            entries = object_fields.mapping(value, part)
            if entries:
                hidden[part] = {
                    key: redaction.SENSITIVE if is_literal("", each) else each for key, each in entries.items()
                }
    return hidden
