"""Pages, API descriptions, messages and help read as a native engineer would write them."""

import pytest

from support.checks import voice
from support.checks.voice import Page

MOST = 1.0
"""Foreign phrases per 1,000 words of a page."""
COUNTED = 300
"""Minimum words of a counted page: one phrase on a short page is no rate."""


def test_no_page_exceeds_the_rate_of_foreign_phrases() -> None:
    foreign = [
        hit
        for page in voice.find_published()
        if page.words > COUNTED and len(hits := list(page.find_hits())) > MOST * page.words / 1000
        for hit in hits
    ]
    assert foreign == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("Report what is missing", 1, id="a clause without a noun"),
        pytest.param("What is missing?", 0, id="a question"),
        pytest.param("Fields that are missing", 0, id="a clause with its noun"),
        pytest.param("The StatefulSet goes first, and its Pods are created again", 2, id="two in one sentence"),
        pytest.param("The controller goes through all of them", 0, id="in its usual sense"),
    ],
)
def test_foreign_phrases_are_found_in_prose(text: str, count: int) -> None:
    assert len(list(Page(name="page", text=text).find_hits())) == count


def test_code_and_link_targets_do_not_count() -> None:
    assert voice.clean("see `what is here` and [the page](what-is.md)") == "see X and [the page]"
