"""Rehearses the way back of a change: interrupts it after each step on a copy, rolls it back, and compares.

The API server checks each write of the way forward in a dry run. It does not know the changed objects, so it accepts
every way back; the grades of the changes and the rule about claims find what it would refuse.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

from hearth import supervision
from hearth.engine.ports import Evaluations
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model import object_fields, phases, value_class
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.text import redaction
from hearth.plan.ownership import field_changes
from hearth.plan.resource import reversal
from hearth.plan.resource.reversal import UndoGrade
from hearth.plan.state import steps
from hearth.plan.state.steps import Delete, Detach, Step
from hearth.preview import empty_cluster, object_copies, preview_world, previews, recognition
from hearth.preview.changes import Action, Change, Preview
from hearth.preview.copied_workload_cluster import CopiedWorkloadCluster
from hearth.preview.live_cluster import LiveCluster
from hearth.preview.object_copies import ObjectCopy
from hearth.preview.preview_run import PreviewRun
from hearth.preview.preview_world import PreviewRequest, PreviewWorld, StandingClock, WorldParts

MOST_RUNS: Final = 50
"""Runs of a rehearsal, unless the user asks for all."""
INVALID: Final = 422
SHRINKS: Final = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
NO_REVISION: Final = "the Stack has completed no revision, so a rollback has no target; wait until it is ready"
UNSETTLED: Final = "the Stack is in phase {phase}, so there is no state to return to; wait until it is complete"
IDLE: Final = "spec.{option} is true, so the operator does not apply the change; rehearse it without this option"
UNFINISHED: Final = (Action.FAIL, Action.STOP, Action.WAIT)

OpenEvaluations: TypeAlias = Callable[[], AbstractAsyncContextManager[Callable[[WorkQueue], Evaluations]]]
"""Opens the evaluator of slow expressions for one run."""


@value_class.dataclass(frozen=True, slots=True)
class LastStep:
    """The step after which a change is interrupted."""

    verb: str
    """`create`, `update`, `delete`, or `try` for a step without effect."""
    ref: ObjectRef


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """The result of one interrupted and reverted change."""

    steps: int
    """Executed steps before the interruption."""
    last: LastStep | None = None
    """The last of them; None if there was none."""
    differences: tuple[Change, ...] = ()
    """How the objects differ from the start: a created one is left behind, a replaced one is new, a deleted one is missing."""
    failures: tuple[str, ...] = ()
    """Why the rollback does not end."""
    irreversible: tuple[Change, ...] = ()
    """Executed changes whose grade is not reversible."""

    @property
    def is_reverted(self) -> bool:
        """Return whether everything is as before."""
        return not (self.differences or self.failures or self.irreversible)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The way back of a change of one Stack."""

    preview: Preview
    """The change itself."""
    total: int = 0
    """Steps of the whole change."""
    interruptions: tuple[Interruption, ...] = ()

    @property
    def unrehearsed(self) -> tuple[Change, ...]:
        """Return the changes that stop, wait or fail, so that no run executes them."""
        return tuple(each for each in self.preview.changes if each.action in UNFINISHED)

    @property
    def is_reverted(self) -> bool:
        """Return whether everything comes back, wherever the change stops, and every part of it was rehearsed."""
        return not self.unrehearsed and all(each.is_reverted for each in self.interruptions)


async def rehearse(
    live: LiveCluster,
    request: PreviewRequest,
    *,
    now: float,
    open_evaluations: OpenEvaluations,
    rehearses_all: bool = False,
    report: Callable[[int, int], None] = lambda _done, _total: None,
) -> Rehearsal:
    """Return the way back of a change; nothing is written. Raises ApiStatusError, Unreachable or PreviewFailed.

    now: seconds since the epoch; rehearses_all: whether to interrupt a change of many steps after each of them; report:
    called with the finished and all runs.
    """
    check_request(request)
    remembered = RememberedCluster(live)
    rehearser = Rehearser(remembered, request, now=now, open_evaluations=open_evaluations)
    preview, total = await rehearser.run_forward()
    if preview.rejection:
        return Rehearsal(preview=preview)
    limits = choose_limits(total, most=total + 1 if rehearses_all else MOST_RUNS)
    found = []
    for done, limit in enumerate(limits):
        report(done, len(limits))
        found.append(await rehearser.interrupt(limit))
    return Rehearsal(preview=preview, total=total, interruptions=tuple(found))


def check_request(request: PreviewRequest) -> None:
    """Raise PreviewFailed for a Stack that does not apply the change, or that has no complete state to return to."""
    for option in ("paused", "suspended"):
        if object_fields.mapping(request.wanted, "spec").get(option) is True:
            raise previews.PreviewFailed(IDLE.format(option=option))
    phase = object_fields.text(request.present, "status", "phase") if request.present is not None else ""
    if phase and not phase.endswith(("Complete", phases.Phase.CHECK_FAILED)):
        raise previews.PreviewFailed(UNSETTLED.format(phase=phase))


def choose_limits(total: int, *, most: int) -> list[int]:
    """Return the numbers of steps after which to interrupt: all, or evenly chosen ones with the first and the last."""
    if total < most:
        return list(range(total + 1))
    return [at * total // (most - 1) for at in range(most)]


class Rehearser:
    """Runs one change again and again, each time on a new copy."""

    def __init__(
        self, live: LiveCluster, request: PreviewRequest, *, now: float, open_evaluations: OpenEvaluations
    ) -> None:
        self._live = live
        self._request = request
        self._now = now
        self._open_evaluations = open_evaluations

    async def run_forward(self) -> tuple[Preview, int]:
        """Return the preview of the whole change, and the number of its steps."""
        async with self._open_evaluations() as evaluate:
            run, before = await self._make_run(evaluate)
            with Faults() as faults:
                await run.run()
            faults.check()
            hide = previews.make_filter(run.world, before=before, applied=run.recorder.stated)
            changes = [hide(each) for each in await previews.list_changes(run)]
            return previews.assemble(run, changes), run.step_count

    async def interrupt(self, limit: int) -> Interruption:
        """Return the result of the change that is interrupted after so many steps, and reverted."""
        async with self._open_evaluations() as evaluate:
            run, before = await self._make_run(evaluate)
            start = list(run.world.copies)
            run.step_limit = limit
            try:
                with Faults() as faults:
                    run.begin()
                    base = run.reconciler.definition.targets.completed.last
                    await run.proceed()
                    executed = list(run.recorder.changes)
                    last = describe_step(run.last_step, executed) if run.last_step is not None else None
                    if self._request.present is not None:
                        await revert(run, base)
                faults.check()
                hide = previews.make_filter(run.world, before=before, applied=run.recorder.stated)
                found = self._compare(run, start, limit, [hide(each) for each in executed], hide)
                return dataclasses.replace(found, last=last)
            finally:
                run.reconciler.close()

    async def _make_run(
        self, evaluate: Callable[[WorkQueue], Evaluations]
    ) -> tuple[PreviewRun, Mapping[str, Sequence[Object]]]:
        parts = WorldParts(clock=StandingClock(self._now), make_cluster=RehearsalCluster)
        world = preview_world.make_world(self._live, self._request, now=self._now, evaluate=evaluate, parts=parts)
        if world.stack.kubeconfig is not None:
            raise previews.PreviewFailed(previews.ELSEWHERE)
        await preview_world.read_children(world)
        before = await recognition.recognize(world)
        if isinstance(world.cluster, RehearsalCluster):
            world.cluster.start.update({each.child.uid: each for each in world.copies})
        return PreviewRun(world), before

    def _compare(
        self,
        run: PreviewRun,
        start: Sequence[ObjectCopy],
        limit: int,
        executed: Sequence[Change],
        hide: Callable[[Change], Change],
    ) -> Interruption:
        world = run.world
        end = list(world.copies) if self._request.present is not None else find_outliving(world)
        texts = frozenset(world.builder.sensitive_texts)
        failures = []
        if self._request.present is not None:
            rejection = run.reconciler.definition.rejection
            failures = [rejection.message] if rejection is not None else []
            failures += [
                f"{each.resource}: {each.reason or each.hook or each.action}"
                for each in previews.list_unfinished(run)
                if each.action in UNFINISHED
            ]
        return Interruption(
            steps=limit,
            differences=tuple(hide(each) for each in list_differences(start, end, world)),
            failures=tuple(redaction.redact(each, texts) for each in failures),
            irreversible=tuple(
                each for each in executed if each.undo is not None and each.undo.grade is not UndoGrade.REVERSIBLE
            ),
        )


def describe_step(step: Step, executed: Sequence[Change]) -> LastStep:
    """Return what a step does. executed: the changes so far."""
    ref = steps.find_ref(step)
    if isinstance(step, Delete | Detach):
        return LastStep("delete", ref)
    change = next((each for each in reversed(executed) if each.ref == ref), None)
    return LastStep(str(change.action) if change is not None else "try", ref)


async def revert(run: PreviewRun, base: int | None) -> None:
    """Roll the Stack back to a revision, as its user does."""
    if base is None:
        raise previews.PreviewFailed(NO_REVISION)
    world, present = run.world, run.world.stack
    spec = object_fields.mapping(world.request.wanted, "spec")
    options = {key: value for key, value in object_fields.mapping(spec, "rollback").items() if key != "toSnapshot"}
    wanted = {**world.request.wanted, "spec": {**spec, "rollback": {**options, "toRevision": base}}}
    usual = {"resourceVersion": str(present.resource_version + 1), "generation": present.generation + 1}
    metadata = {**wanted["metadata"], **usual}
    made = preview_world.parse(world.request, usual, {**wanted, "metadata": metadata})
    world.management.stack = dataclasses.replace(
        made, finalizers=present.finalizers, packed_status=present.packed_status
    )
    run.step_limit, run.is_rolled_back = None, False
    for scope in (DirtyScope.STACK, DirtyScope.ALL_RESOURCES):
        world.services.queue.enqueue(present.uid, scope)
    await run.proceed()


def find_outliving(world: PreviewWorld) -> list[ObjectCopy]:
    """Return the objects that stay when the new Stack is deleted."""
    copies = list(world.copies)
    return [each for each in copies if each.child.must_not_delete or previews.find_contents(each.child, copies)]


def list_differences(start: Sequence[ObjectCopy], end: Sequence[ObjectCopy], world: PreviewWorld) -> Iterator[Change]:
    """Yield the differences between the objects at the start and at the end."""
    left = {each.child.uid: each for each in end}
    before = {each.child.uid for each in start}
    added = {each.child.resource: each.child for each in end if each.child.uid not in before}
    for each in start:
        child = each.child
        after = left.get(child.uid)
        if after is not None:
            fields = [
                found
                for found in field_changes.find_changes(each.raw, after.raw)
                if not world.assumptions.unknown.is_within(found.new)
            ]
            is_released = child.stack_uid != after.child.stack_uid
            if fields or is_released:
                reason = "it has no owner" if is_released else ""
                yield Change(
                    action=Action.UPDATE, resource=child.resource, ref=child.ref, fields=tuple(fields), reason=reason
                )
        elif (new := added.pop(child.resource, None)) is not None:
            yield Change(action=Action.REPLACE, resource=child.resource, ref=new.ref, old_ref=child.ref)
        else:
            yield Change(action=Action.DELETE, resource=child.resource, ref=child.ref)
    for resource, child in added.items():
        yield Change(action=Action.CREATE, resource=resource, ref=child.ref)


class Faults:
    """Collects the internal errors of a run."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._using = supervision.using(supervision.Supervisor(on_error=self._found.append))

    def __enter__(self) -> Faults:
        self._using.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._using.__exit__(*error)

    def check(self) -> None:
        """Raise PreviewFailed if there was an error."""
        if self._found:
            named = ", ".join(dict.fromkeys(self._found))
            raise previews.PreviewFailed(f"internal error in the rehearsal ({named}); its result is unknown")


class RehearsalCluster(CopiedWorkloadCluster):
    """The cluster of the children, with rules for the way back that a dry run on the live object cannot check."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.start: dict[str, ObjectCopy] = {}
        """The objects at the start, by UID."""

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Apply the manifest, unless a claim would shrink. An object that is as at the start also has its status of then."""
        known = self._copies.find(object_copies.find_place(kind, manifest))
        if kind.key == reversal.CLAIM and known is not None:
            old, new = (object_fields.find(each, *reversal.STORAGE) for each in (known.raw, manifest))
            if new is not None and reversal.is_larger(old, new):
                raise empty_cluster.refuse(INVALID, "Invalid", SHRINKS, kind=kind.name, name=known.child.name)
        child = await super().apply(manifest, kind=kind, manager=manager, force=force)
        start, now = self.start.get(child.uid), self._copies.find(object_copies.place_of(child.ref))
        if start is None or now is None or field_changes.find_changes(start.raw, now.raw):
            return child
        self._unknown.objects.discard(child.uid)
        if "status" not in start.raw:
            return child
        return self._copies.put({**now.raw, "status": start.raw["status"]}, kind=kind, is_live=now.is_live)


class RememberedCluster:
    """The live cluster, which gets each request only once: all runs of a rehearsal see the same state."""

    def __init__(self, live: LiveCluster) -> None:
        self._live = live
        self._answers: dict[str, Any] = {}

    @property
    def kinds(self) -> Kinds:
        """The kinds that the cluster serves."""
        return self._live.kinds

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Make the schemas of these kinds available."""
        await self._live.load_schemas(kinds)

    async def _remember(self, key: tuple[object, ...], send: Callable[[], Awaitable[Any]]) -> Any:
        text = repr(key)
        if text not in self._answers:
            try:
                self._answers[text] = await send()
            except ApiStatusError as refused:
                self._answers[text] = refused
        answer = self._answers[text]
        if isinstance(answer, ApiStatusError):
            raise answer
        return copy.deepcopy(answer)

    async def list_children(self, kind: Kind, stack_uid: str) -> list[Object]:
        """Return the objects with the label of that Stack."""
        found: list[Object] = await self._remember(
            ("children", kind, stack_uid), lambda: self._live.list_children(kind, stack_uid)
        )
        return found

    async def list_objects(self, kind: Kind, namespace: str, *, selector: str) -> list[Object]:
        """Return the objects with these labels."""
        found: list[Object] = await self._remember(
            ("list", kind, namespace, selector), lambda: self._live.list_objects(kind, namespace, selector=selector)
        )
        return found

    async def get(self, ref: ObjectRef, *, kind: Kind, user: str = "") -> Object:
        """Return the object."""
        found: Object = await self._remember(("get", ref, user), lambda: self._live.get(ref, kind=kind, user=user))
        return found

    async def try_apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool, user: str = "") -> Object:
        """Return the result of a server-side apply in a dry run."""
        found: Object = await self._remember(
            ("apply", manifest, kind, manager, force, user),
            lambda: self._live.try_apply(manifest, kind=kind, manager=manager, force=force, user=user),
        )
        return found

    async def try_create(self, manifest: Object, *, kind: Kind, user: str = "") -> Object:
        """Return the result of a create in a strict dry run."""
        found: Object = await self._remember(
            ("create", manifest, kind, user), lambda: self._live.try_create(manifest, kind=kind, user=user)
        )
        return found

    async def try_change(self, ref: ObjectRef, patch: Object, *, kind: Kind, user: str = "") -> Object:
        """Return the result of a merge patch in a dry run."""
        found: Object = await self._remember(
            ("change", ref, patch, user), lambda: self._live.try_change(ref, patch, kind=kind, user=user)
        )
        return found

    async def try_delete(self, ref: ObjectRef, *, kind: Kind, uid: str, user: str = "") -> None:
        """Delete exactly this object in a dry run."""
        await self._remember(
            ("delete", ref, uid, user), lambda: self._live.try_delete(ref, kind=kind, uid=uid, user=user)
        )

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "", user: str = "") -> bool:
        """Return whether the user may do that."""
        allowed: bool = await self._remember(
            ("allowed", verb, kind, namespace, name, user),
            lambda: self._live.is_allowed(verb, kind=kind, namespace=namespace, name=name, user=user),
        )
        return allowed
