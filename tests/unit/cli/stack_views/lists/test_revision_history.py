"""Revisions in rows, and what changed between two of them."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views.lists import revision_history
from hearth.cli.stack_views.stack_state import StackState

STATUS = {
    "target": {"revision": 3, "cause": "Rollback"},
    "lastCompletedRevision": 4,
    "previousCompletedRevision": 3,
    "lastFailedRevision": 2,
}


@pytest.mark.parametrize(
    ("number", "state"),
    [(1, ""), (2, "failed"), (3, "active, rolled back to, completed"), (4, "completed")],
)
def test_what_became_of_a_revision(number: int, state: str) -> None:
    """As the status of the Stack says."""
    assert revision_history.describe_state(number, StackState({"status": STATUS}))[0] == state


def test_a_row_names_author_and_commit() -> None:
    """Safe to show: any client may have written them."""
    annotations = {"hearth.dev/author": "ci\x1b[2J", "hearth.dev/commit": "0123456789abcdef0123"}
    metadata = {"name": "shop-x", "annotations": annotations, "creationTimestamp": "1970-01-01T00:00:00Z"}

    row = revision_history.make_row(1, {"metadata": metadata}, ("", ""), now=60.0)

    assert [text for text, _ in row] == ["1", "", "ci\\x1b[2J", "0123456789ab", "60s", "shop-x"]


def make(password: str, *, image: str = "web:1") -> dict[str, Any]:
    rules = {"password": {"type": "string", "sensitive": True}, "pin": {"sensitive": True, "default": "geheim-2"}}
    return {
        "template": {"parameters": rules, "resources": {"web": {"manifest": {"image": image, "env": "pin geheim-2"}}}},
        "parameters": {"size": "m"},
        "sensitive": {"password": {"from": "Secret/db", "key": "password", "hash": f"v1:{password}"}},
    }


def test_the_difference_of_two_revisions_is_a_unified_diff() -> None:
    """Colored as `kubectl diff`."""
    lines = list(
        revision_history.compare(make("aaaaaaaa"), make("aaaaaaaa", image="web:2"), titles=("revision 1", "revision 2"))
    )

    assert lines[:2] == [("--- revision 1", "bold"), ("+++ revision 2", "bold")]
    changed = [(line.strip("+- "), color) for line, color in lines if color in ("green", "red")]
    assert changed == [("image: web:1", "red"), ("image: web:2", "green")]


def test_a_sensitive_value_is_only_said_to_have_changed() -> None:
    """Where it comes from, never what it is; not even the default that the template contains."""
    lines = list(revision_history.compare(make("aaaaaaaa"), make("bbbbbbbb"), titles=("a", "b")))

    assert [line for line, _ in lines if line.startswith(("+ ", "- "))] == [
        "-  password: (sensitive, from Secret/db, hash aaaaaaaa)",
        "+  password: (sensitive, from Secret/db, hash bbbbbbbb)",
    ]
    assert "geheim" not in repr(revision_history.show_definition(make("aaaaaaaa")))


def test_equal_definitions_have_no_difference() -> None:
    """Not even a title."""
    assert list(revision_history.compare(make("a"), make("a"), titles=("a", "b"))) == []
