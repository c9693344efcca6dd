"""The parts of a page that change by themselves: the list, or head, picture and notes of one Stack."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias
from urllib import parse

from hearth.cli.page import actions, rendering, shown_stack
from hearth.cli.page.rendering import Renderer
from hearth.cli.page.stack_source import StackSource
from hearth.cli.stack_views.graph import svg_drawing
from hearth.cli.stack_views.graph.folding import Node
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import value_class
from hearth.model.kinds import Kind

Parts: TypeAlias = "Mapping[str, Part]"
"""By id, in the order of the page."""
VERSION_BYTES = 8
EXPANDED_AT_ONCE = 4
"""Layers that one click on a folded run expands."""


@value_class.dataclass(frozen=True, slots=True)
class Part:
    """One part: its HTML, and a digest of it."""

    html: str
    version: str


def make_part(html: str) -> Part:
    """Return a part with its digest."""
    return Part(html, hashlib.blake2b(html.encode(errors="replace"), digest_size=VERSION_BYTES).hexdigest())


class PartRenderer:
    """Renders the parts from what the cluster holds now."""

    def __init__(self, source: StackSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    async def make_list(self) -> Parts:
        """Return the list of Stacks. Raises ApiStatusError and Unreachable."""
        shown = shown_stack.describe_all(await self._source.list())
        return {"stacks": self._render("part_stacks.html", {"stacks": shown, "namespace": self._source.namespace})}

    async def make_stack(self, kind: Kind, namespace: str, name: str, layers: Collection[int]) -> Parts:
        """Return the parts of one Stack; layers: those that are not folded. Raises ApiStatusError and Unreachable."""
        snapshot = await self._source.read(kind, namespace, name)
        if snapshot is None:
            return {"head": self._render("part_gone.html", {"name": name})}
        # Large Stacks take half a second, in which other requests are answered.
        return await asyncio.to_thread(self._render_stack, snapshot, f"{kind.plural}/{namespace}/{name}", layers)

    def _render_stack(self, snapshot: StackObjects, path: str, layers: Collection[int]) -> Parts:
        shown = shown_stack.describe_graph(snapshot, expanded=layers)
        values = shown_stack.to_values(shown) | {"path": path}
        picture = svg_drawing.draw(
            shown.picture,
            title=f"Resources of {shown.view.title}",
            link=lambda node: self._link(path, node, layers),
        )
        offered = {"actions": actions.list_for(snapshot.stack)}
        return {
            "head": self._render("part_head.html", values),
            "actions": self._render("part_actions.html", values | offered),
            "graph": self._render("part_graph.html", values | {"picture": rendering.mark_safe(picture)}),
            "notes": self._render("part_notes.html", values),
        }

    def _link(self, path: str, node: Node, layers: Collection[int]) -> str:
        """Return the address of a node: its details, or the page with its layer expanded."""
        root = f"{self._renderer.root}{path}"
        if node.layers is None:
            return f"{root}/resource?{parse.urlencode({'resource': node.resource, 'object': node.detail})}"
        first, last = node.layers
        return f"{root}?layers={shown_stack.write_layers({*layers, *range(first, min(last, first + EXPANDED_AT_ONCE - 1) + 1)})}"

    def _render(self, template: str, values: Mapping[str, Any]) -> Part:
        return make_part(self._renderer.render(template, values))
