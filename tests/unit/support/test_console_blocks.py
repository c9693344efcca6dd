"""The comparison of output with the text on a page."""

from __future__ import annotations

from support import console_blocks

EVENTS = """LAST SEEN   TYPE     REASON     OBJECT
3s          Normal   Complete   Stack/shop
3s          Normal   Drifted    Stack/shop"""


def test_lines_come_in_order_with_others_between() -> None:
    assert console_blocks.find_missing(("a", "c"), "a\nb\nc") is None
    assert console_blocks.find_missing(("c", "a"), "a\nb\nc") == "a"
    assert console_blocks.find_missing(("a", "d"), "a\nb\nc") == "d"


def test_events_come_in_any_order() -> None:
    header, first, second = EVENTS.split("\n")
    assert console_blocks.find_missing((header, second, first), EVENTS) is None
    assert console_blocks.find_missing((header, first, "3s   Normal   Lost   Stack/shop"), EVENTS) is not None


def test_generated_names_may_have_no_digit() -> None:
    line = "± replace     job/shop-migration → job/shop-migration-bmwcdr6g"
    assert console_blocks.find_missing((line,), line.replace("bmwcdr6g", "qachqapu")) is None
    assert console_blocks.find_missing((line,), line.replace("-bmwcdr6g", "")) is not None
