"""Positions of nodes and edges. Pure, so that the page and `graph -o svg` show the same picture."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.cli.stack_views.graph import layout
from hearth.cli.stack_views.graph.layout import Layout
from hearth.cli.stack_views.graph.stack_graph import Node, StackGraph
from hearth.cli.stack_views.tree.stack_view import RowState


def make(*columns: str, edges: str = "", replaced: str = "") -> StackGraph:
    """Columns of one-letter nodes; edges as `ab bc`; `replaced` have an obsolete object each."""

    def node(name: str) -> Node:
        old = (Node(id=f"old{name}", title=name, state=RowState.OBSOLETE),) if name in replaced else ()
        return Node(id=name, title=name, state=RowState.READY, replaced=old)

    return StackGraph(
        columns=tuple(tuple(map(node, column)) for column in columns),
        edges=tuple((edge[0], edge[1]) for edge in edges.split()),
    )


def find_boxes(layout: Layout) -> dict[str, tuple[float, float]]:
    return {box.node.id: (box.x, box.y) for box in layout.boxes}


def test_columns_lie_from_left_to_right() -> None:
    boxes = find_boxes(layout.arrange(make("a", "bc", "d", edges="ab ac bd")))

    assert boxes["a"][0] < boxes["b"][0] == boxes["c"][0] < boxes["d"][0]


def test_a_chain_is_a_straight_line() -> None:
    boxes = find_boxes(layout.arrange(make("a", "bwxyz", "c", edges="ab bc")))

    assert boxes["a"][1] == pytest.approx(boxes["b"][1], abs=1)
    assert boxes["b"][1] == pytest.approx(boxes["c"][1], abs=1)


def test_edges_are_untangled() -> None:
    boxes = find_boxes(layout.arrange(make("abc", "def", edges="af be cd")))

    assert boxes["f"][1] < boxes["e"][1] < boxes["d"][1]


def test_a_long_edge_passes_columns_beside_their_nodes() -> None:
    picture = layout.arrange(make("a", "b", "c", edges="ab bc ac"))

    (long,) = [curve for curve in picture.curves if (curve.before, curve.after) == ("a", "c")]
    box = find_boxes(picture)["b"]
    (_, lane), (_, same) = long.points[1:3]
    assert lane == same
    assert not box[1] < lane < box[1] + layout.NODE_HEIGHT


def test_a_replaced_object_lies_beside_its_replacement() -> None:
    boxes = find_boxes(layout.arrange(make("a", "b", edges="ab", replaced="b")))

    assert boxes["oldb"][0] + layout.NODE_WIDTH < boxes["b"][0]
    assert boxes["oldb"][1] == boxes["b"][1]


def test_nothing_is_a_picture_too() -> None:
    picture = layout.arrange(make())

    assert (picture.boxes, picture.curves) == ((), ())
    assert picture.width > 0 < picture.height


@st.composite
def draw_graph(draw: st.DrawFn) -> StackGraph:
    """Any graph of up to five columns, with edges over any number of columns."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    columns = ["".join(itertools.islice(letters, size)) for size in sizes]
    pairs = [f"{a}{b}" for left, right in itertools.combinations(columns, 2) for a in left for b in right]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=15)) if pairs else []
    return make(*columns, edges=" ".join(edges), replaced=draw(st.sampled_from(["", columns[0], columns[-1]])))


@given(draw_graph())
def test_no_two_boxes_overlap_and_all_lie_within(graph: StackGraph) -> None:
    picture = layout.arrange(graph)

    for box in picture.boxes:
        assert 0 <= box.x <= picture.width - layout.NODE_WIDTH
        assert 0 <= box.y <= picture.height - layout.NODE_HEIGHT
    for one, other in itertools.combinations(picture.boxes, 2):
        beside = abs(one.x - other.x) >= layout.NODE_WIDTH
        assert beside or abs(one.y - other.y) >= layout.NODE_HEIGHT + layout.GAP_BELOW - 0.01
    assert {(curve.before, curve.after) for curve in picture.curves} == set(graph.edges)
    assert picture == layout.arrange(graph)


@given(st.lists(st.floats(-500, 500), min_size=1, max_size=8))
def test_places_keep_order_and_gap_and_stay_close_to_what_is_wanted(wanted: list[float]) -> None:
    column = [f"p{index}" for index in range(len(wanted))]
    heights = dict.fromkeys(column, 10.0)
    placed = layout.stack(column, dict(zip(column, wanted, strict=True)), heights, gap=5.0)
    centers = [placed[each] for each in column]

    assert all(below - above >= 15.0 - 1e-6 for above, below in itertools.pairwise(centers))
    cost = sum((at - want) ** 2 for at, want in zip(centers, wanted, strict=True))
    for shift in (-1.0, 1.0):
        assert cost <= sum((at + shift - want) ** 2 for at, want in zip(centers, wanted, strict=True)) + 1e-6


def test_edges_from_one_node_share_their_lanes() -> None:
    columns, routes = layout.add_lanes([["a"], ["b"], ["c", "d"]], [("a", "c"), ("a", "d")])

    assert columns[1] == ["b", "lane:a:1"]
    assert routes == [["a", "lane:a:1", "c"], ["a", "lane:a:1", "d"]]
