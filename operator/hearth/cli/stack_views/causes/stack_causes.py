"""Explains why a Stack or one of its resources is not ready, as a chain to the root causes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli.stack_views import safe_text, stated_values
from hearth.cli.stack_views.causes import advice, object_causes
from hearth.cli.stack_views.causes.explanation import Cause, Evidence
from hearth.cli.stack_views.stack_state import BreakpointEntry, StackState
from hearth.cli.stack_views.steering import verbs
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState
from hearth.model import members, object_fields
from hearth.model.phases import ConditionType
from hearth.model.text import enumeration
from hearth.plan.state import condition_types
from hearth.plan.state.condition_types import ClusterReason
from hearth.plan.target.change_hold import HoldReason

UNSETTLED: Final = frozenset({RowState.PROGRESSING, RowState.FAILED, RowState.STOPPED})
MISTAKEN: Final = "the definition is rejected, and the running objects stay unchanged"
UNREAD: Final = "the definition cannot be read, and the running objects stay unchanged"
REJECTED: Final = {
    **dict.fromkeys(("InvalidTemplate", "SpecUnreadable", "RevisionNotFound"), MISTAKEN),
    **dict.fromkeys(("SourceNotFound", "SourceForbidden", "RevisionUnavailable", "RevisionTampered"), UNREAD),
    "RevisionStoreFailed": "the definition cannot be stored, and the running objects stay unchanged",
    "ServiceAccountRequired": "nothing is changed",
}
"""Reasons of `Ready` that concern the definition as a whole, and the consequence of each."""
UNSEEN: Final = tuple(
    f"{RowState.PROGRESSING}: {note}"
    for note in (stack_view.NOT_SEEN, stack_view.ELSEWHERE, stack_view.PERHAPS_EXCLUDED)
)
"""Prefix of messages about resources that could not be read, or might not exist."""
UNUSABLE: Final = frozenset(
    {
        *(ClusterReason.UNREACHABLE, ClusterReason.UNAUTHORIZED, ClusterReason.CHANGED, ClusterReason.INVALID),
        *(ClusterReason.TOO_MANY, ClusterReason.TOO_LARGE),
    }
)
"""Reasons of `Ready` that concern the cluster of the objects."""


def find_causes(objects: StackObjects, path: Sequence[str], evidence: Evidence) -> tuple[Cause, ...] | None:
    """Return the causes, or None if the resource does not exist. path: into nested Stacks, empty for the Stack."""
    found = explain_resource(objects, path, evidence) if path else explain(objects, evidence)
    return redact_causes(objects, found) if found else found


def redact_causes(objects: StackObjects, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return causes without sensitive values, which Events and logs of Pods may quote."""
    return tuple(
        dataclasses.replace(
            cause, message=stated_values.redact(cause.message, objects), causes=redact_causes(objects, cause.causes)
        )
        for cause in causes
    )


def explain(objects: StackObjects, evidence: Evidence) -> tuple[Cause, ...]:
    """Return the root causes why a Stack is not in its desired state, or () if it is."""
    stack = objects.stack
    found = [*explain_account(objects, evidence), *explain_whole(objects), *explain_conditions(stack)]
    if not stack.is_new:
        found += explain_resources(objects, evidence)
        found += explain_warnings(stack, [each.message for each in found])
    # An object that the user is not allowed to see is listed only if no other object explains the problem.
    found = [each for each in found if not each.message.startswith(UNSEEN)] or found
    # Unreadable objects affect all revisions, so a rollback would wait for them as well.
    is_unreadable = REJECTED.get(stack.ready.reason) == UNREAD
    if found and not is_unreadable and (command := advice.advise_rollback(stack, objects.outermost_stack)):
        message = (
            f"revision {verbs.find_other_completed(stack)} is the last completed revision; roll back to it if needed"
        )
        found.append(Cause(subject=find_subject(stack), message=message, command=command))
    if found and (kept := explain_retained(objects)) is not None:
        found.append(kept)
    if not found and not stack.is_ready:
        message = safe_text.one_line(stack.ready.message) or f"its phase is {stack.phase}"
        found.append(Cause(subject=find_subject(stack), message=message))
    return tuple(found)


def explain_retained(objects: StackObjects) -> Cause | None:
    """Return the objects of the earlier definition that remain until the new one is ready, and the consequences of
    deleting them.
    """
    stack = objects.stack
    if stack.is_deleting or stack.is_paused or stack.is_suspended:
        return None
    rows = (row for row in stack_view.describe_rows(objects) if row.state is RowState.OBSOLETE)
    kept = [row.object for row in rows if row.note == stack_view.TO_DELETE]
    if not kept:
        return None
    refs = enumeration.enumerate_names(sorted(kept), most=stack_view.NAMED_AT_MOST)
    message = f"kept until all resources are ready: {refs}"
    if object_fields.find(stack.status, "controllerState", "cleanupWaived") is True:
        message += "; a cleanup was requested, which deletes each object as soon as no other object needs it"
        return Cause(subject=find_subject(stack), message=message)
    message += "; to delete them now, with their data, so that a rollback recreates them without the data:"
    command = advice.join("kubectl stack cleanup", stack.argument, "-n", stack.namespace)
    return Cause(subject=find_subject(stack), message=message, command=command)


def explain_resource(objects: StackObjects, path: Sequence[str], evidence: Evidence) -> tuple[Cause, ...] | None:
    """Return the causes of one resource; () if it is ready, None if it does not exist. path: into nested Stacks."""
    name, *rest = path
    if rest:
        child = objects.choose_children().get(name)
        nested = objects.nested.get(child.uid) if child is not None else None
        return explain_resource(nested, rest, evidence) if nested is not None else None
    rows = flatten(stack_view.describe_rows(objects))
    found = next((row for row in rows if row.resource == name), None)
    if found is None:
        return None
    whole = tuple(explain_whole(objects)) if found.state not in (RowState.READY, RowState.FINISHED) else ()
    is_idle = found.state is RowState.PROGRESSING and is_rejected(objects.stack)
    if (found.state in stack_view.MET and not is_held(found)) or (whole and is_idle):
        return whole
    return (*follow(objects, found, {row.resource: row for row in rows}, evidence), *whole)


def follow(
    objects: StackObjects, row: ResourceRow, rows: dict[str, ResourceRow], evidence: Evidence
) -> tuple[Cause, ...]:
    """Return the cause of one resource, with the causes of the resources that it waits for."""
    if row.state is not RowState.WAITING:
        return (explain_row(objects, row, evidence),)
    required = objects.find_requirements().get(members.root_of(row.resource), [])
    below = [rows[each] for each in required if each in rows and rows[each].state not in stack_view.MET]
    if not below:
        return (explain_row(objects, row, evidence),)
    causes = tuple(cause for each in below for cause in follow(objects, each, rows, evidence))
    return (dataclasses.replace(explain_row(objects, row, evidence), causes=causes),)


def explain_whole(objects: StackObjects) -> Iterator[Cause]:
    """Yield causes that concern the Stack as a whole."""
    stack = objects.stack
    if stack.is_new or not stack.is_observed:
        yield explain_silence(stack)
        return
    yield from explain_definition(objects)
    blocked = stack.condition("DeletionBlocked")
    if blocked.is_true:
        message = safe_text.one_line(blocked.message)
        yield Cause(subject=find_subject(stack), message=message, since=blocked.since)
    yield from explain_switches(stack)
    if stack.ready.reason in (*UNUSABLE, "Timeout"):
        message = safe_text.one_line(stack.ready.message)
        said = message if stack.ready.reason == "Timeout" else f"{stack.ready.reason}: {message}"
        yield Cause(subject=find_subject(stack), message=said, since=stack.ready.since)


def explain_account(objects: StackObjects, evidence: Evidence) -> Iterator[Cause]:
    """Yield that the ServiceAccount of a Stack does not exist. The API server only reports missing permissions."""
    stack = objects.stack
    if stack.uid in evidence.missing_accounts:
        account = safe_text.one_line(object_fields.text(stack.spec, "serviceAccountName"))
        yield Cause(
            subject=find_subject(stack),
            message=(
                f"ServiceAccount {account} does not exist in namespace {stack.namespace}: set another one, or create it"
            ),
            command=advice.join("kubectl create serviceaccount", account, "-n", stack.namespace),
        )


def find_subject(stack: StackState) -> str:
    """Return the subject of a cause that concerns the Stack as a whole."""
    return safe_text.one_line(stack.title)


def explain_silence(stack: StackState) -> Cause:
    """Return the cause that no operator has reported on the current generation."""
    return Cause(
        subject=find_subject(stack),
        message="no operator has reported on the current generation: is one running, and does it serve this namespace?",
        command="kubectl get leases,pods -A -l app.kubernetes.io/name=hearth",
    )


def explain_definition(objects: StackObjects) -> Iterator[Cause]:
    """Yield the cause that the definition in the spec is rejected, or was rolled back."""
    stack = objects.stack
    subject, here = find_subject(stack), ("-n", stack.namespace)
    if is_rejected(stack) and not stack.condition("DeletionBlocked").is_true:
        message = f"{REJECTED[stack.ready.reason]}: {stack.ready.message}"
        command = advise_rejection(stack, objects.outermost_stack)
        yield Cause(subject=subject, message=safe_text.clean(message), since=stack.ready.since, command=command)
    if stack.is_rolled_back_automatically:
        message = safe_text.one_line(object_fields.text(stack.status, "target", "message") or stack.ready.message)
        yield Cause(
            subject=subject,
            message=f"the definition in the spec failed and was rolled back: {message}",
            since=object_fields.text(stack.status, "target", "since"),
            command=advice.join("kubectl stack history", stack.name, *here),
        )


def explain_switches(stack: StackState) -> Iterator[Cause]:
    """Yield the cause that a user paused or suspended the Stack."""
    subject, here = find_subject(stack), ("-n", stack.namespace)
    paused = stack.condition("Paused")
    if stack.is_paused:
        message = safe_text.one_line(paused.message) or f"the {stack.noun} is paused"
        command = advice.join("kubectl stack unpause", stack.argument, *here)
        yield Cause(subject=subject, message=message, since=paused.since, command=command)
    if stack.is_suspended:
        message = f"the {stack.noun} is suspended: workloads are scaled to nothing"
        command = advice.join("kubectl stack resume", stack.argument, *here)
        yield Cause(subject=subject, message=message, command=command)


def advise_rejection(stack: StackState, outermost_stack: StackState | None) -> str:
    """Return the command for a definition that is not applied, or "" if the message has the next step."""
    match stack.ready.reason:
        case "InvalidTemplate" | "SpecUnreadable":
            return advice.advise_edit(outermost_stack, stack.ready.message)
        case "RevisionNotFound" | "RevisionUnavailable" | "RevisionTampered":
            return advice.join("kubectl stack history", stack.argument, "-n", stack.namespace)
    return ""


def is_rejected(stack: StackState) -> bool:
    """Return whether the definition in the spec is rejected."""
    return stack.ready.reason in REJECTED


def explain_conditions(stack: StackState) -> Iterator[Cause]:
    """Yield conditions that require action by a user."""
    for type_, traits in condition_types.TABLE.items():
        condition = stack.condition(type_)
        if traits.is_cause and condition.is_true:
            words = traits.command.replace("{name}", stack.argument).replace("{namespace}", stack.namespace)
            held = (
                object_fields.text(stack.status, "heldChange", "reason") if type_ is ConditionType.CHANGE_HELD else ""
            )
            if held == HoldReason.APPROVAL:
                words = advice.join("kubectl stack plan", stack.argument, "-n", stack.namespace)
            yield Cause(
                subject=type_, message=safe_text.one_line(condition.message), since=condition.since, command=words
            )
    count = object_fields.number(stack.status, "check", "problemCount")
    if count and stack.phase == "CheckFailed":
        yield Cause(subject="CheckFailed", message=safe_text.one_line(stack.ready.message), since=stack.ready.since)


def explain_warnings(stack: StackState, messages: Sequence[str]) -> Iterator[Cause]:
    """Yield the warnings that keep the Stack from its desired state: those that `Ready` repeats. messages: of others."""
    warnings = object_fields.find(stack.status, "warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        message = safe_text.one_line(warning)
        if (
            message
            and message in safe_text.one_line(stack.ready.message)
            and not any(message in each for each in messages)
        ):
            yield Cause(subject=find_subject(stack), message=message, since=stack.ready.since)


def explain_resources(objects: StackObjects, evidence: Evidence) -> Iterator[Cause]:
    """Yield each resource at the start of a chain of causes, and the number of resources that wait for it."""
    rows = flatten(stack_view.describe_rows(objects))
    waiting = count_waiting(objects, rows)
    named = {object_fields.text(problem, "resource") for problem in objects.stack.problems}
    for row in rows:
        # A definition that is not applied makes no progress.
        is_unsettled = row.state in UNSETTLED and not (row.state is RowState.PROGRESSING and is_rejected(objects.stack))
        is_end = is_unsettled or row.resource in named or is_held(row)
        if not is_end or row.object.endswith("[]"):
            continue
        cause = explain_row(objects, row, evidence)
        blocked = waiting.get(members.root_of(row.resource), [])
        if blocked:
            blocked_names = enumeration.enumerate_names(blocked, most=stack_view.NAMED_AT_MOST)
            more = f" ({blocked_names} {'waits' if len(blocked) == 1 else 'wait'} for it)"
            cause = dataclasses.replace(cause, message=cause.message + more)
        yield cause
    listed = {row.resource for row in rows}
    for entry in objects.stack.breakpoints:
        if entry.resource.partition("/")[0] not in listed:
            yield explain_breakpoint(objects.stack, entry)


def is_held(row: ResourceRow) -> bool:
    """Return whether the deletion of an obsolete object needs an action, not only time."""
    return row.state in (RowState.OBSOLETE, RowState.EXCLUDED) and "held " in row.note


def flatten(rows: Sequence[ResourceRow]) -> list[ResourceRow]:
    """Return the rows with the members of collections, without the rows of nested Stacks."""
    found = []
    for row in rows:
        found.append(row)
        found += [each for each in row.nested if row.object.endswith("[]")]
    return found


def count_waiting(objects: StackObjects, rows: Sequence[ResourceRow]) -> dict[str, list[str]]:
    """Return, for each resource, the resources that wait for it directly or indirectly."""
    required = objects.find_requirements()
    waiting = {row.resource for row in rows if row.state is RowState.WAITING}
    found: dict[str, list[str]] = {}
    for name in waiting:
        pending, seen = list(required.get(name, ())), set()
        while pending:
            each = pending.pop()
            if each not in seen:
                seen.add(each)
                found.setdefault(each, []).append(name)
                pending += required.get(each, ()) if each in waiting else ()
    return {name: sorted(each) for name, each in found.items()}


def explain_row(objects: StackObjects, row: ResourceRow, evidence: Evidence) -> Cause:
    """Return the cause of one resource: the operator's words, and below them the words of its object."""
    stack = objects.stack
    wait = next((each for each in stack.breakpoints if each.resource == row.resource), None)
    if wait is not None:
        return explain_breakpoint(stack, wait)
    child = objects.choose_children().get(row.resource)
    problem = find_problem(stack, row)
    nested = objects.nested.get(child.uid) if child is not None else None
    if row.state is RowState.OBSOLETE:
        child = next((each for each in objects.children if str(each) == row.object), child)
    if nested is not None:
        below = explain(nested, evidence)
    elif (read := evidence.external.get((stack.uid, row.resource))) is not None:
        below = tuple(with_kubeconfig(stack, each) for each in object_causes.explain_external(read, evidence))
    elif child is not None and row.state is not RowState.WAITING:
        below = tuple(with_kubeconfig(stack, each) for each in object_causes.explain(child, evidence))
    else:
        below = ()
    command = (
        advice.advise_problem(
            stack, problem, objects.outermost_stack, exists=child is not None, resources=objects.resources
        )
        if problem is not None
        else ""
    )
    if not command and child is not None and not below and row.state is not RowState.WAITING:
        command = advice.with_kubeconfig(stack, object_causes.describe(child))
    subject = f"{row.resource} ({row.object})" if row.object else row.resource
    holder = describe_holder(objects, child) if child is not None and row.state is RowState.PROGRESSING else ""
    return Cause(
        subject=subject,
        message=(f"{row.state}: {row.note}" if row.note else str(row.state)) + holder,
        next_try=object_fields.text(problem, "nextRetryTime"),
        command="" if below and any(each.command for each in below) else command,
        causes=below,
    )


def describe_holder(objects: StackObjects, child: FoundChild) -> str:
    """Return, as a clause, the older object of the resource that occupies a port that the object needs; "" for none."""
    older = [
        each
        for each in objects.children
        if each.resource == child.resource and each.incarnation < child.incarnation and not each.is_deleting
    ]
    if not older:
        return ""
    # This takes some time to import, and few explanations need it.
    from hearth.plan.resource import exclusive_things

    manifest = {"apiVersion": child.kind.api_version, "kind": child.kind.name, "spec": child.raw.get("spec")}
    root = members.root_of(child.resource)
    is_pinned = bool(object_fields.text(objects.resources, root, "manifest", "metadata", "name"))
    holder = max(older, key=lambda each: each.incarnation)
    return safe_text.one_line(exclusive_things.describe_held(manifest, str(holder), is_name_pinned=is_pinned))


def find_problem(stack: StackState, row: ResourceRow) -> Mapping[str, Any] | None:
    """Return the problem of a resource in the status. An obsolete object does not get the problem of its successor."""
    for problem in stack.problems:
        kind, name = object_fields.text(problem, "kind").lower(), object_fields.text(problem, "name")
        is_own = row.state is not RowState.OBSOLETE or row.object.endswith(f"{kind.partition('.')[0]}/{name}")
        if problem.get("resource") == row.resource and is_own:
            return problem
    return None


def with_kubeconfig(stack: StackState, cause: Cause) -> Cause:
    """Return a cause about an object of a Stack, with commands that run against the cluster of the object."""
    below = tuple(with_kubeconfig(stack, each) for each in cause.causes)
    return dataclasses.replace(cause, command=advice.with_kubeconfig(stack, cause.command), causes=below)


def explain_breakpoint(stack: StackState, entry: BreakpointEntry) -> Cause:
    """Return the cause that a resource waits at a breakpoint, with the command that continues it."""
    where = f" of the nested Stack {entry.stack}" if entry.stack else ""
    return Cause(
        subject=safe_text.one_line(entry.resource),
        message=safe_text.one_line(f"stopped at the breakpoint {entry.hook}{where}, until a user continues it"),
        command=advice.join("kubectl stack continue", stack.argument, str(entry), "-n", stack.namespace),
    )
