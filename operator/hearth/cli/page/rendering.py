"""Renders HTML from the templates of this package: whole pages, parts that update live, and static files.

All values are escaped. The only exception is the SVG graph, which ElementTree escapes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from typing import Any, Final, TypeAlias
from urllib import parse

import jinja2
from markupsafe import Markup

from hearth.cli.page import actions, shown_stack
from hearth.cli.page.shown_plan import WaitingChange
from hearth.cli.page.shown_stack import ShownGraph
from hearth.cli.page.stack_feed import StackFeed
from hearth.cli.page.stack_source import StackSource
from hearth.cli.page.waiting_plans import WaitingPlans
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_views.causes import explanation
from hearth.cli.stack_views.graph import graph_drawing
from hearth.cli.stack_views.graph.stack_graph import Node
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import tree_view
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import value_class

SIGNS: Final = {state: sign.strip() for state, (sign, _) in tree_view.SIGNS.items()}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """The templates, with the values that all pages of one user share."""

    root: str
    """The path under which everything is."""
    action_token: str = ""
    lost_hint: str = ""
    """What to check if the server does not answer."""
    user: str = ""
    """The name of the signed-in user. "" on a page with a single user."""
    can_sign_out: bool = False
    """Whether this page holds the token in its cookie."""
    sign_out_path: str = ""
    """Where the authenticating proxy signs a user out; "" if that is unknown."""
    is_read_only: bool = False

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a template with these values."""
        shared = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return self.find_template(template).render({**shared, **values})

    def find_template(self, name: str) -> jinja2.Template:
        """Return a template, for values that are drawn often."""
        return load_templates().get_template(name)


@functools.cache
def load_templates() -> jinja2.Environment:
    """Return the environment of all templates. It holds no data of any user."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hearth.cli.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["signs"] = SIGNS
    environment.filters["times"] = explanation.describe_times
    return environment


def make_path(location: StackLocation) -> str:
    """Return the address of an object's page under the root."""
    return shown_stack.make_path(location.kind, location.namespace, location.name)


# The parts of a page that update live: the list, or head, picture and notes of one Stack.

Parts: TypeAlias = "Mapping[str, Part]"
"""By id, in the order of the page."""
VERSION_BYTES = 8
EXPANDED_AT_ONCE = 4
"""Number of layers that one click on a folded run expands."""


@value_class.dataclass(frozen=True, slots=True)
class Part:
    """One part: its HTML, and a digest of it."""

    html: str
    version: str


def make_part(html: str) -> Part:
    """Return a part with its digest."""
    return Part(html, hashlib.blake2b(html.encode(errors="replace"), digest_size=VERSION_BYTES).hexdigest())


class PartRenderer:
    """Renders the parts from the cluster's present state."""

    def __init__(self, source: StackSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer
        self._waiting_plans = WaitingPlans(source.session)

    async def find_feed(self, namespace: str) -> StackFeed:
        """Return the list of Stacks of a namespace, "" for all. Raises MemoryInUse."""
        template = self._renderer.find_template("part_row.html")

        def draw(stack: StackState) -> bytes:
            values = {"root": self._renderer.root, "stack": shown_stack.describe(stack), "namespace": namespace}
            return template.render(values).encode(errors="replace")

        return await self._source.find_feed(namespace, draw)

    def render_list(self, rows: Sequence[bytes], namespace: str) -> Parts:
        """Return the list with these rows."""
        drawn = Markup(b"".join(rows).decode())  # noqa: S704 -- a template drew them
        values = {"rows": drawn, "namespace": namespace, "is_only": bool(self._source.namespace)}
        return {"stacks": self._render("part_stacks.html", values)}

    async def make_stack(self, location: StackLocation, layers: Collection[int]) -> Parts:
        """Return the parts of one Stack. layers: the unfolded ones. Raises ApiStatusError and Unreachable."""
        snapshot = await self._source.read(location)
        if snapshot is None:
            return {"head": self._render("part_gone.html", {"name": location.name})}
        has_snapshot = await self._source.has_snapshot(snapshot.stack)
        waiting = await self._waiting_plans.find(snapshot.stack)
        # Large Stacks take half a second, while other requests are answered.
        return await asyncio.to_thread(
            self._render_stack, snapshot, make_path(location), layers, has_snapshot=has_snapshot, waiting=waiting
        )

    def _render_stack(
        self,
        objects: StackObjects,
        path: str,
        layers: Collection[int],
        *,
        has_snapshot: bool,
        waiting: WaitingChange | None,
    ) -> Parts:
        shown = shown_stack.describe_graph(objects, expanded=layers)
        values = {
            "stack": shown.stack,
            "view": shown.view,
            "breakpoints": shown.breakpoints,
            "folds": layers,
            "path": path,
            "waiting": waiting,
        }
        refusals = actions.find_refusals(objects.stack, has_snapshot=has_snapshot)
        offered = {"actions": actions.list_for(objects.stack), "refusals": refusals}
        return {
            "head": self._render("part_head.html", values),
            "actions": self._render("part_actions.html", values | offered),
            "graph": self._render("part_graph.html", values | {"picture": self._draw(shown, path, layers)}),
            "notes": self._render("part_notes.html", values),
        }

    def draw_nested(self, objects: StackObjects, path: str) -> dict[str, Any]:
        """Return the state and the picture of a nested Stack, for the details of its resource."""
        shown = shown_stack.describe_graph(objects, expanded=())
        picture = self._draw(shown, path, (), prefix=f"{shown.stack.title}-")
        return {"nested": shown.stack, "nested_picture": picture}

    def _draw(self, shown: ShownGraph, path: str, layers: Collection[int], *, prefix: str = "") -> Markup:
        """Return the picture, whose texts are escaped, as markup. prefix: of the ids of its nodes."""
        title, link = f"Resources of {shown.view.title}", lambda node: self._link(path, node, layers)
        picture = graph_drawing.to_svg(shown.layout, title=title, link=link, prefix=prefix)
        return Markup(picture)  # noqa: S704 -- ElementTree wrote it

    def _link(self, path: str, node: Node, layers: Collection[int]) -> str:
        """Return the address of a node: its details, or the page with its layer expanded."""
        root = f"{self._renderer.root}{path}"
        if node.layers is None:
            return f"{root}/resource?{parse.urlencode({'resource': node.resource, 'object': node.detail})}"
        first, last = node.layers
        return f"{root}?layers={shown_stack.write_layers({*layers, *range(first, min(last, first + EXPANDED_AT_ONCE - 1) + 1)})}"

    def _render(self, template: str, values: Mapping[str, Any]) -> Part:
        return make_part(self._renderer.render(template, values))


# The script, style sheets and icon of the page, from a table: no part of a request is ever a path.

TYPES: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
GRAPH_STYLE: Final = "graph.css"
"""The style of the picture, which `kubectl stack graph -o svg` has too."""


@functools.lru_cache(maxsize=8)
def find_static(name: str) -> tuple[bytes, str] | None:
    """Return content and content type of the file with that name, or None."""
    if name == GRAPH_STYLE:
        return graph_drawing.read_style().encode(), "text/css"
    if name not in TYPES:
        return None
    return (resources.files("hearth.cli.page") / "static" / name).read_bytes(), TYPES[name]
