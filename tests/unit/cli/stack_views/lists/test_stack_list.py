"""The list of Stacks shows the Stacks that need attention and no sensitive values."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views import text_table
from hearth.cli.stack_views.lists import stack_list
from hearth.cli.stack_views.stack_state import StackState


def make(spec: dict[str, Any] | None = None, conditions: Any = (), **status: Any) -> StackState:
    metadata = {"name": "shop", "namespace": "prod", "generation": 1, "creationTimestamp": "1970-01-01T00:00:00Z"}
    return StackState(
        {
            "apiVersion": "hearth.dev/v1alpha1",
            "metadata": metadata | status.pop("metadata", {}),
            "spec": spec or {},
            "status": {"observedGeneration": 1, "conditions": list(conditions)} | status,
        }
    )


def condition(type_: str, status: str = "True", message: str = "m") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": "R", "message": message}


def test_a_group_is_listed_as_a_stack_is() -> None:
    group = StackState(make(summary="2/3").raw | {"kind": "ResourceGroup"})

    listed = stack_list.sort([group, make()])
    rows = [stack_list.make_row(each, now=0, with_namespace=False) for each in listed]

    assert [row[0][0] for row in rows] == ["shop", "rg/shop"]
    assert rows[1][3][0] == "2/3"


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        pytest.param(make(), [], id="nothing"),
        pytest.param(make({"paused": True}), ["paused"], id="paused"),
        pytest.param(make({"suspended": True}), ["suspended"], id="suspended"),
        pytest.param(make(target={"cause": "Rollback"}), ["rolled back"], id="on request"),
        pytest.param(make(target={"cause": "AutomaticRollback"}), ["rolled back"], id="automatically"),
        pytest.param(make(conditions=[condition("Drifted")]), ["drifted"], id="drifted"),
        pytest.param(make(conditions=[condition("DriftConflict")]), ["drift conflict"], id="taken again and again"),
        pytest.param(make(conditions=[condition("Drifted", "False")]), [], id="no more"),
        pytest.param(
            make(conditions=[condition("Stopped"), condition("Unhealthy")]), ["stopped", "unhealthy"], id="two"
        ),
    ],
)
def test_the_state_column_says_what_a_phase_does_not(stack: StackState, words: list[str]) -> None:
    assert list(stack_list.find_words(stack)) == words


def test_a_row_has_the_first_line_of_the_message() -> None:
    stack = make(conditions=[condition("Ready", "False", "web: denied\nmore")], phase="UpdateFailed", summary="1/2")

    texts = [text for text, _ in stack_list.make_row(stack, now=90.0, with_namespace=True)]

    assert texts == ["prod", "shop", "UpdateFailed", "False", "1/2", "", "", "90s", "web: denied …"]
    assert len(stack_list.make_header(with_namespace=False)) == len(texts) - 1


def test_sensitive_values_are_nowhere_in_the_output() -> None:
    template = {"parameters": {"password": {"type": "string", "sensitive": True}, "size": {"type": "string"}}}
    stack = make(
        {"template": template, "parameters": {"password": "geheim-1", "size": "m"}},
        [condition("Ready", "False", "cannot log in with geheim-1")],
        metadata={
            "managedFields": [{"manager": "x"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "geheim-1", "team": "shop"},
        },
    )

    shown = stack_list.to_output(stack)

    assert "geheim-1" not in repr(shown) + repr(stack_list.make_row(stack, now=0.0, with_namespace=False))
    assert shown["spec"]["parameters"] == {"password": "(sensitive)", "size": "m"}
    assert shown["metadata"]["annotations"] == {"team": "shop"}
    assert "managedFields" not in shown["metadata"]


@pytest.mark.parametrize("source", [{"templateRef": {"name": "t"}}, {"templateRefs": [{"name": "t"}]}])
def test_no_parameter_is_shown_if_its_template_is_elsewhere(source: dict[str, Any]) -> None:
    stack = make({**source, "parameters": {"password": "geheim-1", "pin": 1234}})

    shown = stack_list.to_output(stack)

    assert shown["spec"] == {**source, "parameters": {"password": "(sensitive)", "pin": "(sensitive)"}}
    assert stack.spec["parameters"]["pin"] == 1234


def test_hostile_texts_stay_in_their_cell() -> None:
    stack = make(conditions=[condition("Ready", "False", "\x1b[2Jgone\r\nrow2")], phase="\x1b]0;title\x07")

    texts = [text for text, _ in stack_list.make_row(stack, now=0.0, with_namespace=False)]

    assert not any("\x1b" in text or "\n" in text or "\r" in text for text in texts)
    assert texts[-1] == "\\x1b[2Jgone …"


def test_columns_are_aligned_and_the_last_is_cut() -> None:
    lines = text_table.align(["A", "MESSAGE"], [[("abc", ""), ("a longer message", "red")]], width=20)

    assert lines == [[("A     ", ""), ("MESSAGE", "")], [("abc   ", ""), ("a longer mess…", "red")]]
