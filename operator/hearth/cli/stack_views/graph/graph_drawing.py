"""Draws a graph as SVG, Graphviz or Mermaid.

An SVG file contains its own style. On a page, the page provides the style and each node is a link. Text of objects is
escaped by ElementTree or quoted, and never becomes markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.graph import layout
from hearth.cli.stack_views.graph.layout import Box, Curve, Layout
from hearth.cli.stack_views.graph.stack_graph import Node
from hearth.cli.stack_views.tree import stack_view, tree_view
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState
from hearth.model import members

NAMESPACE: Final = "http://www.w3.org/2000/svg"
TITLE_LENGTH, LINE_LENGTH = 30, 34
"""Characters that fit into a node. Its title has the whole text."""
SIGN_X, TEXT_X = 22.0, 40.0
TITLE_Y, DETAIL_Y, STATE_Y, SIGN_Y = 23.0, 40.0, 57.0, 38.0
ELLIPSIS: Final = "…"
SHORT_KIND: Final = 8
"""Characters that remain of a shortened kind."""
NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot contain even when escaped. ElementTree does not remove them."""
REPLACEMENT: Final = "\ufffd"
COLORS: Final = {
    RowState.READY: "#2e7d32",
    RowState.PROGRESSING: "#f9a825",
    RowState.WAITING: "#9e9e9e",
    RowState.STOPPED: "#ef6c00",
    RowState.FAILED: "#c62828",
    RowState.EXCLUDED: "#bdbdbd",
    RowState.OBSOLETE: "#8e24aa",
    RowState.GONE: "#bdbdbd",
    RowState.FINISHED: "#558b2f",
    RowState.EXTERNAL: "#00838f",
}
ESCAPES: Final = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "#": "#35;", "\\": "#92;"})
"""Mermaid reads HTML and its own codes in labels."""
Link = Callable[[Node], str]


def read_style() -> str:
    """Return the style sheet of the picture."""
    return (resources.files("hearth.cli.stack_views.graph") / "graph.css").read_text()


def to_svg(layout: Layout, *, title: str, link: Link | None = None, prefix: str = "") -> str:
    """Return the picture.

    link: returns the address of a node; without it the picture is a file with its own style; prefix: of the ids of nodes,
    where one document has several pictures.
    """
    size = {"width": f"{layout.width:.0f}", "height": f"{layout.height:.0f}"}
    root = Element("svg", size | {"viewBox": f"0 0 {size['width']} {size['height']}", "class": "graph"})
    if link is None:
        root.set("xmlns", NAMESPACE)
        root.set("role", "img")
        SubElement(root, "title").text = safe_text.one_line(title)
        SubElement(root, "style").text = read_style()
        SubElement(root, "rect", {"class": "ground", **size})
    else:
        root.set("role", "group")
        root.set("aria-label", safe_text.one_line(title))
    draw_arrowhead(root)
    for curve in layout.curves:
        SubElement(root, "path", {"class": "edge", "d": draw_curve(curve), "marker-end": "url(#arrow)"})
    for box in layout.boxes:
        draw_box(root, box, link, prefix)
    drawn = ElementTree.tostring(root, encoding="unicode", short_empty_elements=link is None)
    return NO_XML.sub(REPLACEMENT, drawn)


def draw_arrowhead(root: Element) -> None:
    """Define the end of an edge."""
    attributes = {"id": "arrow", "viewBox": "0 0 8 8", "refX": "8", "refY": "4", "orient": "auto"}
    marker = SubElement(SubElement(root, "defs"), "marker", attributes | {"markerWidth": "8", "markerHeight": "8"})
    SubElement(marker, "path", {"class": "arrowhead", "d": "M0 0 L8 4 L0 8 Z"})


def draw_curve(curve: Curve) -> str:
    """Return the path data of an edge: curves between columns, straight lines within lanes."""
    (x, y), *rest = curve.points
    parts = [f"M{x:.1f} {y:.1f}"]
    for index, (to_x, to_y) in enumerate(rest):
        if index % 2 == 0:
            middle = (x + to_x) / 2
            parts.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        else:
            parts.append(f"L{to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(parts)


def draw_box(root: Element, box: Box, link: Link | None, prefix: str) -> None:
    """Draw one node: its outline and sign by state, and its texts."""
    node = box.node
    attributes = {"class": f"node {node.state}{' folded' if node.count > 1 else ''}", "id": f"node-{prefix}{node.id}"}
    if link is not None:
        attributes |= {"href": link(node), "data-resource": node.resource}
    element = SubElement(root, "g" if link is None else "a", attributes)
    SubElement(element, "title").text = describe(node)
    # A second outline behind the first one looks like a stack of nodes.
    for offset in (4.0, 0.0) if node.count > 1 else (0.0,):
        outline = draw_shape(node.state, box.x + offset, box.y + offset, layout.NODE_WIDTH, layout.NODE_HEIGHT)
        SubElement(element, "path", {"class": "outline", "d": outline})
    draw_texts(element, box)
    if node.breakpoints:
        draw_breakpoint(element, box)
    if box.is_replaced:
        middle, right = box.y + layout.NODE_HEIGHT / 2, box.x + layout.NODE_WIDTH
        line = f"M{right:.1f} {middle:.1f} h{layout.GAP_WITHIN:.1f}"
        SubElement(root, "path", {"class": "replacement", "d": line, "marker-end": "url(#arrow)"})


def draw_texts(element: Element, box: Box) -> None:
    """Draw the sign and the three lines of a node."""
    node = box.node
    lines = (
        ("sign", SIGN_X, SIGN_Y, tree_view.SIGNS[node.state][0].strip()),
        ("name", TEXT_X, TITLE_Y, cut(node.title, TITLE_LENGTH)),
        ("detail", TEXT_X, DETAIL_Y, cut_object(node.detail, LINE_LENGTH)),
        ("state", TEXT_X, STATE_Y, cut(f"{node.state}: {node.note}" if node.note else str(node.state), LINE_LENGTH)),
    )
    for name, x, y, text in lines:
        if text:
            place = {"class": name, "x": f"{box.x + x:.1f}", "y": f"{box.y + y:.1f}"}
            SubElement(element, "text", place).text = text


def draw_breakpoint(element: Element, box: Box) -> None:
    """Draw the sign of a breakpoint at the left edge of a node: two bars, as of a pause."""
    for offset in (-7.0, -1.0):
        place = {"x": f"{box.x + offset:.1f}", "y": f"{box.y + 16:.1f}", "width": "4", "height": "30"}
        SubElement(element, "rect", {"class": "breakpoint", **place})


def describe(node: Node) -> str:
    """Return the whole text of a node: `web, deployment/shop-web: progressing, 1 of 3 pods are ready`."""
    words = f"{', '.join(filter(None, (node.title, node.detail)))}: {node.state}"
    words += f", {node.note}" if node.note else ""
    return words + (f"; stops at {', '.join(node.breakpoints)}" if node.breakpoints else "")


def cut(text: str, length: int) -> str:
    """Return the text, shortened to a number of characters."""
    return text if len(text) <= length else text[: length - 1] + ELLIPSIS


def cut_object(text: str, length: int) -> str:
    """Return `kind/name`, shortened. The kind is shortened first, because names distinguish objects."""
    kind, _, name = text.partition("/")
    if len(text) <= length or not name:
        return cut(text, length)
    return (
        f"{kind[:SHORT_KIND]}{ELLIPSIS}/{name}"[:length]
        if len(name) + SHORT_KIND + 2 <= length
        else f"{ELLIPSIS}{text[1 - length :]}"
    )


# The outline of a node by its state, so that states differ without color. Pure.

CUT: Final = 14.0
"""How far corners are cut or slanted."""
ROUND: Final = 10.0


def draw_shape(state: RowState, x: float, y: float, width: float, height: float) -> str:
    """Return the outline as the data of an SVG path."""
    right, bottom, middle = x + width, y + height, y + height / 2
    # Where the corners are cut.
    inner, outer, upper, lower = x + CUT, right - CUT, y + CUT, bottom - CUT
    match state:
        case RowState.READY | RowState.FINISHED:
            return draw_rounded(x, y, width, height, ROUND)
        case RowState.PROGRESSING:
            return draw_rounded(x, y, width, height, height / 2)
        case RowState.FAILED:
            return draw_polygon((x, middle), (inner, y), (outer, y), (right, middle), (outer, bottom), (inner, bottom))
        case RowState.STOPPED:
            above = (inner, y), (outer, y), (right, upper), (right, lower)
            return draw_polygon(*above, (outer, bottom), (inner, bottom), (x, lower), (x, upper))
        case RowState.EXTERNAL:
            # An arrow that leads into the Stack.
            return draw_polygon((x, y), (outer, y), (right, middle), (outer, bottom), (x, bottom), (inner, middle))
        case RowState.OBSOLETE:
            return draw_polygon((inner, y), (right, y), (outer, bottom), (x, bottom))
        case _:
            return draw_polygon((x, y), (right, y), (right, bottom), (x, bottom))


def draw_polygon(*points: tuple[float, float]) -> str:
    """Return a closed line through these points."""
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points) + " Z"


def draw_rounded(x: float, y: float, width: float, height: float, radius: float) -> str:
    """Return a rectangle with rounded corners."""
    across, down = width - 2 * radius, height - 2 * radius
    corner = f"a{radius:.1f} {radius:.1f} 0 0 1"
    return (
        f"M{x + radius:.1f} {y:.1f} h{across:.1f} {corner} {radius:.1f} {radius:.1f} v{down:.1f} "
        f"{corner} {-radius:.1f} {radius:.1f} h{-across:.1f} {corner} {-radius:.1f} {-radius:.1f} v{-down:.1f} "
        f"{corner} {radius:.1f} {-radius:.1f} Z"
    )


def list_edges(objects: StackObjects, rows: tuple[ResourceRow, ...]) -> Iterator[tuple[int, int]]:
    """Yield for each requirement the positions of the required row and the requiring row."""
    positions = {row.resource: index for index, row in enumerate(rows) if row.state is not RowState.OBSOLETE}
    required = objects.find_requirements()
    for name, index in positions.items():
        for each in required.get(members.root_of(name), ()):
            if each in positions:
                yield positions[each], index


def to_dot(objects: StackObjects) -> Iterator[str]:
    """Yield the lines of a graph for Graphviz."""
    rows = stack_view.describe_rows(objects)
    yield f"digraph {quote_dot(objects.stack.name)} {{"
    yield "  rankdir=LR; node [shape=box, style=rounded];"
    for index, row in enumerate(rows):
        label = quote_dot(f"{row.resource}\n{row.object}\n{row.state}")
        yield f'  n{index} [label={label}, color="{COLORS[row.state]}"];'
    yield from (f"  n{before} -> n{after};" for before, after in list_edges(objects, rows))
    yield "}"


def quote_dot(text: str) -> str:
    """Return a quoted string of Graphviz."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def to_mermaid(objects: StackObjects) -> Iterator[str]:
    """Yield the lines of a flowchart for Mermaid."""
    rows = stack_view.describe_rows(objects)
    yield "flowchart LR"
    for index, row in enumerate(rows):
        label = "<br/>".join(str(part).translate(ESCAPES) for part in (row.resource, row.object, row.state) if part)
        yield f'  n{index}["{label}"]:::{row.state}'
    yield from (f"  n{before} --> n{after}" for before, after in list_edges(objects, rows))
    for state in dict.fromkeys(row.state for row in rows):
        yield f"  classDef {state} stroke:{COLORS[state]},stroke-width:2px"
