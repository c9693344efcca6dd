"""The environment of a Stack in force now: its rules, without the breakpoints cleared under the target. A value only."""

from __future__ import annotations

from hearth.model import value_class
from hearth.plan.environment import cleared_breakpoints, environment_rules
from hearth.plan.environment.cleared_breakpoints import ClearedBreakpoints
from hearth.plan.environment.environment_rules import EnvironmentRules


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ActiveEnvironment:
    """Restrictions on the steps of a Stack that its user set."""

    rules: EnvironmentRules = environment_rules.EMPTY
    key: str = ""
    """What stops are recorded under on objects: see `Target.breakpoint_key`. One under another key no longer applies."""
    cleared: ClearedBreakpoints = cleared_breakpoints.NONE
    can_record: bool = True
    """Whether there is a target that can record cleared breakpoints."""
    previous_resources: frozenset[str] = frozenset()
    """The resources that had an object before this target, or since it completed."""

    @property
    def is_unrestricted(self) -> bool:
        """Return whether there are no rules."""
        return self.rules.is_empty

    def stops_at(self, resource: str, hook: str) -> bool:
        """Return whether the resource stops at that hook now."""
        return self.rules.find_breakpoint(resource, hook) is not None and not self.cleared.has(resource, hook)


UNRESTRICTED = ActiveEnvironment()
