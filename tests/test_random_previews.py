"""Random definitions and edits: the actual changes equal the preview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, settings, strategies

from support import soak
from support.stateful import preview_session, random_templates
from support.stateful.preview_session import PreviewSession
from support.stateful.random_templates import Drafts, Edit

QUICK = settings(
    max_examples=60, database=None, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)


PLANNED = strategies.lists(preview_session.planned, min_size=1, max_size=3)


def check(first: Drafts, planned: Sequence[Any]) -> None:
    """A new Stack, then each edit of it."""
    soak.PROGRESS.advance()
    session = PreviewSession()
    try:
        session.begin(first)
        for changes, stops, denied in planned:
            session.edit(changes, stops, denied)
    finally:
        session.close()


@hypothesis.seed(7)
@settings(QUICK)
@hypothesis.given(first=random_templates.beginnings, planned=PLANNED)
def test_every_preview_comes_true(first: Drafts, planned: Sequence[Any]) -> None:
    check(first, planned)


def test_an_edit_that_removes_a_stop_completes_nothing_before() -> None:
    gone: Any = ([Edit(what="remove")], [{"resource": "a", "word": "PostDelete"}], [])
    back: Any = ([Edit(what="add")], [], [{"resource": "a", "word": "Create"}])
    check(random_templates.build([Edit(what="add")]), [gone, back])


@pytest.mark.soak
def test_every_preview_comes_true_for_long() -> None:
    definitions = soak.amount(2_000, full=2_000)
    soak.PROGRESS.start(definitions)
    longer = settings(QUICK, max_examples=definitions)
    longer(hypothesis.given(first=random_templates.beginnings, planned=PLANNED)(check))()
