"""Values that only the run can know: a stand-in takes their place in a manifest, so that the engine can continue.

A stand-in is a word that is valid as a name and a label, and contains a random token, so that no template can contain
one by itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

from hearth.model.field_paths import ElementPath

ROOT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?")
"""The resource in a path as expressions write it."""
DROPPED = object()
"""No value at all."""


class UnknownValues:
    """The stand-ins of one preview, and the objects whose values they stand for."""

    def __init__(self) -> None:
        """Start without stand-ins."""
        token = secrets.token_hex(4)
        self._prefix = f"unknown-{token}-"
        self._pattern = re.compile(rf"{self._prefix}(\d+)x")
        self._texts: dict[str, int] = {}
        self.objects: set[str] = set()
        """UIDs of objects with values that only the run can know: their status is that of an earlier state."""

    def stand_in(self, missing: tuple[str, ...]) -> str:
        """Return the stand-in for a value that needs these paths."""
        roots = dict.fromkeys(match.group() for path in missing if (match := ROOT.match(path)))
        text = f"(known after {' and '.join(roots) or 'the run'} {'are' if len(roots) > 1 else 'is'} ready)"
        number = self._texts.setdefault(text, len(self._texts))
        return f"{self._prefix}{number}x"

    def is_within(self, value: Any) -> bool:
        """Return whether the value contains a stand-in."""
        return next(self.find(value), None) is not None

    def find(self, value: Any, path: ElementPath = ()) -> Iterator[ElementPath]:
        """Yield the paths of all texts with a stand-in."""
        if isinstance(value, str):
            if self._prefix in value:
                yield path
        elif isinstance(value, dict):
            for key, inner in value.items():
                yield from self.find(inner, (*path, key))
        elif isinstance(value, list):
            for at, inner in enumerate(value):
                yield from self.find(inner, (*path, at))

    def explain(self, value: Any) -> Any:
        """Return the value with the sentence for people in place of each stand-in."""
        if isinstance(value, str):
            texts = list(self._texts)
            return self._pattern.sub(lambda found: texts[int(found.group(1))], value) if self._texts else value
        if isinstance(value, dict):
            return {key: self.explain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.explain(inner) for inner in value]
        return value

    def fill(self, value: Any, live: Any) -> Any:
        """Return the value with what `live` has in place of each stand-in; dropped where it has nothing."""
        if isinstance(value, str):
            return (live if live is not None else DROPPED) if self._prefix in value else value
        if isinstance(value, dict):
            found = live if isinstance(live, dict) else {}
            filled = {key: self.fill(inner, found.get(key)) for key, inner in value.items()}
            return {key: inner for key, inner in filled.items() if inner is not DROPPED}
        if isinstance(value, list):
            others = live if isinstance(live, list) and len(live) == len(value) else [None] * len(value)
            return [each for each in map(self.fill, value, others) if each is not DROPPED]
        return value

    def restore(self, value: Any, stated: Any) -> Any:
        """Return the value with the stand-ins of `stated` in their places again."""
        if isinstance(stated, str) and self._prefix in stated:
            return stated
        if isinstance(stated, dict) and self.is_within(stated):
            found = value if isinstance(value, dict) else {}
            return {**found, **{key: self.restore(found.get(key), inner) for key, inner in stated.items()}}
        if isinstance(stated, list) and self.is_within(stated):
            if isinstance(value, list) and len(value) == len(stated):
                return list(map(self.restore, value, stated))
            return stated
        return stated if value is None else value
