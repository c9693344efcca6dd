"""The table of condition types: whole, and what is documented."""

from __future__ import annotations

from pathlib import Path

from hearth.plan.state import condition_types
from hearth.plan.state.condition_types import ConditionType

PAGE = Path(__file__).resolve().parents[4] / "docs" / "status.md"


def write_table() -> str:
    """The table of `docs/status.md`."""
    rows = [
        f"| `{type_}` | {traits.meaning} | {traits.event or '–'} | {traits.word or '–'} |\n"
        for type_, traits in condition_types.TABLE.items()
    ]
    return "".join(["| condition | True while | Event | in column STATE |\n", "|---|---|---|---|\n", *rows])


def test_each_type_has_a_row() -> None:
    """In the order in which conditions are shown."""
    assert list(condition_types.TABLE) == list(ConditionType)


def test_the_page_has_the_table() -> None:
    """As it is written here."""
    assert write_table() in PAGE.read_text(), f"replace the table in docs/status.md by:\n{write_table()}"


def test_a_command_has_no_other_fields_than_can_be_filled() -> None:
    """The name and the namespace of the Stack."""
    for traits in condition_types.TABLE.values():
        assert "{" not in traits.command.format(name="shop", namespace="default")
        assert traits.is_cause or not traits.command
