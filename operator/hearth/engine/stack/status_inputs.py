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
from hearth.model import value_class
from hearth.plan.state.memory import InMemoryState
from hearth.plan.status import ready_condition


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StatusInputs:
    """The maker of status inputs for one Stack, from the parts of its reconciler."""

    uid: str
    services: Services
    definition_sync: DefinitionSync
    progress: TargetProgress
    checking: CheckControl
    leaving: StackDeletion
    faults: Faults
    memory: InMemoryState

    def make(self, *, is_writable: bool) -> ready_condition.StatusInput:
        """Make the input of the next status. is_writable: whether the complete status can be written."""
        definition_sync, targets = self.definition_sync, self.definition_sync.targets
        return ready_condition.StatusInput(
            generation=max(0, definition_sync.generation),
            address=continue_requests.find_address(self.services.management_cluster.find_stack(self.uid)),
            group_uid=self.uid if definition_sync.is_group else "",
            is_deleting=definition_sync.is_deleting,
            target=targets.current,
            is_recorded=targets.is_persisted,
            completed=targets.completed,
            last_failed=targets.last_failed,
            rejection=definition_sync.rejection or definition_sync.cluster.refusal,
            cluster_problem=definition_sync.cluster.problem,
            handled=targets.find_persisted_tokens(has_open_runs=self.memory.has_open_runs),
            finished=self.memory.finished,
            refreshed_parameters=definition_sync.refreshed_parameters,
            tampered=definition_sync.revisions.tampered,
            is_paused=definition_sync.options.is_paused,
            is_suspended=definition_sync.is_suspended,
            timed_out_after=definition_sync.options.timeout if self.progress.seconds_left() <= 0 else None,
            fault=self.faults.describe(besides=internal_error_backoff.STATUS if is_writable else ""),
            undecided=0
            if definition_sync.is_deleting
            else self.services.relatives.count_undecided(self.uid, self.services),
            blocked_by=self.leaving.blocked_by,
            halted_by=self.progress.halted_by,
            check=self.checking.result,
            check_error=self.checking.error,
            polled=tuple(map(str, self.services.management_cluster.find_polled_sources(self.uid))),
        )
