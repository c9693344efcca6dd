"""What the next status of a Stack is built from, collected from the parts of its reconciler."""

from __future__ import annotations

from hearth.engine import internal_error_backoff
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.internal_error_backoff import Faults
from hearth.engine.services import Services
from hearth.engine.stack.breakpoints import continue_requests
from hearth.engine.stack.checks.check_control import CheckControl
from hearth.engine.stack.stack_deletion import StackDeletion
from hearth.engine.stack.target_progress import TargetProgress
from hearth.plan.status import ready_condition


class StatusInputs:
    """The maker of status inputs for one Stack."""

    def __init__(  # noqa: PLR0913 -- the parts that a status is made of
        self,
        uid: str,
        *,
        services: Services,
        definition_sync: DefinitionSync,
        progress: TargetProgress,
        checking: CheckControl,
        leaving: StackDeletion,
        faults: Faults,
    ) -> None:
        """The parts belong to the Stack of that UID."""
        self._uid = uid
        self._services = services
        self._definition = definition_sync
        self._progress = progress
        self._checking = checking
        self._leaving = leaving
        self._faults = faults

    def make(self, *, is_writable: bool) -> ready_condition.StatusInput:
        """Make the input of the next status. is_writable: whether the complete status can be written."""
        definition_sync, targets = self._definition, self._definition.targets
        return ready_condition.StatusInput(
            generation=max(0, definition_sync.generation),
            address=continue_requests.find_address(self._services.management_cluster.find_stack(self._uid)),
            group_uid=self._uid if definition_sync.is_group else "",
            is_deleting=definition_sync.is_deleting,
            target=targets.current,
            is_recorded=targets.is_persisted,
            completed=targets.completed,
            last_failed=targets.last_failed,
            rejection=definition_sync.rejection or definition_sync.cluster.refusal,
            cluster_problem=definition_sync.cluster.problem,
            handled=targets.handled,
            refreshed_parameters=definition_sync.refreshed_parameters,
            tampered=definition_sync.tampered,
            is_paused=definition_sync.options.is_paused,
            is_suspended=definition_sync.is_suspended,
            timed_out_after=definition_sync.options.timeout if self._progress.seconds_left() <= 0 else None,
            fault=self._faults.describe(besides=internal_error_backoff.STATUS if is_writable else ""),
            blocked_by=self._leaving.blocked_by,
            halted_by=self._progress.halted_by,
            check=self._checking.result,
            check_error=self._checking.error,
            polled=tuple(map(str, self._services.management_cluster.find_polled_sources(self._uid))),
        )
