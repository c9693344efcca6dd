"""Runs admission reviews with limits on their duration and number. A review that exceeds a limit allows the write.

Allowing it is safe, because the engine checks every Stack again. The permissions of the author, and of users who decide
about a StackPlan or a gate, are checked only at admission, so the write is denied if that check takes too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from hearth import supervision
from hearth.engine.admission import object_reviews
from hearth.engine.admission import review as review_module
from hearth.engine.admission.gate_decisions import GateCheck
from hearth.engine.admission.plan_decisions import AccessReviews, DecisionCheck
from hearth.engine.admission.review import Author, Review, ReviewResult
from hearth.engine.definition import definition_sources
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import errors, limits, names, tenancy, value_class, well_known_kinds
from hearth.model.kinds import ObjectRef
from hearth.model.turns import find_share

logger = structlog.get_logger(__name__)

PLAN_KIND = well_known_kinds.STACK_PLAN.name
LIMIT = "admission-reviews"
"""The label of the metric for reviews that were not done."""
UNREVIEWED = "this write was not reviewed, because {cause}; the operator reviews it later and reports in the status"
UNCHECKED = "{field}: cannot check in time whether the author may use it; try again"
UNDECIDED = "cannot check whether the user may decide about the {subject}, because {cause}; try again"
Work: TypeAlias = Callable[[RevisionBuilder, Review], Awaitable[ReviewResult]]
REVIEWS: Mapping[str, Work] = {
    "HealthMark": object_reviews.review_mark,
    "StackSnapshot": object_reviews.review_snapshot,
    well_known_kinds.STACK_TEMPLATE.name: object_reviews.review_template,
}
"""The review function by kind, for kinds whose authors need no permissions for other objects."""


class TooBusy(Exception):
    """Too many reviews wait already."""


@dataclass(slots=True)
class Reviewer:
    """Reviews writes of all kinds that users write."""

    builder: RevisionBuilder
    author_check: AuthorCheck | None = None
    """Checks the permissions of the author; None if any author may name any ServiceAccount."""
    decision_check: DecisionCheck | None = None
    """Checks and signs decisions about StackPlans; None if no user can decide."""
    gate_check: GateCheck | None = None
    """Checks and signs decisions about gates; None if no user can decide."""
    check_kubeconfig: Callable[[str], object] = str
    """Raises KubeconfigRefused for a kubeconfig that the engine would not use."""
    on_limit: Callable[[str], None] = lambda _limit: None
    now: Callable[[], float] = time.time
    """Returns seconds since the epoch."""
    seconds: float = limits.ADMISSION_SECONDS
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(limits.ADMISSION_REVIEWS))
    _by_namespace: dict[str, Turns] = field(default_factory=dict)
    _pending: int = 0

    async def review(self, review: Review) -> ReviewResult:
        """Review an object of any reviewed kind."""
        kind = str(review.new.get("kind"))
        if kind == PLAN_KIND:
            return await self.decide(review)
        if (work := REVIEWS.get(kind)) is not None:
            return await self._review(review, work)
        return await (self.review_definition(review) if kind == names.DEFINITION_KIND else self.review_stack(review))

    async def decide(self, review: Review) -> ReviewResult:
        """Review a decision about a StackPlan, or about a gate of a StackDefinition."""
        return await self._review(review, self._decide, is_decision=True)

    async def review_stack(self, review: Review) -> ReviewResult:
        """Review a Stack: the author first, because the review reads sources as the ServiceAccount."""
        denial = await self._find_author_denial(review) or object_reviews.find_past_end(review, now=self.now())
        denial = denial or object_reviews.find_window_denial(review)
        if denial:
            return ReviewResult(denial=denial)
        work = functools.partial(object_reviews.review_stack, check_kubeconfig=self.check_kubeconfig)
        return await self._review(review, work)

    async def review_definition(self, review: Review) -> ReviewResult:
        """Review a StackDefinition: the author first."""
        denial = await self._find_definer_denial(review)
        if denial:
            return ReviewResult(denial=denial)
        # Imported here, because it imports the API models, and most operators serve no StackDefinitions.
        from hearth.engine.admission import definition_review

        return await self._review(review, definition_review.review_definition)

    async def _decide(self, _builder: RevisionBuilder, review: Review) -> ReviewResult:
        check = self.decision_check if review.new.get("kind") == PLAN_KIND else self.gate_check
        if check is None:
            return answer_unreviewed(review, "the operator has no key", is_decision=True)
        return await check.review(review, now=self.now())

    async def _find_definer_denial(self, review: Review) -> str:
        """Return why the author is not allowed to create a revision with that account or these templates, or "" if
        allowed.
        """
        is_kept = review.old is not None and review_module.read_spec(review.old) == review.spec
        if self.author_check is None or is_kept:
            return ""
        for source in definition_sources.find_definition_sources(review.spec):
            check = self.author_check.find_reader_denial(review.author, source.ref, field=source.field)
            if denial := await self._answer_in_time(check, field=source.field):
                return denial
        account = review.spec.get("account")
        if not isinstance(account, dict):
            return ""
        check = self.author_check.find_definer_denial(
            review.author, namespace=str(account.get("namespace")), account=str(account.get("name"))
        )
        return await self._answer_in_time(check, field="spec.account")

    async def _find_author_denial(self, review: Review) -> str:
        account = review.spec.get("serviceAccountName")
        if self.author_check is None or not isinstance(account, str) or object_reviews.is_definition_kept(review):
            return ""
        check = self.author_check.find_denial(review.author, namespace=review.namespace, account=account)
        return await self._answer_in_time(check, field="spec.serviceAccountName")

    async def _answer_in_time(self, check: Awaitable[str], *, field: str) -> str:
        """Return the denial that a check finds, or a denial because it takes too long. field: the subject of the check."""
        try:
            return await asyncio.wait_for(check, self.seconds / 2)
        except TimeoutError:
            return UNCHECKED.format(field=field)

    async def _review(self, review: Review, work: Work, *, is_decision: bool = False) -> ReviewResult:
        answer = functools.partial(answer_unreviewed, review, is_decision=is_decision)
        try:
            async with asyncio.timeout(self.seconds), self._take_turn(review.namespace):
                return await work(self.builder, review)
        except TimeoutError:
            self.on_limit(LIMIT)
            return answer(f"it takes more than {self.seconds:g} s")
        except TooBusy:
            self.on_limit(LIMIT)
            return answer("too many reviews are in progress")
        except (errors.ApiStatusError, errors.Unreachable) as error:
            logger.warning("cannot review", namespace=review.namespace, error=str(error))
            return answer("the operator got no answer from the API server")
        except Exception as error:  # noqa: BLE001 -- a fault of ours must not deny a write of a Stack
            supervision.report("admission", error)
            return answer("of an internal error")

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


def answer_unreviewed(review: Review, cause: str, *, is_decision: bool = False) -> ReviewResult:
    """Allow a write, with a warning that nothing was reviewed. Deny a decision about a plan or a gate: nothing checks it
    later.
    """
    is_plan = review.new.get("kind") == PLAN_KIND
    if is_plan or is_decision:
        return ReviewResult(denial=UNDECIDED.format(cause=cause, subject="plan" if is_plan else "rollout"))
    return ReviewResult(warnings=(review_module.shorten(UNREVIEWED.format(cause=cause)),))


@value_class.dataclass(frozen=True, slots=True)
class AuthorCheck:
    """Check whether an author may use the objects that a Stack or StackDefinition names.

    Otherwise the right to write Stacks would include the rights of every ServiceAccount of the namespace.
    """

    access: AccessReviews

    async def find_denial(self, author: Author, *, namespace: str, account: str) -> str:
        """Return why the author cannot use that ServiceAccount, or "". A fault is a denial: there is no later check."""
        try:
            # Anyone who can create Pods can run one as any ServiceAccount of the namespace.
            if await self.access.may(author, "impersonate", "serviceaccounts", namespace=namespace, name=account):
                return ""
            if await self.access.may(author, "create", "pods", namespace=namespace):
                return ""
        except (errors.ApiStatusError, errors.Unreachable):
            return f"spec.serviceAccountName: cannot check whether {author.name} can use {account}; try again"
        return (
            f"spec.serviceAccountName: user {author.name} cannot use ServiceAccount {account}; this needs the verb "
            f"impersonate on it, or the right to create Pods in namespace {namespace}"
        )

    async def find_reader_denial(self, author: Author, ref: ObjectRef, *, field: str) -> str:
        """Return why the author is not allowed to expose that object's content to instances, or "" if allowed.

        An internal error counts as a denial.
        """
        if well_known_kinds.is_shared_source(ref):
            return ""
        try:
            if await self.access.may(author, "get", "configmaps", namespace=ref.namespace, name=ref.name):
                return ""
        except (errors.ApiStatusError, errors.Unreachable):
            return f"{field}: cannot check whether {author.name} can read {ref}; try again"
        return (
            f"{field}: user {author.name} cannot read {ref} in namespace {ref.namespace}; to allow it, run: "
            + tenancy.write_grant(
                author.subject,
                "get",
                "configmaps",
                role=f"{ref.name}-reader",
                namespace=ref.namespace,
                name=ref.name,
            )
        )

    async def find_definer_denial(self, author: Author, *, namespace: str, account: str) -> str:
        """Return why the author is not allowed to let instances act as that ServiceAccount, or "" if allowed.

        An internal error counts as a denial.
        """
        try:
            if await self.access.may(author, "impersonate", "serviceaccounts", namespace=namespace, name=account):
                return ""
        except (errors.ApiStatusError, errors.Unreachable):
            return f"spec.account: cannot check whether {author.name} can act as {namespace}:{account}; try again"
        return (
            f"spec.account: user {author.name} cannot act as ServiceAccount {account} in namespace {namespace}; to "
            "allow it, "
            "run: "
            + tenancy.write_grant(
                author.subject,
                "impersonate",
                "serviceaccounts",
                role=f"{account}-definer",
                namespace=namespace,
                name=account,
            )
        )
