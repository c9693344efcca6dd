"""What is to be done about one resource whose object is there: changed, replaced, contended for, retried, or left alone."""

from __future__ import annotations

import dataclasses

from hearth.model import field_paths
from hearth.model.child import Child
from hearth.plan.environment import inherited_rules
from hearth.plan.ownership import applied_fields
from hearth.plan.ownership.field_ownership import Finding
from hearth.plan.resource import drift, readiness, removal, replacement, step_planning, suspend_object
from hearth.plan.retry.backoff import Attempt
from hearth.plan.state import healing
from hearth.plan.state.desired import Desired
from hearth.plan.state.memory import Question
from hearth.plan.state.resource_context import Subject
from hearth.plan.state.resource_status import Standing, State
from hearth.plan.state.steps import Delete
from hearth.template.blueprint import Replacement


def decide(subject: Subject, child: Child, desired: Desired, finding: Finding) -> Standing:
    """The standing of a resource whose object is there: does it have the definition, and keep it?"""
    is_suspended = child.has_record and subject.records.is_suspended(child)
    if is_suspended:
        finding = suspend_object.reclaim(child, finding, subject.records)
    elif child.is_held_down and finding.left:
        finding = suspend_object.reclaim_unrecorded(child, finding, subject.records)
    if child.hash != desired.hash:
        field = find_immutable(subject, child, finding) if child.is_identified else None
        return _replace(subject, child, field) if field else step_planning.to_apply(subject, desired, child, finding)
    is_given = not subject.resource.is_stack or inherited_rules.is_given(child, desired.inherited)
    if not is_given or applied_fields.read_record(child) != desired.record:
        return step_planning.to_apply(subject, desired, child, finding)
    if is_suspended:
        # What suspending it took is no contest, and no drift that anybody else has to answer for.
        return (
            step_planning.to_apply(subject, desired, child, finding)
            if finding.taken
            else step_planning.to_resume(subject, child)
        )
    if finding.taken or subject.name in subject.memory.contests:
        return _contend(subject, child, desired, finding)
    return _stand(subject, child)


def _contend(subject: Subject, child: Child, desired: Desired, finding: Finding) -> Standing:
    """The standing of a resource of whose object somebody took fields, now or not long ago."""
    memory, name = subject.memory, subject.name
    contest = memory.find_contest(name, now=subject.now)
    if finding.taken and (contest is None or contest.next_answer <= subject.now):
        repair = step_planning.to_apply(subject, desired, child, finding, repairs=drift.describe(finding.taken))
        if contest is None or not contest.is_contested or repair.state is not State.PROGRESSING:
            return repair
        # Once it is a contest it is nobody's wait any more: the resource is as ready as its object.
        standing = dataclasses.replace(judge_child(subject, child), step=repair.step)
    else:
        standing = _stand(subject, child)
        if contest is not None and (finding.taken or contest.is_contested):
            due = contest.next_answer if finding.taken else contest.forgotten_at
            standing = dataclasses.replace(standing, wake_at=min(due, standing.wake_at or due))
    question = Question(child=child, lost=finding.taken, manifest=desired.manifest)
    return dataclasses.replace(standing, remarks=drift.tell_contest(name, contest, question, memory))


def _stand(subject: Subject, child: Child) -> Standing:
    """The standing of a resource whose object is as it is to be."""
    standing = judge_child(subject, child)
    return _retry(subject, standing) if standing.is_terminal and child.is_identified else standing


def judge_child(subject: Subject, child: Child) -> Standing:
    """How an object of the resource does by itself."""
    return readiness.judge(subject.resource, child, subject.values, subject.rules)


def _replace(subject: Subject, child: Child, field: str) -> Standing:
    """The standing of a resource that can only be had as another object."""
    wanted = subject.wanted
    policy = replacement.find_policy(subject.resource, wanted)
    if policy is Replacement.NEVER:
        message = replacement.explain_refusal(wanted.kind, field=field, is_pinned=wanted.is_name_pinned)
        return readiness.stand(child, State.FAILED, "Immutable", message)
    if policy is Replacement.DELETE_FIRST and removal.is_kept(child, subject.blueprint):
        # It would only be released, and go on to hold its name.
        if wanted.is_name_pinned:
            message = f"{field} cannot be changed in place, and {removal.explain_kept(child)}"
            return readiness.stand(child, State.FAILED, "Immutable", message)
    elif policy is Replacement.DELETE_FIRST:
        return step_planning.to_delete(subject, child, f"is replaced, as {field} changed: it goes first")
    return make_another(subject)


def make_another(subject: Subject) -> Standing:
    """The standing of a resource that gets its next object; what never was of use goes before, lest tries pile up."""
    for each in subject.children:
        if replacement.is_useless(each, subject.memory) and not removal.is_kept(each, subject.blueprint):
            return step_planning.to_delete(subject, each, "is replaced, and goes first as it never was ready")
    return step_planning.to_apply(subject, subject.wanted.at(replacement.find_next_incarnation(subject.children)), None)


def _retry(subject: Subject, failed: Standing) -> Standing:
    """The standing of a resource whose object has failed for good: another one is tried, more and more slowly."""
    child, wanted, memory = failed.child, subject.wanted, subject.memory
    if child is None or replacement.find_policy(subject.resource, wanted) is Replacement.NEVER:
        return failed
    if removal.is_kept(child, subject.blueprint):
        # Every failed attempt would stay for good, so nobody but its owner makes room for the next.
        message = f"{failed.message}; {removal.explain_kept(child)}"
        return dataclasses.replace(failed, message=message)
    if wait := subject.ward.explain_wait(is_marked=False):
        return healing.hold_back(subject.name, failed, wait)
    attempt = memory.attempts.get(subject.name)
    if attempt is None or child.uid not in memory.failed or not is_about(attempt, subject, child):
        # Nothing is remembered of this failure yet: whoever reads this standing counts it, and asks again.
        return failed
    standing = failed
    # A refusal of the next object's apply keeps its own time, where that is planned.
    if attempt.subject in (failure_subject(child), child.uid):
        standing = dataclasses.replace(failed, state=State.FAILED if attempt.is_exhausted else State.RETRYING)
        if attempt.next_try > subject.now and subject.name not in memory.in_flight:
            return dataclasses.replace(standing, wake_at=attempt.next_try)
    if subject.name in memory.in_flight:
        return standing
    if replacement.was_never_ready(child, memory):
        # It has no claim: failing attempts must not pile up.
        return dataclasses.replace(standing, step=Delete(child=child))
    return step_planning.to_apply(subject, wanted.at(replacement.find_next_incarnation(subject.children)), None)


def find_immutable(subject: Subject, child: Child, finding: Finding) -> str | None:
    """The field whose change takes another object, if there is one. What is left to others is no change."""
    refused = subject.memory.immutable.get(child.uid)
    if refused is not None and refused[0] == subject.wanted.hash:
        return refused[1]
    if not subject.resource.replace_on:
        return None
    manifest = field_paths.without(subject.wanted.manifest, [lost.place for lost in finding.left])
    return replacement.find_replaced_field(subject.resource, child, manifest)


def is_about(attempt: Attempt, subject: Subject, child: Child) -> bool:
    """Whether what is remembered is that the object failed, or that it would not go, or that the next one was refused."""
    is_refusal = attempt.subject == child.uid or attempt.subject.startswith(f"{subject.wanted.hash}/None")
    return is_refusal or attempt.subject == failure_subject(child)


def failure_subject(child: Child) -> str:
    """What an attempt by way of another object is remembered by."""
    return f"{child.hash}/failed"
