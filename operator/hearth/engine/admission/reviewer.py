"""The reviews of one process, with limits on their time and number; a review that meets one allows the write.

The engine judges every Stack again, so a review that cannot be done in time must not hold up anyone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from hearth import supervision
from hearth.engine.admission import review as review_module
from hearth.engine.admission.mark_review import MarkReviewer
from hearth.engine.admission.review import Review, ReviewResult
from hearth.engine.admission.stack_review import StackReviewer
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import errors, limits

logger = structlog.get_logger(__name__)

LIMIT = "admission-reviews"
"""The label of the metric for reviews that were not done."""
UNREVIEWED = "this write was not reviewed, because {cause}; the operator reviews it later and reports in the status"
Work: TypeAlias = Callable[[Review], Awaitable[ReviewResult]]


class TooBusy(Exception):
    """Too many reviews wait already."""


@dataclass(slots=True)
class Reviewer:
    """Reviews writes of Stacks and HealthMarks."""

    builder: RevisionBuilder
    on_limit: Callable[[str], None] = lambda _limit: None
    seconds: float = limits.ADMISSION_SECONDS
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(limits.ADMISSION_REVIEWS))
    _by_namespace: dict[str, Turns] = field(default_factory=dict)
    _pending: int = 0

    async def review_stack(self, review: Review) -> ReviewResult:
        """Review a Stack."""
        return await self._review(review, StackReviewer(self.builder).review)

    async def review_mark(self, review: Review) -> ReviewResult:
        """Review a HealthMark."""
        return await self._review(review, MarkReviewer(self.builder).review)

    async def _review(self, review: Review, work: Work) -> ReviewResult:
        try:
            async with asyncio.timeout(self.seconds), self._take_turn(review.namespace):
                return await work(review)
        except TimeoutError:
            self.on_limit(LIMIT)
            return allow_unreviewed(f"it takes more than {self.seconds:g} s")
        except TooBusy:
            self.on_limit(LIMIT)
            return allow_unreviewed("too many reviews are in progress")
        except (errors.ApiStatusError, errors.Unreachable) as error:
            logger.warning("cannot review; allowing", namespace=review.namespace, error=str(error))
            return allow_unreviewed("the operator got no answer from the API server")
        except Exception as error:  # noqa: BLE001 -- a fault of ours must not deny a write
            supervision.report("admission", error)
            return allow_unreviewed("of an internal error")

    @contextlib.asynccontextmanager
    async def _take_turn(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a place, first among the reviews of the namespace."""
        if self._pending >= limits.ADMISSION_PENDING:
            raise TooBusy
        turns = self._by_namespace.setdefault(namespace, Turns())
        self._pending += 1
        turns.users += 1
        try:
            async with turns.slots, self._slots:
                yield
        finally:
            self._pending -= 1
            turns.users -= 1
            if not turns.users:
                del self._by_namespace[namespace]


@dataclass(slots=True)
class Turns:
    """The reviews of one namespace."""

    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(limits.ADMISSION_REVIEWS_PER_NAMESPACE))
    users: int = 0


def allow_unreviewed(cause: str) -> ReviewResult:
    """Allow a write, with a warning that nothing was reviewed."""
    return ReviewResult(warnings=(review_module.shorten(UNREVIEWED.format(cause=cause)),))
