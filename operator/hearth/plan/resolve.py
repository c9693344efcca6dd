"""One resource: what it is to be, which object stands for it, and what is to be done about the difference."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hearth.model.child import Child
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.plan import desired, health, ownership, steps
from hearth.plan.desired import Desired, Hashes, Standpoint
from hearth.plan.standing import Standing, State
from hearth.plan.steps import Apply
from hearth.plan.world import Memory
from hearth.template.blueprint import Blueprint, Broken, Evaluable, Known, Pending, ResourceBlueprint, StackIdentity

NAMED_AT_MOST = 5
"""Names in a message; a person reads no more, and the rest shows as a number."""

KIND_NOT_AVAILABLE = "KindNotAvailable"
"""The reason of a resource whose kind is not served, or not watched yet."""


class Resolver:
    """Judges the resources of one blueprint; remembers evaluated manifests while their inputs stay the same."""

    def __init__(
        self,
        *,
        blueprint: Blueprint,
        stack: StackIdentity,
        kinds: Kinds,
        hashes: Hashes,
        unwatched: Collection[Kind],
        only_namespace: str,
    ) -> None:
        """Nothing is evaluated before it is asked for."""
        self._unwatched = unwatched
        self._only_namespace = only_namespace
        self._blueprint = blueprint
        self._stack = stack
        self._kinds = kinds
        self._hashes = hashes
        self._desired: dict[str, tuple[object, Desired]] = {}
        self._claims: dict[ObjectRef, str] = {}

    def judge(
        self,
        name: str,
        standings: Mapping[str, Standing],
        children: tuple[Child, ...],
        *,
        memory: Memory,
        now: float,
    ) -> Standing:
        """Where the resource stands and what to do next.

        standings: of everything that it requires; children: the objects that carry its label; now: monotonic seconds.
        """
        resource = self._blueprint.resources[name]
        current = find_current(children)
        unready = [required for required in resource.requires if not standings[required].is_ready]
        if unready:
            return waiting(f"waits for {enumerate_names(unready)}", child=current)
        outcome = self._evaluate(resource, standings)
        if not isinstance(outcome, Desired):
            return _told(outcome, child=current)
        if self._only_namespace and outcome.ref.namespace not in ("", self._only_namespace):
            message = f"lies in namespace {outcome.ref.namespace}, and this operator serves {self._only_namespace} only"
            return Standing(state=State.FAILED, reason="NamespaceNotServed", message=message, ref=outcome.ref)
        other = self._claims.setdefault(outcome.ref, name)
        if other != name:
            message = f"names the object that resource {other!r} stands for; give it another name or namespace"
            return Standing(state=State.FAILED, reason="DuplicateObject", message=message, ref=outcome.ref)
        child = find_child(children, outcome.ref)
        if child is None or needs_apply(child, outcome, memory):
            return to_apply(name, outcome, child, memory=memory, now=now)
        return self._watch(resource, child, standings)

    def find_desired(self, name: str) -> Desired | None:
        """What the resource is to be, as it was evaluated last."""
        known = self._desired.get(name)
        return known[1] if known is not None else None

    def misses_kinds(self, standings: Mapping[str, Standing]) -> bool:
        """Whether the cluster does not serve the kind of some resource, or did not when that was judged."""
        return any(
            self._kinds.find(resource.api_version, resource.kind) is None
            or standings[resource.name].reason == KIND_NOT_AVAILABLE
            for resource in self._blueprint.resources.values()
            if resource.name in standings
        )

    def _evaluate(
        self, resource: ResourceBlueprint, standings: Mapping[str, Standing]
    ) -> Desired | Pending | Broken | str:
        """What the resource is to be; a text where its kind is not served or not watched."""
        kind = self._kinds.find(resource.api_version, resource.kind)
        if kind is None:
            return f"the cluster serves no kind {resource.kind} in {resource.api_version}; it goes on when that appears"
        if kind in self._unwatched:
            return f"{kind.key} objects cannot be watched yet; it goes on when they can"
        inputs = (kind, *(standings[required].signature for required in resource.requires))
        known = self._desired.get(resource.name)
        if known is not None and known[0] == inputs:
            return known[1]
        outcome = resource.manifest.evaluate(
            {required: fields_of(standings[required].child) for required in resource.requires}
        )
        if not isinstance(outcome, Known):
            return outcome
        whose = Standpoint(
            stack=self._stack,
            resource=resource.name,
            incarnation=1,
            requires=tuple(f"{each}/{incarnation_of(standings[each].child)}" for each in resource.requires),
        )
        wanted = desired.complete(outcome.value, whose, kind=kind, hashes=self._hashes)
        if known is not None and known[1].ref != wanted.ref:
            self._claims.pop(known[1].ref, None)
        self._desired[resource.name] = (inputs, wanted)
        return wanted

    def _watch(self, resource: ResourceBlueprint, child: Child, standings: Mapping[str, Standing]) -> Standing:
        """How an object does that is as it was asked to be."""
        if child.deleting:
            held = f" (held by {', '.join(child.finalizers)})" if child.finalizers else ""
            return _standing(
                child, State.PROGRESSING, "Terminating", f"is being deleted{held}; it comes back when it is gone"
            )
        values = {required: fields_of(standings[required].child) for required in resource.requires}
        values[resource.name] = child.fields
        for rule in resource.failed_when:
            outcome = rule.evaluate(values)
            if isinstance(outcome, Known) and outcome.value is True:
                return _standing(child, State.FAILED, "FailedWhen", "its failedWhen rule holds")
        if resource.ready_when:
            return _follow_rules(resource.ready_when, values, child)
        verdict = health.judge(child.fields, kind=child.kind)
        match verdict.state:
            case health.State.READY:
                return _standing(child, State.READY, "Ready", verdict.message)
            case health.State.FAILED:
                return _standing(child, State.FAILED, verdict.reason, verdict.message)
            case _:
                return _standing(child, State.PROGRESSING, verdict.reason, verdict.message)


def find_current(children: tuple[Child, ...]) -> Child | None:
    """The newest object that stands for a resource, whatever it is to become."""
    candidates = [child for child in children if child.is_identified]
    return max(candidates, key=lambda child: (not child.deleting, child.incarnation), default=None)


def find_child(children: tuple[Child, ...], ref: ObjectRef) -> Child | None:
    """The object at that very place."""
    return next((child for child in children if child.is_identified and child.ref == ref), None)


def fields_of(child: Child | None) -> Mapping[str, object] | None:
    """What expressions see of a child."""
    return child.fields if child is not None else None


def incarnation_of(child: Child | None) -> int:
    """The incarnation of a child; the first where there is none yet."""
    return child.incarnation if child is not None else 1


def needs_apply(child: Child, wanted: Desired, memory: Memory) -> bool:
    """Whether the object differs from what is wanted: another definition, or fields of ours that somebody took."""
    if child.deleting:
        return False
    if child.hash != wanted.hash:
        return True
    digest = ownership.digest(child.ownership)
    if memory.whole.get(child.uid) == (wanted.hash, digest):
        return False
    if ownership.find_lost(wanted.manifest, child.ownership) is not None:
        return True
    memory.whole[child.uid] = (wanted.hash, digest)
    return False


def to_apply(name: str, wanted: Desired, child: Child | None, *, memory: Memory, now: float) -> Standing:
    """The standing of a resource whose object is to be written, or is being written, or was refused."""
    cause = "create" if child is None else "change" if child.hash != wanted.hash else "repair"
    step = Apply(
        resource=name,
        kind=wanted.kind,
        ref=wanted.ref,
        manifest=wanted.manifest,
        hash=wanted.hash,
        uid=child.uid if child is not None else None,
        cause=cause,
    )
    attempt = memory.attempts.get(name)
    if attempt is not None and attempt.subject != steps.subject(step):
        attempt = None
    if name in memory.in_flight:
        step_now, wake_at = None, None
    elif attempt is not None and attempt.next_try > now:
        step_now, wake_at = None, attempt.next_try
    else:
        step_now, wake_at = step, None
    state, reason, message = State.PROGRESSING, "Applying", "is being applied"
    if attempt is not None:
        state = State.FAILED if attempt.is_exhausted else State.RETRYING
        reason, message = attempt.reason, attempt.message
    return Standing(
        state=state,
        reason=reason,
        message=message,
        ref=wanted.ref,
        child=child,
        step=step_now,
        wake_at=wake_at,
    )


def waiting(message: str, *, child: Child | None = None, reason: str = "Waiting") -> Standing:
    """The standing of a resource that cannot be decided yet."""
    return Standing(
        state=State.WAITING,
        reason=reason,
        message=message,
        child=child,
        ref=child.ref if child is not None else None,
    )


def enumerate_names(names: list[str]) -> str:
    """`a, b, c and 12 more`."""
    if len(names) <= NAMED_AT_MOST:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED_AT_MOST])} and {len(names) - NAMED_AT_MOST} more"


def _standing(child: Child, state: State, reason: str, message: str) -> Standing:
    return Standing(state=state, reason=reason, message=message, child=child, ref=child.ref)


def _told(outcome: Pending | Broken | str, *, child: Child | None) -> Standing:
    """The standing of a resource whose manifest has no value."""
    match outcome:
        case str():
            return waiting(outcome, child=child, reason=KIND_NOT_AVAILABLE)
        case Pending():
            # What it requires is ready, so the path may never come: said by name, and taken when it comes all the same.
            missing = enumerate_names(list(outcome.missing))
            return waiting(
                f"waits for {missing}, which is not there although its resource is ready",
                child=child,
                reason="ValueMissing",
            )
        case Broken():
            return Standing(
                state=State.FAILED, reason="ExpressionFailed", message=f"{outcome.path}: {outcome.message}", child=child
            )


def _follow_rules(rules: tuple[Evaluable, ...], values: Mapping[str, object], child: Child) -> Standing:
    """The standing by a resource's own `readyWhen`."""
    if is_stale(child):
        return _standing(child, State.PROGRESSING, "Progressing", "its controller has not seen the latest change yet")
    for rule in rules:
        outcome = rule.evaluate(values)  # type: ignore[arg-type]  # values hold the fields of children
        match outcome:
            case Known(value=True):
                continue
            case Known():
                return _standing(child, State.PROGRESSING, "NotReadyYet", "its readyWhen rule does not hold yet")
            case Pending():
                return _standing(
                    child, State.PROGRESSING, "NotReadyYet", f"waits for {enumerate_names(list(outcome.missing))}"
                )
            case Broken():
                return _standing(child, State.FAILED, "ExpressionFailed", f"{outcome.path}: {outcome.message}")
    return _standing(child, State.READY, "Ready", "its readyWhen rules hold")


def is_stale(child: Child) -> bool:
    """Whether its status speaks of an older generation, so that rules on it would judge the past."""
    status = child.fields.get("status")
    observed = status.get("observedGeneration") if isinstance(status, dict) else None
    generation = child.fields["metadata"].get("generation")
    return isinstance(observed, int) and isinstance(generation, int) and observed < generation
