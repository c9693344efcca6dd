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
from hearth.engine.admission import stack_review
from hearth.engine.admission.author_check import AuthorCheck
from hearth.engine.admission.mark_review import MarkReviewer
from hearth.engine.admission.review import Review, ReviewResult
from hearth.engine.admission.snapshot_review import SnapshotReviewer
from hearth.engine.admission.stack_review import StackReviewer
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import errors, limits
from hearth.model.turns import find_share

logger = structlog.get_logger(__name__)

LIMIT = "admission-reviews"
"""The label of the metric for reviews that were not done."""
UNREVIEWED = "this write was not reviewed, because {cause}; the operator reviews it later and reports in the status"
UNCHECKED = "spec.serviceAccountName: cannot check in time whether the author may use it; try again"
Work: TypeAlias = Callable[[Review], Awaitable[ReviewResult]]


class TooBusy(Exception):
    """Too many reviews wait already."""


@dataclass(slots=True)
class Reviewer:
    """Reviews writes of Stacks, HealthMarks and StackSnapshots."""

    builder: RevisionBuilder
    author_check: AuthorCheck | None = None
    """None: any author may name any ServiceAccount."""
    check_kubeconfig: Callable[[str], object] = str
    """Raises KubeconfigRefused for a kubeconfig that the engine would not use."""
    on_limit: Callable[[str], None] = lambda _limit: None
    seconds: float = limits.ADMISSION_SECONDS
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(limits.ADMISSION_REVIEWS))
    _by_namespace: dict[str, Turns] = field(default_factory=dict)
    _pending: int = 0

    async def review_stack(self, review: Review) -> ReviewResult:
        """Review a Stack: the author first, since the review reads sources as the ServiceAccount."""
        denial = await self._find_author_denial(review)
        if denial:
            return ReviewResult(denial=denial)
        return await self._review(review, StackReviewer(self.builder, self.check_kubeconfig).review)

    async def review_mark(self, review: Review) -> ReviewResult:
        """Review a HealthMark."""
        return await self._review(review, MarkReviewer(self.builder).review)

    async def review_snapshot(self, review: Review) -> ReviewResult:
        """Review a StackSnapshot."""
        return await self._review(review, SnapshotReviewer(self.builder).review)

    async def _find_author_denial(self, review: Review) -> str:
        account = review.spec.get("serviceAccountName")
        if self.author_check is None or not isinstance(account, str) or stack_review.is_definition_kept(review):
            return ""
        check = self.author_check.find_denial(review.author, namespace=review.namespace, account=account)
        try:
            return await asyncio.wait_for(check, self.seconds / 2)
        except TimeoutError:
            return UNCHECKED

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
        turns = self._by_namespace.get(namespace) or Turns()
        free = limits.ADMISSION_PENDING - self._pending
        if turns.users >= find_share(turns.users, free=free, most=limits.ADMISSION_PENDING):
            raise TooBusy
        self._by_namespace[namespace] = turns
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
