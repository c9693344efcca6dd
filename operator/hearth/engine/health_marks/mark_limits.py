"""Limits on open HealthMarks, per namespace and in total. Must not know the content of a mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.model import limits, turns
from hearth.model.turns import NamespaceLine
from hearth.plan.health_mark_decision import MarkProblem


@dataclass(slots=True)
class Admission:
    """The admitted marks, in the order in which they were seen."""

    on_limit: Callable[[str], None]
    _admitted: dict[str, str] = field(default_factory=dict)
    """Namespace by UID."""
    _counts: Counter[str] = field(default_factory=Counter)
    """Number of admitted marks by namespace."""
    _refused: dict[str, str] = field(default_factory=dict)
    """Namespace by UID of the marks that wait for a slot."""
    _line: NamespaceLine = field(default_factory=NamespaceLine)
    """The same marks, in the order of their turns."""

    def admit(self, mark: HealthMarkObject) -> bool:
        """Return whether the mark is admitted; admit it if a slot is free."""
        if mark.uid in self._admitted:
            return True
        if not self._has_room(mark.namespace):
            if mark.uid not in self._refused:
                self._refused[mark.uid] = mark.namespace
                self._line.add(mark.namespace, mark.uid)
                self.on_limit("health-marks")
            return False
        self._stop_waiting(mark.uid)
        self._admitted[mark.uid] = mark.namespace
        self._counts[mark.namespace] += 1
        return True

    def release(self, uid: str) -> str | None:
        """Release a mark's slot; return the UID of a mark that may use it."""
        self._stop_waiting(uid)
        namespace = self._admitted.pop(uid, None)
        if namespace is None:
            return None
        self._counts[namespace] -= 1
        if not self._counts[namespace]:
            del self._counts[namespace]
        follower = next(filter(self._has_room, self._line.namespaces()), None)
        return self._line.call(follower) if follower is not None else None

    def _stop_waiting(self, uid: str) -> None:
        namespace = self._refused.pop(uid, None)
        if namespace is not None:
            self._line.discard(namespace, uid)

    def explain(self, namespace: str) -> MarkProblem:
        """Explain why a mark is not admitted."""
        message = (
            f"namespace {namespace} or the cluster has reached the limit of unresolved HealthMarks "
            f"({limits.HEALTH_MARKS_PER_NAMESPACE} per namespace, fewer when little is free, {limits.HEALTH_MARKS} in total); this one is processed "
            f"when there is room: delete unneeded ones"
        )
        return MarkProblem(reason="TooManyMarks", message=message)

    def _has_room(self, namespace: str) -> bool:
        held, free = self._counts[namespace], limits.HEALTH_MARKS - len(self._admitted)
        return held < turns.find_share(held, free=free, most=limits.HEALTH_MARKS_PER_NAMESPACE)
