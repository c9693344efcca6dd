"""The script, style sheets and icon of the page, from a table: no part of a request is ever a path."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Final

from hearth.cli.stack_views.graph import svg_drawing
from hearth.model import value_class

TYPES: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
GRAPH_STYLE: Final = "graph.css"
"""The style of the picture, which `kubectl stack graph -o svg` has too."""


@value_class.dataclass(frozen=True, slots=True)
class StaticFile:
    """One file."""

    content: bytes
    content_type: str


@functools.lru_cache(maxsize=8)
def find(name: str) -> StaticFile | None:
    """Return the file of that name, or None."""
    if name == GRAPH_STYLE:
        return StaticFile(svg_drawing.read_style().encode(), "text/css")
    if name not in TYPES:
        return None
    return StaticFile((resources.files("hearth.cli.page") / "static" / name).read_bytes(), TYPES[name])
