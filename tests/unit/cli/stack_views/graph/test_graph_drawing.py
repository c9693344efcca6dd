"""A Stack as a graph for other programs, which must take no text of an object for their own language."""

from __future__ import annotations

from typing import Any

from hearth.cli.stack_views.graph import graph_drawing
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import StackObjects


def make(resources: dict[str, Any]) -> StackObjects:
    stack = StackState({"metadata": {"name": "shop", "namespace": "prod", "uid": "u-1"}})
    return StackObjects(stack=stack, template={"resources": resources}, children=[])


PAIR = {"web": {"dependsOn": ["db"], "manifest": {"kind": "Deployment"}}, "db": {"manifest": {"kind": "ConfigMap"}}}


def test_an_arrow_leads_to_what_requires_a_resource() -> None:
    """From left to right, as things come about."""
    lines = list(graph_drawing.to_dot(make(PAIR)))

    assert lines[0] == 'digraph "shop" {'
    assert '  n0 [label="db\\nconfigmap\\nprogressing", color="#f9a825"];' in lines
    assert lines[-2:] == ["  n0 -> n1;", "}"]


def test_mermaid_gets_the_same_graph() -> None:
    """With a class for each state."""
    lines = list(graph_drawing.to_mermaid(make(PAIR)))

    assert lines[:2] == ["flowchart LR", '  n0["db<br/>configmap<br/>progressing"]:::progressing']
    assert "  n0 --> n1" in lines
    assert "  classDef waiting stroke:#9e9e9e,stroke-width:2px" in lines


def test_hostile_names_stay_in_their_label() -> None:
    """Neither a quote nor HTML ends it."""
    hostile = '"]; <script>alert(1)</script> \\ \x1b'
    snapshot = make({hostile: {"manifest": {"kind": hostile}}})

    (dot,) = [line for line in graph_drawing.to_dot(snapshot) if "n0" in line]
    (mermaid,) = [line for line in graph_drawing.to_mermaid(snapshot) if "n0" in line]

    assert dot.replace('\\"', "").count('"') == 4
    assert mermaid.count('"') == 2
    assert "<script" not in mermaid
    assert "\x1b" not in dot + mermaid
