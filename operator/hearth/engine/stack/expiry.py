"""The end of a Stack with `spec.expiresAfter`: when it is deleted, and the request to delete it.

The time depends only on the creation of the Stack, its spec and the clock of the operator, so a restart changes nothing.
The children are deleted as for any other deletion, see `hearth.engine.stack.stack_deletion`.
"""

from __future__ import annotations

import math

import structlog

from hearth import answers
from hearth.engine.cluster_objects import StackObject
from hearth.engine.stack import protection
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import instance_fields, retry_delays
from hearth.model.errors import ApiStatusError
from hearth.model.text import times
from hearth.plan.stack import options

logger = structlog.get_logger(__name__)

NOTICE = 3600.0
"""Seconds between the warning and the deletion."""
NOTICE_SHARE = 0.1
"""The same as a share of the lifetime; the longer period counts."""
SOON = 1.0
"""Half the seconds until the operator looks again at a Stack that changed at the moment of its deletion; this doubles."""
EXPIRED = "Expired"
"""The reason of the Event of the deletion."""
TASK = "delete the expired Stack"


class Expiry(StackPart):
    """The known end of one Stack."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self.expires_at: float | None = None
        """When the Stack is deleted, in seconds since the epoch; None for never."""
        self.warning = ""
        """That this is soon, or overdue, and the ways out; "" as long as there is time."""
        self.seconds_left = math.inf
        """Seconds until the warning or the deletion."""
        self._problem = ""
        """Why the API server rejected the deletion; "" if it did not."""
        self._delay = SOON
        """Seconds from the last request to the next one."""
        self._retry_at = -math.inf
        """Monotonic time in seconds of the next allowed request."""

    def update(self, stack: StackObject) -> None:
        """Find the end of the Stack, and request its deletion when that time has come."""
        self.expires_at, self.warning, self.seconds_left = None, "", math.inf
        lifetime = self._definition_sync.options.expires_after
        if lifetime is None or stack.deleting:
            return
        self.expires_at = self._find_end(stack)
        if self.expires_at is None:
            return
        left = self.expires_at - self._services.clock.now()
        if left > 0:
            self._delay, self._retry_at, self._problem = SOON, -math.inf, ""
        notice = max(NOTICE, lifetime * NOTICE_SHARE)
        self.seconds_left = left - notice if left > notice else left
        if left > notice:
            return
        self.warning = self._explain(stack, self.expires_at, lifetime, is_overdue=left <= 0)
        if left <= 0 and not self._definition_sync.options.is_paused and self._may_ask():
            self._tasks.run(TASK, self._delete)

    def _find_end(self, stack: StackObject) -> float | None:
        """Return when the Stack is deleted, or None if it does not expire or is protected."""
        end, blueprint = find_end(stack), self._definition_sync.blueprint
        if end is None or protection.find_within(self._uid, self._services, blueprint=blueprint):
            return None
        return end

    def _may_ask(self) -> bool:
        """Return whether a request may be sent now; if not, the next look is scheduled for when it may."""
        self.seconds_left = self._retry_at - self._services.clock.monotonic()
        return self.seconds_left <= 0 and TASK not in self._tasks

    def _explain(self, stack: StackObject, end: float, lifetime: float, *, is_overdue: bool) -> str:
        spec = f"spec.{instance_fields.OPTIONS}" if stack.definition else "spec"
        text = f"will be deleted at {times.format_time(end)}, {times.format_duration(lifetime)} after its creation"
        if is_overdue and self._definition_sync.options.is_paused:
            text += f", as soon as {spec}.paused is no longer true"
        elif is_overdue and self._problem:
            text += f"; the API server rejects that: {self._problem}"
        return f"{text}; to keep it, extend or remove {spec}.expiresAfter, or set {spec}.protected to true"

    async def _delete(self) -> None:
        """Delete the Stack in exactly the version whose end has come, so that an edit at the last moment wins."""
        stack, now = self._services.management_cluster.find_stack(self._uid), self._services.clock.now()
        end = find_end(stack) if stack is not None and not stack.deleting else None
        if stack is None or end is None or end > now or options.parse(stack.settings).is_paused:
            return
        self._problem = ""
        # The watch event of the deletion may arrive after the next look, so delay the next request.
        self._delay = min(2 * self._delay, retry_delays.EXPIRY.longest)
        error = await answers.find_error(self._services.management_cluster.delete_stack(stack))
        if error is not None and not (isinstance(error, ApiStatusError) and error.is_conflict):
            self._delay, self._problem = retry_delays.EXPIRY.first, str(error)
            logger.warning("cannot delete an expired Stack; retrying", stack=stack.uid, error=str(error))
        self._retry_at = self._services.clock.monotonic() + self._delay
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)
        if error is not None:
            return
        logger.info("deleted an expired Stack", stack=stack.uid)
        message = f"deleted because expiresAfter, {stack.settings['expiresAfter']}, is over"
        await self._services.management_cluster.emit_event(stack, type_="Normal", reason=EXPIRED, message=message)


def find_end(stack: StackObject) -> float | None:
    """Return when a Stack must be deleted, in seconds since the epoch; None if it is protected or has no end."""
    lifetime = options.parse(stack.settings).expires_after
    if lifetime is None or not stack.created_at or protection.explain_own(stack):
        return None
    return times.parse_time(stack.created_at) + lifetime
