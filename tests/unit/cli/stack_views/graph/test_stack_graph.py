"""A Stack's graph: layers, replaced objects, breakpoints and folded nodes; its drawings never treat text as markup."""

from __future__ import annotations

import itertools
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from hearth.cli.stack_views.graph import graph_drawing, layout, stack_graph
from hearth.cli.stack_views.graph.stack_graph import Node, StackGraph
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.cli.stack_views.tree.stack_view import RowState
from hearth.model import limits
from hearth.model.kinds import Kind

CONFIG = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)


def entry(*required: str) -> dict[str, Any]:
    return {"dependsOn": list(required), "manifest": {"kind": "ConfigMap"}}


def take(resources: dict[str, Any], *children: FoundChild, spec: Any = None, **status: Any) -> StackObjects:
    metadata = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1}
    stack = StackState({"metadata": metadata, "spec": spec or {}, "status": {"observedGeneration": 1} | status})
    return StackObjects(stack=stack, template={"resources": resources}, children=children)


def make_child(resource: str, number: int, *required: str) -> FoundChild:
    return FoundChild(
        CONFIG,
        {
            "metadata": {
                "name": f"shop-{resource}-{number}",
                "namespace": "prod",
                "uid": f"{resource}-{number}",
                "labels": {"hearth.dev/resource": resource},
                "annotations": {
                    "hearth.dev/incarnation": str(number),
                    "hearth.dev/requires": ",".join(f"{each}/1" for each in required),
                },
            }
        },
    )


def names(graph: StackGraph) -> list[list[str]]:
    return [[node.title for node in column] for column in graph.columns]


def edges(graph: StackGraph) -> set[str]:
    titles = {node.id: node.title for column in graph.columns for node in column}
    return {f"{titles[before]}>{titles[after]}" for before, after in graph.edges}


def test_each_resource_is_one_layer_after_what_it_requires() -> None:
    graph = stack_graph.describe(take({"a": entry(), "b": entry("a"), "c": entry("a", "b"), "x": entry()}))

    assert names(graph) == [["a", "x"], ["b"], ["c"]]
    assert edges(graph) == {"a>b", "b>c"}


def test_a_cycle_is_drawn_all_the_same() -> None:
    graph = stack_graph.describe(take({"a": entry("b"), "b": entry("a"), "c": entry()}))

    assert sorted(itertools.chain.from_iterable(names(graph))) == ["a", "b", "c"]


def test_replaced_objects_stand_beside_their_replacement() -> None:
    children = (make_child("web", 1), make_child("web", 2), make_child("old", 1))
    graph = stack_graph.describe(take({"web": entry(), "next": entry("web")}, *children))

    assert names(graph) == [["web"], ["next"], ["old"]]
    (web,) = graph.columns[0]
    assert web.detail == "configmap/shop-web-2"
    assert [node.detail for node in web.replaced] == ["configmap/shop-web-1"]
    assert web.replaced[0].state is RowState.OBSOLETE


def test_breakpoints_of_the_spec_are_marked() -> None:
    spec = {"environment": {"breakpoints": [{"resource": "we*", "at": ["PreUpdate"]}, 7, {"resource": []}]}}
    graph = stack_graph.describe(take({"web": entry(), "db": entry()}, spec=spec))

    assert {node.title: node.breakpoints for node in graph.columns[0]} == {"web": ("PreUpdate",), "db": ()}


def test_a_large_layer_shows_what_needs_attention_and_counts_the_rest() -> None:
    resources = {f"r{number}": entry() for number in range(1000)} | {"last": entry(*(f"r{n}" for n in range(1000)))}
    problems = [{"resource": f"r{n}", "reason": "Forbidden", "message": "no"} for n in (7, 990)]
    snapshot = take(resources, *(make_child(f"r{n}", 1) for n in range(1000)), problems=problems)
    graph = stack_graph.describe(snapshot)

    assert names(graph) == [["r7", "r990", "998 resources"], ["last"]]
    fold = graph.columns[0][2]
    assert (fold.count, fold.state, fold.layers) == (998, RowState.READY, (0, 0))
    assert edges(graph) == {"r7>last", "r990>last", "998 resources>last"}
    assert len(stack_graph.describe(snapshot, expanded={0}).columns[0]) == limits.GRAPH_EXPANDED_NODES + 1


@pytest.mark.parametrize("length", [30, 2000])
def test_a_long_chain_becomes_runs_of_layers(length: int) -> None:
    resources = {f"c{number}": entry(*([f"c{number - 1}"] if number else [])) for number in range(length)}
    problems = [{"resource": "c20", "reason": "Forbidden", "message": "no"}]
    children = [make_child(f"c{n}", 1, *([f"c{n - 1}"] if n else [])) for n in range(20)]
    graph = stack_graph.describe(take(resources, *children, problems=problems))

    assert len(graph.columns) <= limits.GRAPH_COLUMNS
    assert ["c20"] in names(graph)
    assert sum(node.count for column in graph.columns for node in column) == length
    assert edges(graph) == {"20 resources>c20", f"c20>{length - 21} resources"}


def test_two_thousand_resources_are_a_picture_of_a_few_nodes() -> None:
    resources = {f"r{n}": entry(*([f"r{n // 3}"] if n > 20 else [])) for n in range(2000)}
    picture = layout.arrange(stack_graph.describe(take(resources)))

    assert len(picture.boxes) < 100
    assert sum(box.node.count for box in picture.boxes) == 2000


# ---------------------------------------------------------------- drawings


def parse(drawn: str) -> Element:
    """The root of a picture."""
    return ElementTree.fromstring(drawn)  # noqa: S314 -- our own drawing; a parser that expands more would show more


def test_states_differ_by_shape() -> None:
    """Color must not be the only difference."""
    states = [state for state in RowState if state not in (RowState.GONE, RowState.WAITING)]
    columns = (tuple(Node(id=state.value, title="web", state=state) for state in states),)
    root = parse(graph_drawing.to_svg(layout.arrange(StackGraph(columns=columns, edges=())), title="x"))

    outlines = [path.get("d", "") for path in root.iter() if path.get("class") == "outline"]
    commands = {"".join(each for each in outline if each.isalpha()) for outline in outlines}
    signs = {text.text for text in root.iter() if text.get("class") == "sign"}
    assert len(outlines) == len(states)
    assert len(commands) >= 4
    assert len(signs) == len(states) - 1  # one has no sign


HOSTILE = '"/><script>alert(1)</script><!-- &amp; ]]> \x1b \ufffe'


@pytest.mark.parametrize("link", [None, lambda node: f"?x={HOSTILE}"], ids=["file", "page"])
def test_no_text_is_markup(link: Any) -> None:
    snapshot = take({HOSTILE: {"manifest": {"kind": HOSTILE}}}, phase=HOSTILE)
    drawn = graph_drawing.to_svg(layout.arrange(stack_graph.describe(snapshot)), title=HOSTILE, link=link)

    found = {each.tag.rpartition("}")[2] for each in parse(drawn).iter()}
    assert found <= {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "a", "text"}
    assert "<script" not in drawn


def make(resources: dict[str, Any]) -> StackObjects:
    stack = StackState({"metadata": {"name": "shop", "namespace": "prod", "uid": "u-1"}})
    return StackObjects(stack=stack, template={"resources": resources}, children=[])


PAIR = {"web": {"dependsOn": ["db"], "manifest": {"kind": "Deployment"}}, "db": {"manifest": {"kind": "ConfigMap"}}}


def test_an_arrow_leads_to_what_requires_a_resource() -> None:
    lines = list(graph_drawing.to_dot(make(PAIR)))

    assert lines[0] == 'digraph "shop" {'
    assert '  n0 [label="db\\nconfigmap\\nprogressing", color="#f9a825"];' in lines
    assert lines[-2:] == ["  n0 -> n1;", "}"]


def test_mermaid_gets_the_same_graph() -> None:
    lines = list(graph_drawing.to_mermaid(make(PAIR)))

    assert lines[:2] == ["flowchart LR", '  n0["db<br/>configmap<br/>progressing"]:::progressing']
    assert "  n0 --> n1" in lines
    assert "  classDef waiting stroke:#9e9e9e,stroke-width:2px" in lines


def test_hostile_names_stay_in_their_label() -> None:
    hostile = '"]; <script>alert(1)</script> \\ \x1b'
    snapshot = make({hostile: {"manifest": {"kind": hostile}}})

    (dot,) = [line for line in graph_drawing.to_dot(snapshot) if "n0" in line]
    (mermaid,) = [line for line in graph_drawing.to_mermaid(snapshot) if "n0" in line]

    assert dot.replace('\\"', "").count('"') == 4
    assert mermaid.count('"') == 2
    assert "<script" not in mermaid
    assert "\x1b" not in dot + mermaid
