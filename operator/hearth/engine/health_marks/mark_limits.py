"""How many open HealthMarks are looked after: so many in a namespace, and in all. Must not know what a mark is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hearth.engine.ports import HealthMarkObject
from hearth.model import limits
from hearth.plan.health_mark_decision import MarkProblem


@dataclass(slots=True)
class Admission:
    """Which marks have a place, in the order in which they were seen."""

    on_limit: Callable[[str], None]
    _admitted: dict[str, str] = field(default_factory=dict)
    """By UID the namespace."""
    _counts: Counter[str] = field(default_factory=Counter)
    """By namespace."""
    _refused: dict[str, str] = field(default_factory=dict)
    """Those that wait for a place, as above."""

    def admit(self, mark: HealthMarkObject) -> bool:
        """Whether the mark has a place; it gets one where there is room."""
        if mark.uid in self._admitted:
            return True
        if not self._has_room(mark.namespace):
            if mark.uid not in self._refused:
                self._refused[mark.uid] = mark.namespace
                self.on_limit("health-marks")
            return False
        self._refused.pop(mark.uid, None)
        self._admitted[mark.uid] = mark.namespace
        self._counts[mark.namespace] += 1
        return True

    def release(self, uid: str) -> str | None:
        """Take a mark's place away; the UID of one that may have it."""
        self._refused.pop(uid, None)
        namespace = self._admitted.pop(uid, None)
        if namespace is None:
            return None
        self._counts[namespace] -= 1
        if not self._counts[namespace]:
            del self._counts[namespace]
        return next((other for other, theirs in self._refused.items() if self._has_room(theirs)), None)

    def explain(self, namespace: str) -> MarkProblem:
        """Why a mark has no place."""
        message = (
            f"namespace {namespace} or the cluster has as many HealthMarks that are not resolved as are looked after "
            f"({limits.HEALTH_MARKS_PER_NAMESPACE}, and {limits.HEALTH_MARKS} in all); this one is looked at when there is room: "
            f"delete those that are not needed"
        )
        return MarkProblem(reason="TooManyMarks", message=message)

    def _has_room(self, namespace: str) -> bool:
        return len(self._admitted) < limits.HEALTH_MARKS and (
            self._counts[namespace] < limits.HEALTH_MARKS_PER_NAMESPACE
        )
