"""Replacements of sensitive values that stand in a manifest as if they were the values.

Someone copied them from a status, a preview or an export; applied, they would overwrite what they stand for.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.model.errors import Mistake
from hearth.model.text import redaction
from hearth.template.text import error_hints

NEXT_STEP: Final = f"write the value or a parameter, or ${{'{redaction.SENSITIVE}'}} if the very word is meant"
PROSE: Final = frozenset({"description", "title"})
"""Fields that people write for people, as schemas have them."""
SECRET: Final = "Secret"  # noqa: S105 -- a kind


def find_mistakes(manifest: Mapping[str, Any], *, path: str) -> Iterator[Mistake]:
    """Find the mistakes of a manifest at `path`."""
    for place in find_paths(manifest, path=path):
        yield Mistake(path=place, message=f"{redaction.MASKED}; {NEXT_STEP}")


def find_paths(manifest: Mapping[str, Any], *, path: str) -> Iterator[str]:
    """Yield the paths of the replacements in a manifest at `path`; in a Secret also where one is part of a text."""
    is_secret = manifest.get("kind") == SECRET and manifest.get("apiVersion") == "v1"
    for place, text in find_texts(manifest, path):
        if redaction.is_mask(text) or (is_secret and (redaction.has_mask(text) or redaction.has_mask(decode(text)))):
            yield place


def find_texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each text in a value with its path, but for prose."""
    match value:
        case str():
            yield path, value
        case list():
            for at, inner in enumerate(value):
                yield from find_texts(inner, f"{path}[{at}]")
        case dict():
            for key, inner in value.items():
                if not (key in PROSE and isinstance(inner, str)):
                    yield from find_texts(inner, path + error_hints.write_key(str(key)))


def decode(text: str) -> str:
    """Return what a text is in base 64; "" if it is none."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
