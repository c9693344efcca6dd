"""Handles `hearth.dev/check`: lists all objects of the Stack, and stores the result until it is outdated.

It writes to no child. Its lists update the cache, so the usual reconcile repairs the problems that they show.
`hearth.plan.status.check_result` decides what counts as a problem.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping

import structlog

from hearth import answers
from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Services
from hearth.engine.stack.cache_sync import CacheSync
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import field_paths, limits, names, retry_delays, tenancy, value_class
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError
from hearth.model.field_paths import ElementPath
from hearth.model.kinds import Kind
from hearth.plan.resource import drift
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import altered_values
from hearth.plan.state.altered_values import Altered
from hearth.plan.status import check_result, ready_condition
from hearth.plan.status.check_result import CheckResult
from hearth.plan.status.ready_condition import StatusInput

logger = structlog.get_logger(__name__)

COMPARED_IN_A_ROW = 50
"""Objects compared before the event loop gets a turn; a few milliseconds of work."""
NO_ANSWER = (429, 500, 502, 503, 504)
"""Response codes that do not describe the object."""
TASK = "check"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An object whose values differ from its manifest."""

    child: Child
    manifest: Object
    hash: str
    places: tuple[ElementPath, ...]


class Comparison:
    """One check of the values of a Stack's objects. Lists whole objects, and dry-runs an apply of altered ones."""

    def __init__(self, planner: StackPlanner, *, services: Services, stack: StackObject) -> None:
        self.found: dict[str, Altered] = {}
        """Altered objects by UID."""
        self.count = 0
        """Number of listed children."""
        self._plan = planner
        self._cluster = services.find_children_cluster(stack.uid)
        self._as_account = services.find_cluster(stack)
        self._on_limit = services.on_limit
        self._namespace = stack.namespace
        self._manager = names.field_manager(stack.namespace, stack.name, kind=stack.kind)
        self._dry_runs = 0

    async def compare_kind(self, kind: Kind, stack_uid: str) -> None:
        """List and compare the objects of one kind. Raises ApiStatusError or Unreachable if the check is inconclusive."""
        found = await self._cluster.list_children(kind, stack_uid, namespace=self._namespace, whole=True)
        self.count += sum(child.is_identified for child in found)
        by_uid = {child.uid: child for child in found}
        for at, candidate in enumerate(self._find_candidates(by_uid)):
            if at % COMPARED_IN_A_ROW == COMPARED_IN_A_ROW - 1:
                await asyncio.sleep(0)
            if candidate is not None:
                await self._confirm(candidate)

    def _find_candidates(self, by_uid: Mapping[str, Child]) -> Iterator[Candidate | None]:
        """Yield a candidate per altered object and None per object that matches its manifest."""
        for name, status in list(self._plan.statuses.items()):
            child = by_uid.get(status.child.uid) if status.child is not None else None
            desired = self._plan.find_desired(name, child) if child is not None else None
            if status.reason == tenancy.REASON:
                continue
            if child is None or desired is None or not altered_values.is_comparable(child, hash_=desired.hash):
                continue
            visible = drift.compare(child, desired)
            if visible.to_repair:
                # Field ownership already shows this drift; it is repaired first.
                continue
            manifest = field_paths.without(desired.manifest, [lost.path for lost in visible.tolerated])
            places = altered_values.find_candidates(manifest, child.fields)
            yield Candidate(child=child, manifest=manifest, hash=desired.hash, places=tuple(places)) if places else None

    async def _confirm(self, candidate: Candidate) -> None:
        """Check by dry run whether an apply would change the object."""
        if self._dry_runs >= limits.CHECK_DRY_RUNS:
            self._on_limit("check-dry-runs")
            logger.warning("value not checked", child=str(candidate.child.ref), limit=limits.CHECK_DRY_RUNS)
            return
        self._dry_runs += 1
        child = candidate.child
        metadata = {**candidate.manifest["metadata"], "uid": child.uid}
        manifest = {**candidate.manifest, "metadata": metadata}
        try:
            applied = await self._as_account.apply_dry_run(manifest, kind=child.kind, manager=self._manager)
        except ApiStatusError as error:
            if error.code in NO_ANSWER:
                raise
            # A repair would fail too. The regular apply of the object reports the cause.
            return
        if altered_values.is_changed_by(applied, child.fields):
            self.found[child.uid] = Altered(hash=candidate.hash, fields=altered_values.describe(candidate.places))


class CheckControl(StackPart):
    """The checks of one Stack in this process. If a result is not in the status, the next process checks again."""

    def __init__(self, context: StackContext, *, cache_sync: CacheSync) -> None:
        super().__init__(context)
        self._cache_sync = cache_sync
        self.result: CheckResult | None = None
        """Result of the last check, or None if there was none."""
        self._is_recalled = False
        self._is_recorded = True
        """Whether the status contains the result."""
        self._requested = ""
        """The token of a requested check that is not handled yet."""
        self._listed: tuple[str, int] | None = None
        """The token whose lists are complete, and the number of listed objects."""
        self._unlisted = ""
        """The key of the kind whose list failed last."""

    @property
    def is_unreported(self) -> bool:
        """Whether the status must report problems before any step starts. Otherwise a repair would hide them."""
        return not self._is_recorded and (result := self._shown_result) is not None and result.problem_count > 0

    @property
    def is_idle(self) -> bool:
        """Whether there is no check, neither requested nor concluded."""
        return self.result is None and not self._requested

    @property
    def error(self) -> str:
        """Why the requested check cannot run yet; "" if it can."""
        error = self._inquiries.find_error(TASK) if self._requested else None
        if error is None:
            return ""
        token = self._requested[: check_result.TOKEN_LENGTH]
        return f"the check {token!r} cannot list {self._unlisted} objects: {error}; the operator retries, and there is no result yet"

    @property
    def _shown_result(self) -> CheckResult | None:
        """The result that the phase shows."""
        return self.result if self.result is not None and self.result.is_current else None

    def update(self, stack: StackObject, planner: StackPlanner, *, describe: Callable[[], StatusInput]) -> None:
        """Start or conclude a requested check after a reconcile; test whether the last result is still current.

        describe: makes the current status input.
        """
        self._recall()
        self._read_request(stack)
        if self._shown_result is not None and not describe().is_completed:
            self.invalidate()
        if (grace_left := self._cache_sync.grace_left()) > 0:
            if self._requested:
                self._services.enqueue_after(grace_left, self._uid, DirtyScope.STACK)
            return
        if (result := self._shown_result) is not None:
            is_complete = ready_condition.is_complete(describe(), planner)
            if not check_result.is_still_current(result, planner, is_complete=is_complete):
                self.invalidate()
        if not self._requested or self._definition_sync.needs_sync(stack):
            return
        if self._listed is not None and self._listed[0] == self._requested:
            self._conclude(planner, objects=self._listed[1], is_reached=describe().is_completed)
        else:
            comparison = Comparison(planner, services=self._services, stack=stack)
            self._inquiries.ask(
                TASK,
                lambda: self._list(self._cache_sync.find_required_watches(), comparison),
                functools.partial(self._note_listed, self._requested, comparison),
                delay=retry_delays.CHECK,
                what=DirtyScope.ALL_RESOURCES,
            )

    def invalidate(self) -> None:
        """Mark the result as outdated because a step starts. The phase then shows the target again."""
        if (result := self._shown_result) is not None:
            self.result = dataclasses.replace(result, is_current=False)

    def note_written(self, status: Object) -> None:
        """Record that the status was written or is already up to date."""
        if not self._is_recorded and check_result.is_reported(self.result, status):
            self._is_recorded = True
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)

    def _recall(self) -> None:
        """Load the result of an earlier process."""
        if not self._is_recalled:
            self._is_recalled = True
            self.result = self._definition_sync.targets.check

    def _read_request(self, stack: StackObject) -> None:
        """Read which check is requested."""
        token = stack.annotations.get(names.REQUEST_CHECK, "")
        requested = token if token != self._definition_sync.targets.handled.get(check_result.VERB) else ""
        if requested != self._requested:
            self._requested, self._listed = requested, None
            self._inquiries.forget(TASK)

    def _conclude(self, planner: StackPlanner, *, objects: int, is_reached: bool) -> None:
        now = self._services.clock.now()
        self.result = check_result.conclude(planner, objects=objects, now=now, is_reached=is_reached)
        self._definition_sync.targets.record_handled(check_result.VERB, self._requested)
        self._requested, self._listed, self._is_recorded = "", None, False

    async def _list(self, kinds: Collection[Kind], comparison: Comparison) -> None:
        """List the objects of each kind; the cache follows."""
        for kind in sorted(kinds, key=lambda each: each.key):
            if error := await answers.find_error(comparison.compare_kind(kind, self._uid)):
                self._unlisted = kind.key
                raise error

    def _note_listed(self, requested: str, comparison: Comparison, _: None) -> bool:
        """Use the lists of a check. requested: its token; until it ends, a newly requested check is separate."""
        self._memory.altered = comparison.found
        if requested == self._requested:
            self._listed = (requested, comparison.count)
        # The lists did not notify any listener, so enqueue the Stack in any case.
        return True
