"""One resource: what it is to be, which object stands for it, and what is to be done about the difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from hearth.model import fields
from hearth.model.child import Child
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.plan import drift, readiness, replacing, stated, steps
from hearth.plan.desired import Desired, Hashes, Standpoint, Wanted
from hearth.plan.ownership import Finding
from hearth.plan.readiness import enumerate_names
from hearth.plan.standing import Standing, State
from hearth.plan.steps import Apply, Delete, Step
from hearth.plan.world import Memory, Question
from hearth.template.blueprint import (
    Blueprint,
    Broken,
    DriftPolicy,
    Known,
    Pending,
    Replacement,
    ResourceBlueprint,
    StackIdentity,
    Values,
)

KIND_NOT_AVAILABLE = "KindNotAvailable"
"""The reason of a resource whose kind is not served, or not watched yet."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What one judgement is about."""

    resource: ResourceBlueprint
    wanted: Wanted
    children: tuple[Child, ...]
    """The objects that carry the resource's label."""
    values: Values
    memory: Memory
    now: float
    """Monotonic seconds."""

    @property
    def name(self) -> str:
        """Of the resource."""
        return self.resource.name


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
        self._wanted: dict[str, tuple[object, Wanted]] = {}
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
        values = {required: fields_of(standings[required].child) for required in resource.requires}
        wanted = self._evaluate(resource, standings, values)
        if not isinstance(wanted, Wanted):
            return _told(wanted, child=current)
        subject = Subject(resource=resource, wanted=wanted, children=children, values=values, memory=memory, now=now)
        return self._decide(subject)

    def find_desired(self, name: str) -> Desired | None:
        """What the resource is to be as its first incarnation, as it was evaluated last."""
        known = self._wanted.get(name)
        return known[1].at(1) if known is not None else None

    def has_lost_kinds(self) -> bool:
        """Whether the cluster does not serve the kind of some resource."""
        resources = self._blueprint.resources.values()
        return any(self._kinds.find(resource.api_version, resource.kind) is None for resource in resources)

    def _evaluate(
        self, resource: ResourceBlueprint, standings: Mapping[str, Standing], values: Values
    ) -> Wanted | Pending | Broken | str:
        """What the resource is to be; a text where its kind is not served or not watched."""
        kind = self._kinds.find(resource.api_version, resource.kind)
        if kind is None:
            return f"the cluster serves no kind {resource.kind} in {resource.api_version}; it goes on when that appears"
        if kind in self._unwatched:
            return f"{kind.key} objects cannot be watched yet; it goes on when they can"
        inputs = (kind, *(standings[required].signature for required in resource.requires))
        known = self._wanted.get(resource.name)
        if known is not None and known[0] == inputs:
            return known[1]
        outcome = resource.manifest.evaluate(values)
        if not isinstance(outcome, Known):
            return outcome
        requires = tuple(f"{each}/{incarnation_of(standings[each].child)}" for each in resource.requires)
        whose = Standpoint(stack=self._stack, resource=resource.name, requires=requires)
        wanted = Wanted(
            kind=kind,
            manifest=outcome.value,
            hash=self._hashes.hash(outcome.value),
            whose=whose,
            statement=stated.make_statement(
                outcome.value,
                whole=resource.drift_policy is not DriftPolicy.REPAIR,
                ignored=resource.ignore_fields,
                owner=f"{self._stack.uid}/{resource.name}",
                hashes=self._hashes,
            ),
        )
        if known is not None:
            self._claims = {ref: name for ref, name in self._claims.items() if name != resource.name}
        self._wanted[resource.name] = (inputs, wanted)
        return wanted

    def _decide(self, subject: Subject) -> Standing:
        """The standing of a resource whose manifest is known."""
        wanted = subject.wanted
        candidates = replacing.find_candidates(subject.children, wanted)
        child = replacing.choose(candidates, wanted, lambda each: self._judge_child(subject, each))
        # Where its kind or its stated name is another one, what there is goes on as an earlier incarnation of it.
        number = child.incarnation if child is not None else replacing.find_next_incarnation(subject.children)
        desired = wanted.at(number)
        if refused := self._refuse(subject.name, desired):
            return refused
        if child is None:
            return to_apply(subject, desired, None)
        if child.deleting:
            return self._judge_child(subject, child)
        finding = drift.find(child, desired, subject.memory)
        standing = self._decide_change(subject, child, desired, finding)
        remarks = drift.tell(subject.resource, child, finding, desired, subject.memory)
        return dataclasses.replace(standing, remarks=standing.remarks + remarks) if remarks else standing

    def _decide_change(self, subject: Subject, child: Child, desired: Desired, finding: Finding) -> Standing:
        """The standing of a resource whose object is there: does it have the definition, and keep it?"""
        if child.hash != desired.hash:
            field = find_immutable(subject, child, finding)
            return self._replace(subject, child, field) if field else to_apply(subject, desired, child, finding)
        if stated.read_record(child) != desired.record:
            return to_apply(subject, desired, child, finding)
        if finding.taken or subject.name in subject.memory.contests:
            return self._contend(subject, child, desired, finding)
        return self._stand(subject, child)

    def _contend(self, subject: Subject, child: Child, desired: Desired, finding: Finding) -> Standing:
        """The standing of a resource of whose object somebody took fields, now or not long ago."""
        memory, name = subject.memory, subject.name
        contest = memory.find_contest(name, now=subject.now)
        if finding.taken and (contest is None or contest.next_answer <= subject.now):
            repair = to_apply(subject, desired, child, finding, repairs=drift.describe(finding.taken))
            if contest is None or not contest.is_contested or repair.state is not State.PROGRESSING:
                return repair
            # Once it is a contest it is nobody's wait any more: the resource is as ready as its object.
            standing = dataclasses.replace(self._judge_child(subject, child), step=repair.step)
        else:
            standing = self._stand(subject, child)
            if contest is not None and (finding.taken or contest.is_contested):
                due = contest.next_answer if finding.taken else contest.forgotten_at
                standing = dataclasses.replace(standing, wake_at=min(due, standing.wake_at or due))
        question = Question(child=child, lost=finding.taken, manifest=desired.manifest)
        return dataclasses.replace(standing, remarks=drift.tell_contest(name, contest, question, memory))

    def _stand(self, subject: Subject, child: Child) -> Standing:
        """The standing of a resource whose object is as it is to be."""
        standing = self._judge_child(subject, child)
        return self._retry(subject, standing) if standing.is_terminal else standing

    def _judge_child(self, subject: Subject, child: Child) -> Standing:
        return readiness.judge(subject.resource, child, subject.values)

    def _refuse(self, name: str, desired: Desired) -> Standing | None:
        """The standing of a resource whose object may not be touched, wherever it came from."""
        ref = desired.ref
        if self._only_namespace and ref.namespace not in ("", self._only_namespace):
            message = f"lies in namespace {ref.namespace}, and this operator serves {self._only_namespace} only"
            return Standing(state=State.FAILED, reason="NamespaceNotServed", message=message, ref=ref)
        other = self._claims.setdefault(ref, name)
        if other != name:
            message = f"names the object that resource {other!r} stands for; give it another name or namespace"
            return Standing(state=State.FAILED, reason="DuplicateObject", message=message, ref=ref)
        return None

    def _replace(self, subject: Subject, child: Child, field: str) -> Standing:
        """The standing of a resource that can only be had as another object."""
        wanted = subject.wanted
        policy = replacing.find_policy(subject.resource, wanted)
        if policy is Replacement.NEVER:
            message = replacing.explain_refusal(wanted.kind, field=field, is_pinned=wanted.is_name_pinned)
            return readiness.stand(child, State.FAILED, "Immutable", message)
        if policy is Replacement.DELETE_FIRST:
            return to_delete(subject, child, f"is replaced, as {field} changed: it goes first")
        return self._make_another(subject)

    def _make_another(self, subject: Subject) -> Standing:
        """The standing of a resource that gets its next object; what never was of use goes before, lest tries pile up."""
        for each in subject.children:
            if replacing.is_useless(each, subject.memory):
                return to_delete(subject, each, "is replaced, and goes first as it never was ready")
        return to_apply(subject, subject.wanted.at(replacing.find_next_incarnation(subject.children)), None)

    def _retry(self, subject: Subject, failed: Standing) -> Standing:
        """The standing of a resource whose object has failed for good: another one is tried, more and more slowly."""
        child, wanted, memory = failed.child, subject.wanted, subject.memory
        if child is None or replacing.find_policy(subject.resource, wanted) is Replacement.NEVER:
            return failed
        attempt = memory.attempts.get(subject.name)
        if attempt is None or attempt.subject != failure_subject(child) or child.uid not in memory.failed:
            # Nothing is remembered of this failure yet: whoever reads this standing counts it, and asks again.
            return failed
        state = State.FAILED if attempt.is_exhausted else State.RETRYING
        standing = dataclasses.replace(failed, state=state)
        if subject.name in memory.in_flight:
            return standing
        if attempt.next_try > subject.now:
            return dataclasses.replace(standing, wake_at=attempt.next_try)
        if replacing.was_never_ready(child, memory):
            # It has no claim: failing attempts must not pile up.
            return dataclasses.replace(standing, step=Delete(child=child))
        return to_apply(subject, wanted.at(replacing.find_next_incarnation(subject.children)), None)


def find_immutable(subject: Subject, child: Child, finding: Finding) -> str | None:
    """The field whose change takes another object, if there is one. What is left to others is no change."""
    refused = subject.memory.immutable.get(child.uid)
    if refused is not None and refused[0] == subject.wanted.hash:
        return refused[1]
    manifest = fields.without(subject.wanted.manifest, [lost.place for lost in finding.left])
    return replacing.find_replaced_field(subject.resource, child, manifest)


def failure_subject(child: Child) -> str:
    """What an attempt by way of another object is remembered by."""
    return f"{child.hash}/failed"


def find_current(children: tuple[Child, ...]) -> Child | None:
    """The newest object that stands for a resource, whatever it is to become."""
    candidates = [child for child in children if child.is_identified]
    return max(candidates, key=lambda child: (not child.deleting, child.incarnation), default=None)


def fields_of(child: Child | None) -> Mapping[str, object] | None:
    """What expressions see of a child."""
    return child.fields if child is not None else None


def incarnation_of(child: Child | None) -> int:
    """The incarnation of a child; the first where there is none yet."""
    return child.incarnation if child is not None else 1


def to_apply(
    subject: Subject, desired: Desired, child: Child | None, finding: Finding = drift.NOTHING, *, repairs: str = ""
) -> Standing:
    """The standing of a resource whose object is to be written, or is being written, or was refused.

    repairs: the fields that are taken back, where that is all that the write is for.
    """
    step = Apply(
        resource=subject.name,
        kind=desired.kind,
        ref=desired.ref,
        manifest=desired.manifest,
        hash=desired.hash,
        uid=child.uid if child is not None else None,
        statement=desired.statement,
        left=finding.left,
        repairs=repairs,
    )
    standing = Standing(
        state=State.PROGRESSING, reason="Applying", message="is being applied", ref=desired.ref, child=child
    )
    return _when_due(subject, standing, step)


def to_delete(subject: Subject, child: Child, message: str) -> Standing:
    """The standing of a resource whose object is to go before the next one is made."""
    standing = readiness.stand(child, State.PROGRESSING, "Replacing", message)
    return _when_due(subject, standing, Delete(child=child))


def _when_due(subject: Subject, standing: Standing, step: Step) -> Standing:
    """The standing with its step, unless that is being taken or was refused a moment ago."""
    attempt = subject.memory.attempts.get(subject.name)
    if attempt is not None and attempt.subject == steps.subject(step):
        state = State.FAILED if attempt.is_exhausted else State.RETRYING
        standing = dataclasses.replace(standing, state=state, reason=attempt.reason, message=attempt.message)
        if attempt.next_try > subject.now and subject.name not in subject.memory.in_flight:
            return dataclasses.replace(standing, wake_at=attempt.next_try)
    return standing if subject.name in subject.memory.in_flight else dataclasses.replace(standing, step=step)


def waiting(message: str, *, child: Child | None = None, reason: str = "Waiting") -> Standing:
    """The standing of a resource that cannot be decided yet."""
    ref = child.ref if child is not None else None
    return Standing(state=State.WAITING, reason=reason, message=message, child=child, ref=ref)


def _told(outcome: Pending | Broken | str, *, child: Child | None) -> Standing:
    """The standing of a resource whose manifest has no value."""
    match outcome:
        case str():
            return waiting(outcome, child=child, reason=KIND_NOT_AVAILABLE)
        case Pending():
            # What it requires is ready, so the path may never come: said by name, and taken when it comes all the same.
            missing = enumerate_names(outcome.missing)
            message = f"waits for {missing}, which is not there although its resource is ready"
            return waiting(message, child=child, reason="ValueMissing")
        case Broken():
            message = f"{outcome.path}: {outcome.message}"
            return Standing(state=State.FAILED, reason="ExpressionFailed", message=message, child=child)
