"""Which breakpoints are armed for a Stack now: its rules, less what was passed under the present wish. A value only."""

from __future__ import annotations

from dataclasses import dataclass

from hearth.plan.environment import cleared_breakpoints, environment_rules
from hearth.plan.environment.cleared_breakpoints import ClearedBreakpoints
from hearth.plan.environment.environment_rules import EnvironmentRules


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveEnvironment:
    """What stands in the way of a Stack's steps because its user wants so."""

    rules: EnvironmentRules = environment_rules.EMPTY
    revision: int = 0
    """The one that is wanted; what was written for another one stops nobody any more."""
    cleared: ClearedBreakpoints = cleared_breakpoints.NONE
    can_record: bool = True
    """Whether there is a wish that can be told of what is passed."""
    previous_resources: frozenset[str] = frozenset()
    """The resources that had an object before this revision was wanted, or since it was reached."""

    @property
    def is_unrestricted(self) -> bool:
        """Whether nothing is in the way of anything."""
        return self.rules.is_empty

    def stops_at(self, resource: str, hook: str) -> bool:
        """Whether that resource stops there now."""
        return (
            self.rules.find_breakpoint(resource, hook) is not None
            and cleared_breakpoints.breakpoint_key(resource, hook) not in self.cleared.keys
        )


UNRESTRICTED = ActiveEnvironment()
