"""Plans a Stack whose definition is unavailable: suspends its objects if `spec.suspended` is set, and nothing else.

Without a definition, no object counts as obsolete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hearth.plan.environment.environment_rules import EnvironmentRule
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.stack.suspend_planner import SuspendPlanner
from hearth.plan.state.memory import InMemoryState, Observation
from hearth.template.blueprint import Blueprint


class BlindPlanner(StackPlanner):
    """Planner of a Stack whose blueprint is unknown."""

    @property
    def is_ready(self) -> bool:
        """Return False: no resource is known."""
        return False

    @property
    def is_complete(self) -> bool:
        """Return whether all objects are suspended."""
        return self.is_suspended and super().is_complete

    def has_failed(self, memory: InMemoryState) -> bool:
        """Return whether a suspension has failed."""
        return self.is_suspended and super().has_failed(memory)

    def update_blueprint(self, blueprint: Blueprint) -> bool:  # noqa: ARG002 -- overrides one that may continue
        """Return False: a known blueprint needs another planner."""
        return False

    def find_idle_rules(self) -> Iterator[EnvironmentRule]:
        """Yield nothing: any rule may match a resource."""
        return iter(())

    def _refresh(self, dirty: Collection[str], observation: Observation) -> None:
        """Plan the suspension of the objects of the resources in `dirty`; nothing while the Stack is not suspended."""
        if self.is_suspended:
            super()._refresh(dirty, observation)

    def _refresh_suspension(self, suspension: SuspendPlanner, dirty: Collection[str], observation: Observation) -> None:
        """Plan only suspend steps. Each resource that has an object counts as wanted."""
        for view in suspension.refresh(dirty, observation):
            before = self.statuses.get(view.name)
            if before is not None or view.children:
                self._note(view.name, before, view.status)
            if before is not None and not view.children:
                self._index.forget(view.name)
            for uid, (step, wake_at) in view.plans.items():
                self._index.plan(uid, step=step, wake_at=wake_at)
