"""Value comparison of a check: lists whole objects and tests by dry run whether an apply would change them.

Writes nothing. Must not know how its findings are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import structlog

from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Services
from hearth.model import field_paths, limits, names, tenancy, value_class
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError
from hearth.model.field_paths import ElementPath
from hearth.model.kinds import Kind
from hearth.plan.resource import drift
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.state import altered_values
from hearth.plan.state.altered_values import Altered

logger = structlog.get_logger(__name__)

COMPARED_IN_A_ROW = 50
"""Objects compared before the event loop gets a turn; a few milliseconds of work."""
NO_ANSWER = (429, 500, 502, 503, 504)
"""Response codes without information about the object."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An object whose values differ from its manifest."""

    child: Child
    manifest: Object
    hash: str
    places: tuple[ElementPath, ...]


class Comparison:
    """One check of the values of a Stack's objects."""

    def __init__(self, plan: StackPlan, *, services: Services, stack: StackObject) -> None:
        self.found: dict[str, Altered] = {}
        """By UID."""
        self.count = 0
        """Number of listed children."""
        self._plan = plan
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
            # A repair is impossible too. The object's own apply reports the cause.
            return
        if altered_values.is_changed_by(applied, child.fields):
            self.found[child.uid] = Altered(hash=candidate.hash, fields=altered_values.describe(candidate.places))
