"""Random definitions and edits: what a preview says is what the run then does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis
from hypothesis import HealthCheck, settings, strategies

from support.stateful import preview_session, random_templates
from support.stateful.preview_session import PreviewSession
from support.stateful.random_templates import Drafts

QUICK = settings(
    max_examples=60, database=None, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)


@hypothesis.seed(7)
@settings(QUICK)
@hypothesis.given(
    first=random_templates.beginnings, wishes=strategies.lists(preview_session.wishes, min_size=1, max_size=3)
)
def test_every_preview_comes_true(first: Drafts, wishes: Sequence[Any]) -> None:
    """Created, changed with these fields, replaced, deleted, stopped at these breakpoints; and nothing else."""
    session = PreviewSession()
    try:
        session.begin(first)
        for changes, stops, denied in wishes:
            session.edit(changes, stops, denied)
    finally:
        session.close()
