"""Validates a manifest's metadata: field types, and a name and namespace that are safe in a URL.

Expressions may return a value of any type, and a name becomes part of a request path. Other naming rules depend on the
kind; the API server checks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hearth.model import limits
from hearth.model.errors import Mistake
from hearth.template.text import error_hints

SEGMENT = re.compile(r"[^/%\x00-\x1f\x7f]+")
"""The characters of a name that is one segment of a path. The API server decodes `%2F`, and interprets `/` as a
subresource."""
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
TEXT_MAPS = ("labels", "annotations")
OR_CONVERT = ", or write string(…) in the expression"
"""The end of a message about a value that an expression may have given."""
INVALID_NAME = "InvalidName"
INVALID_METADATA = "InvalidMetadata"
RELATIVE = frozenset({".", ".."})


def find_mistakes(metadata: Any, *, path: str) -> Iterator[Mistake]:
    """Find the errors in evaluated metadata; missing or null values are valid. path: the path of the metadata."""
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield Mistake(path=path, message=f"must be a map, found {error_hints.describe(metadata)}")
        return
    yield from find_mistakes_in_names(metadata, path=path)
    for key in TEXT_MAPS:
        yield from find_mistakes_in_texts(metadata.get(key), path=f"{path}.{key}")


def find_mistakes_in_names(metadata: Mapping[str, Any], *, path: str) -> Iterator[Mistake]:
    """Find the errors in the name and the namespace."""
    for key, object_to in (("name", object_to_name), ("namespace", object_to_namespace)):
        value = metadata.get(key)
        if value is not None and (objection := object_to(value)):
            yield Mistake(path=f"{path}.{key}", message=objection)


def find_mistakes_in_texts(texts: Any, *, path: str) -> Iterator[Mistake]:
    """Find the errors in a map of strings. Errors do not quote the values, which may be sensitive."""
    if texts is None:
        return
    if not isinstance(texts, Mapping):
        yield Mistake(path=path, message=f"must be a map of texts, found {name_type(texts)}")
        return
    for key, value in texts.items():
        if value is not None and not isinstance(value, str):
            message = f"must be text, found {name_type(value)}; put it in quotes{OR_CONVERT}"
            yield Mistake(path=path + error_hints.write_key(key), message=message)


def find_reason(mistake: Mistake) -> str:
    """Return the reason of an error for the status."""
    return INVALID_NAME if mistake.path.endswith((".name", ".namespace")) else INVALID_METADATA


def object_to_name(name: Any) -> str:
    """Return why the value is not a valid object name, or "" if it could be one."""
    if not isinstance(name, str):
        return f"must be text, found {error_hints.describe(name)}; put it in quotes{OR_CONVERT}"
    if not name:
        return "must not be empty; set a name, or omit it"
    if len(name) > limits.NAME_LENGTH:
        return f"must have {limits.NAME_LENGTH} characters at most, found {len(name)}; shorten it"
    if name in RELATIVE or not SEGMENT.fullmatch(name):
        return (
            f"must not be . or .., or contain /, % or control characters, found {error_hints.describe(name)}; rename it"
        )
    return ""


def object_to_namespace(namespace: Any) -> str:
    """Return why the value is not a valid namespace name, or "" if it could be one."""
    objection = object_to_name(namespace)
    if objection or NAMESPACE.fullmatch(namespace):
        return objection
    found = error_hints.describe(namespace)
    return f"must be 63 lower-case letters, digits or dashes at most, found {found}; name an existing namespace"


def name_type(value: Any) -> str:
    """Return the type of a value, without the value."""
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
    return error_hints.describe(value)
