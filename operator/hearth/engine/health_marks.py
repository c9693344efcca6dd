"""Brings what HealthMarks say onto the objects that they mean, and tells in their statuses what came of it.

A loop of its own beside the passes: it writes a word onto a child, and the pass that sees it there decides. What is to be
done about one mark is decided in `hearth.plan.marking`, from what is there; nothing is remembered that matters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass

import structlog

from hearth.engine import execution, routes
from hearth.engine.executor import Executor
from hearth.engine.inbox import EVERYTHING, STACK
from hearth.engine.places import Place, Places
from hearth.engine.ports import MarkObject, StackObject
from hearth.engine.routes import Route
from hearth.engine.runner import Runner
from hearth.engine.services import Services
from hearth.model import names
from hearth.model.errors import Refused, Unreachable
from hearth.plan import attempts, marking, report, steps
from hearth.plan.attempts import Attempt, Trouble
from hearth.plan.marking import Said, Verdict, View

logger = structlog.get_logger(__name__)

WORKERS = 4
RETRY = 2.0
"""Seconds until a status that could not be written is tried again."""
LOOK_FOR_TARGETS = 5.0
"""Seconds between two looks for an object that no Stack was found to have."""
LOOK = "look"
"""The one key of each HealthMark in the queue."""
MOST_ROUNDS = 8
"""Looks in a row at one mark, each of which follows from what the one before has written: more are a mistake of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Where a mark was last seen to lead."""

    route: Route
    is_open: bool
    """Whether anything may still come of it."""


class HealthMarks:
    """The one writer of HealthMarks' statuses, and of what they say onto children."""

    def __init__(self, services: Services, *, find_runner: Callable[[str], Runner | None]) -> None:
        """Nothing is looked at before `start`."""
        self._services = services
        self._places = Places(services=services, find_runner=find_runner)
        self._executor = Executor(workers=WORKERS, take_step=self._look, clock=services.clock)
        self._known: dict[str, Known] = {}
        self._by_place: dict[tuple[str, str], dict[str, set[str]]] = {}
        """By namespace and Stack, then by resource its marks."""
        self._attempts: dict[str, Attempt] = {}
        self._timers: dict[str, Callable[[], None]] = {}
        """By mark what cancels the next look at it."""
        self._busy: set[str] = set()
        self._again: set[str] = set()

    def start(self) -> None:
        """Begin, with every mark that there is."""
        self._executor.start()
        self.take(self._services.marks.marks())

    async def stop(self) -> None:
        """End at once."""
        for uid in list(self._timers):
            self._cancel(uid)
        await self._executor.stop()

    def take(self, uids: Collection[str]) -> None:
        """Have these marks looked at. All are noted before, so that each knows of the others on the same resource."""
        for uid in uids:
            mark = self._services.marks.find_mark(uid)
            if mark is not None and self._places.is_plain(mark):
                self._note(uid, routes.find_route(mark, self._places), is_open=not read(mark).is_resolved)
            if uid in self._busy:
                self._again.add(uid)
            else:
                self._executor.offer(uid, [LOOK])

    def hear(self, stack: StackObject, what: Collection[str]) -> None:
        """A pass looks at that much of a Stack: so must the marks on it. Costs one lookup where there is none."""
        self._places.note(stack)
        by_resource = self._by_place.get((stack.namespace, stack.name))
        if by_resource is None:
            return
        if EVERYTHING in what or STACK in what:
            concerned = list(by_resource)
        else:
            concerned = [name for name in by_resource if name in what]
        self.take([uid for name in concerned for uid in by_resource[name] if self._known[uid].is_open])

    def forget(self, stack_uid: str) -> None:
        """That Stack is gone: the marks on it have done their work."""
        where = self._places.forget(stack_uid)
        by_resource = self._by_place.get(where, {}) if where is not None else {}
        self.take([uid for uids in by_resource.values() for uid in uids if self._known[uid].is_open])

    async def _look(self, uid: str, _key: str) -> None:
        """Do about one mark what can be done now."""
        self._busy.add(uid)
        try:
            for _ in range(MOST_ROUNDS):
                if not await self._advance(uid):
                    break
            else:
                logger.error("internal error", mark=uid, reason="a HealthMark does not come to rest")
        except Exception:
            logger.exception("internal error at a HealthMark", mark=uid)
        finally:
            self._busy.discard(uid)
            if uid in self._again:
                self._again.discard(uid)
                self.take([uid])

    async def _advance(self, uid: str) -> bool:
        """One step; whether it is worth to look again at once."""
        mark = self._services.marks.find_mark(uid)
        if mark is None:
            self._note(uid, None)
            self._attempts.pop(uid, None)
            self._cancel(uid)
            return False
        said = read(mark)
        route = routes.find_route(mark, self._places)
        now = self._services.clock.now()
        self._note(uid, route, is_open=not said.is_resolved)
        if not self._places.is_ours(mark, route.speaker):
            return self._leave(mark, said, route)
        if not route.places:
            self._later(uid, LOOK_FOR_TARGETS)
        view = None if said.is_resolved else self._see(mark, said, route)
        if view is None:
            return False
        verdict = marking.judge(said, view, now=now)
        return await (self._carry_out(mark, said, view, verdict.step) if verdict.step else self._write(mark, verdict))

    def _leave(self, mark: MarkObject, said: Said, route: Route) -> bool:
        """Nothing to be done here about a mark, as long as another process knows its Stack, or may."""
        if not said.is_resolved and (route.speaker is None or self._services.share.has(mark.uid)):
            self._later(mark.uid, LOOK_FOR_TARGETS)
        return False

    def _see(self, mark: MarkObject, said: Said, route: Route) -> View | None:
        place = route.goal
        if place is None:
            return route.dead_end
        view = self._places.look(mark, place)
        newer = self._find_newer(mark, said, place) if view is not None and view.bound is not None else ""
        return dataclasses.replace(view, newer=newer) if view is not None and newer else view

    def _find_newer(self, mark: MarkObject, said: Said, place: Place) -> str:
        """A newer mark on the same object that says the contrary."""
        uids = self._by_place.get((place.namespace, place.stack), {}).get(place.resource, ())
        others = (self._services.marks.find_mark(uid) for uid in uids)
        newer = [
            other.name
            for other in others
            if other is not None
            and other.status.get("observedUID") in (None, mark.status["observedUID"])
            and (other.written_at, other.name) > (mark.written_at, mark.name)
            and read(other).is_unhealthy != said.is_unhealthy
            and self._known[other.uid].route.goal == place
        ]
        return min(newer, default="")

    async def _carry_out(self, mark: MarkObject, said: Said, view: View, step: steps.Mark) -> bool:
        """Write the word onto the object."""
        clock, attempt = self._services.clock, self._attempts.get(mark.uid)
        if attempt is not None and attempt.subject == steps.subject(step) and attempt.next_try > clock.monotonic():
            self._later(mark.uid, attempt.next_try - clock.monotonic())
            return False
        manager = names.manager(mark.namespace, view.stack)
        result = await execution.take(
            step,
            cluster=self._services.cluster,
            manager=manager,
            may_exist=self._services.may_exist,
            ours=self._services.hashes,
        )
        if not isinstance(result, Trouble):
            self._attempts.pop(mark.uid, None)
            # Our own write is no news to the cache, so the pass that decides about it is woken here.
            self._services.inbox.mark(step.child.stack_uid, step.child.resource)
            return True
        attempt = attempts.after_failure(
            attempt,
            result,
            subject=steps.subject(step),
            now=clock.monotonic(),
            patience=self._services.patience,
        )
        self._attempts[mark.uid] = attempt
        self._later(mark.uid, attempt.next_try - clock.monotonic())
        answer = marking.wait(result.reason, result.message)
        status = marking.tell(said, view, answer, uid=step.child.uid, now=clock.now())
        await self._write(mark, Verdict(status=status))
        return False

    async def _write(self, mark: MarkObject, verdict: Verdict) -> bool:
        """Write the status where it says something else; whether it did."""
        patch = report.find_changes(mark.status, verdict.status) if verdict.status is not None else None
        if not patch:
            return False
        try:
            await self._services.marks.write_mark_status(mark, patch)
        except (Refused, Unreachable) as error:
            logger.warning("cannot write the status of a HealthMark", mark=mark.uid, error=str(error))
            self._later(mark.uid, RETRY)
            return False
        return True

    def _later(self, uid: str, delay: float) -> None:
        """Have a mark looked at again after so many seconds, and not twice."""
        self._cancel(uid)
        self._timers[uid] = self._services.clock.call_later(delay, lambda: self.take([uid]))

    def _cancel(self, uid: str) -> None:
        cancel = self._timers.pop(uid, None)
        if cancel is not None:
            cancel()

    def _note(self, uid: str, route: Route | None, *, is_open: bool = True) -> None:
        """Remember whom a mark is about; None: it is gone."""
        before = self._known.pop(uid, None)
        for place in before.route.places if before is not None else ():
            self._drop(uid, place)
        if route is None:
            return
        self._known[uid] = Known(route=route, is_open=is_open)
        for place in route.places:
            self._by_place.setdefault((place.namespace, place.stack), {}).setdefault(place.resource, set()).add(uid)

    def _drop(self, uid: str, place: Place) -> None:
        by_resource = self._by_place.get((place.namespace, place.stack), {})
        found = by_resource.get(place.resource, set())
        found.discard(uid)
        if not found:
            by_resource.pop(place.resource, None)
        if not by_resource:
            self._by_place.pop((place.namespace, place.stack), None)


def read(mark: MarkObject) -> Said:
    """What a HealthMark says."""
    return Said(
        name=mark.name,
        generation=mark.generation,
        written_at=mark.written_at,
        is_unhealthy=bool(mark.spec["markUnhealthy"]),
        reason=mark.spec.get("reason") or "",
        status=mark.status,
    )
