"""Which reconcile each request of a Stack belongs to, for traces. Empty while traces are off.

Must not know steps, only their keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from hearth.engine.ports import Observer

LATEST = ""
"""In the place of a key: the latest reconcile of the Stack, which its status reports."""


class ReconcileTraces:
    """The reconciles that planned the steps in the queues."""

    def __init__(self, observer: Observer) -> None:
        """observer: what makes traces, if any."""
        self._observer = observer
        self._traces: dict[str, dict[str, object]] = {}
        """By UID of the Stack, then by key."""

    def on_planned(self, stack_uid: str, keys: Iterable[str], trace: object) -> None:
        """Record the steps that a reconcile planned. A waiting step keeps the reconcile that planned it first."""
        traces = self._traces.setdefault(stack_uid, {})
        traces[LATEST] = trace
        for key in keys:
            traces.setdefault(key, trace)

    def on_started(self, stack_uid: str, key: str) -> None:
        """Assign the requests of this task to the reconcile that planned the step."""
        traces = self._traces.get(stack_uid)
        self._observer.resume_reconcile(traces.pop(key, None) if traces is not None else None)

    def on_status_write(self, stack_uid: str) -> None:
        """Assign the requests of this task to the latest reconcile of the Stack."""
        traces = self._traces.get(stack_uid)
        self._observer.resume_reconcile(traces.get(LATEST) if traces is not None else None)

    def forget(self, stack_uid: str) -> None:
        """Drop a deleted Stack, with its steps that never started."""
        self._traces.pop(stack_uid, None)
