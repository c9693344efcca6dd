"""Decides the patch of each verb of `kubectl stack`, or the reason why the verb does not apply.

Times and tokens are arguments. `hearth.cli.stack_access.following` sends the patches.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

from hearth.cli.stack_views import git_managers, safe_text
from hearth.cli.stack_views.stack_state import BreakpointEntry, StackState
from hearth.cli.stack_views.steering.goals import Goal, GoalType
from hearth.model import members, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.text import enumeration

NAMED_AT_MOST: Final = 5
"""Breakpoints or names in one message."""
SETTLED: Final = Goal(type=GoalType.SETTLED)
READY: Final = Goal(type=GoalType.READY)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The patches of a command, and the state to wait for."""

    patches: tuple[Object, ...]
    """Merge patches in this order. The operator must have observed each before the next one."""
    said: str
    """The written fields, for the user: `annotated: hearth.dev/retry=…`."""
    notes: tuple[str, ...] = ()
    """Further information for the user."""
    handled: tuple[str, str] | None = None
    """The request and its token, which `status.handled` shows once the operator has handled it."""
    goal: Goal = SETTLED
    """The state that `--wait` waits for."""
    stack: str = ""
    """The Stack to write to if it is not the named one: a nested Stack of the same namespace."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AlreadySo:
    """The Stack is already as requested; nothing is written."""

    said: str
    goal: Goal = SETTLED


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Error for a verb that does not apply. It has the reason, and a verb that applies."""

    said: str


VerbResult: TypeAlias = Write | AlreadySo | Refusal


def retry(stack: StackState, *, token: str, resource: str = "") -> VerbResult:
    """Retry everything that failed now, or the definition that was rolled back; run finished work again.

    resource: the finished work; "" for none.
    """
    # After a restore from a backup, a resource may have two entries.
    finished = list(
        dict.fromkeys(
            safe_text.one_line(object_fields.text(each, "resource"))
            for each in object_fields.entries(stack.status, "finished")
        )
    )
    if resource in finished:
        notes = (f"{resource} has finished and will run again", *note_paused(stack))
        return request(stack, names.REQUEST_RETRY, f"{resource}/{token}", key="retry", notes=notes)
    is_sound = stack.is_ready and not stack.problems and not stack.is_rolled_back_automatically
    if resource and is_sound:
        listed = enumeration.enumerate_names(finished) if finished else "none"
        return Refusal(said=f"{resource} is not a finished resource of {stack.title}; finished: {listed}")
    is_sound = is_sound and not stack.is_rolled_back
    if is_sound and finished:
        again = f"kubectl stack retry {stack.argument} {shlex.quote(finished[0])} -n {stack.namespace}"
        said = f"nothing has failed: {stack.title} is {stack.phase}. To run finished work again: {again}"
        return Refusal(said=said)
    if is_sound:
        return Refusal(said=f"nothing has failed: {stack.title} is {stack.phase}. {advise_replacement(stack)}")
    notes = note_paused(stack)
    if stack.is_rolled_back_automatically:
        notes = ("the definition in the spec, which failed and was rolled back, is retried", *notes)
    elif stack.is_rolled_back and stack.is_ready:
        notes = ("the definition in the spec, which you rolled back from, is retried", *notes)
        return request(stack, names.REQUEST_RETRY, token, key="retry", notes=notes, goal=READY)
    return request(stack, names.REQUEST_RETRY, token, key="retry", notes=notes)


def check(stack: StackState, *, token: str) -> VerbResult:
    """Compare all objects with the API server; nothing is changed."""
    return request(stack, names.REQUEST_CHECK, token, key="check", goal=Goal(type=GoalType.CHECKED, detail=token))


def cleanup(stack: StackState, *, token: str) -> VerbResult:
    """Delete the objects that wait for the completion of the new definition."""
    if stack.is_observed and not stack.is_new and stack.count("obsolete") == 0:
        return Refusal(said=f"nothing waits for deletion: {stack.title} has no obsolete objects")
    return request(stack, names.REQUEST_CLEANUP, token, key="cleanup", notes=note_paused(stack))


def rollback(stack: StackState, *, to_revision: int, stored: Collection[int] | None) -> VerbResult:
    """Make an earlier revision the target.

    to_revision: 0 for the last completed one that differs from the spec; stored: None without permission to list them,
    so only the operator can check the number.
    """
    if stack.is_deleting:
        return Refusal(said=f"{stack.title} is being deleted; a deletion cannot be rolled back")
    stated = object_fields.number(stack.spec, "rollback", "toRevision")
    is_active = stack.target_cause == "Rollback" and stack.is_observed
    wanted = to_revision
    if to_revision and stored is not None and to_revision not in stored:
        kept = ", ".join(map(str, sorted(stored))) or "none"
        return Refusal(said=f"{stack.title} has no revision {to_revision}; stored revisions: {kept}")
    if stated == to_revision and is_active:
        return AlreadySo(said=f"already rolled back to revision {stack.target_revision}")
    if not to_revision and stated == 0:
        # A repeated 0 would keep its first meaning, so write the number.
        wanted = find_other_completed(stack)
    if not wanted and not find_other_completed(stack):
        return Refusal(said=f"{stack.title} has no other completed revision to roll back to{list_stored(stored or ())}")
    if wanted and runs_spec(stack) and stack.is_observed and wanted == stack.target_revision:
        return AlreadySo(said=f"revision {wanted} is already the definition in the spec")
    return write_rollback(stack, wanted, stated=stated)


def write_rollback(stack: StackState, wanted: int, *, stated: int | None) -> Write:
    """Write the request. An existing number is removed first, because only a new number counts."""
    # The API server rejects both together.
    patch = stack.patch_options({"rollback": {"toRevision": wanted, "toSnapshot": None}})
    removal = stack.patch_options({"rollback": {"toRevision": None}})
    source = (
        "the definition in the spec is kept but not applied; the next change of the template or parameters takes "
        "precedence"
    )
    return Write(
        patches=(removal, patch) if stated == wanted else (patch,),
        said=f"patched: {stack.options_path}.rollback.toRevision={wanted}",
        notes=(source, *note_paused(stack), *note_suspended(stack), *note_git(stack, f"{stack.options_path}.rollback")),
    )


def find_other_completed(stack: StackState) -> int:
    """Return the last completed revision other than the definition in the spec, or 0 if none is known."""
    last = object_fields.number(stack.status, "lastCompletedRevision") or 0
    previous = object_fields.number(stack.status, "previousCompletedRevision") or 0
    return previous if runs_spec(stack) and stack.is_observed and last == stack.target_revision else last


def runs_spec(stack: StackState) -> bool:
    """Return whether the definition in the spec runs: it was neither rolled back, nor does it wait for its window."""
    is_waiting = bool(object_fields.mapping(stack.status, "heldChange"))
    return stack.target_cause == "Spec" and not is_waiting


def list_stored(stored: Collection[int]) -> str:
    """Return the stored revisions as the end of a message."""
    return f"; stored revisions: {', '.join(map(str, sorted(stored)))}" if stored else ""


def continue_(stack: StackState, *, where: str, token: str) -> VerbResult:
    """Clear the breakpoint of a waiting resource. where: `<resource>[/<hook>]`; a path leads into nested Stacks."""
    waiting = stack.breakpoints
    found = next((each for each in waiting if where in (each.resource, str(each))), None)
    is_listed = stack.count("stopped") <= len(waiting)
    if found is None and (is_listed or not where) and not is_for_members(where, waiting):
        return Refusal(said=explain_no_wait(stack, where, waiting))
    if found is None:
        # The argument names all members of a collection, or a breakpoint that is not among the first ones that the
        # status lists.
        found = BreakpointEntry(resource=where, hook="", stack="")
        value = f"{where}@{token}"
    else:
        value = f"{found.local}@{token}"
    return Write(
        patches=({"metadata": {"annotations": {names.REQUEST_CONTINUE: value}}},),
        said=f"annotated: {names.REQUEST_CONTINUE}={value}",
        notes=note_paused(stack),
        handled=None if found.stack else ("continue", value),
        stack=found.stack,
    )


def is_for_members(where: str, waiting: Sequence[BreakpointEntry]) -> bool:
    """Return whether it names all members of a collection or group, and at least one of them waits there."""
    resource, _, hook = where.partition("/")
    own = [each for each in waiting if not each.stack and hook in ("", each.hook)]
    if resource == members.EVERY:
        return any(members.is_group_member(each.resource) for each in own)
    return members.is_all(resource) and any(members.is_among(each.resource, {resource}) for each in own)


def explain_no_wait(stack: StackState, where: str, waiting: Sequence[BreakpointEntry]) -> str:
    """Explain that no resource waits there, and list the breakpoints where resources wait."""
    if not waiting:
        return (
            f"no resource of {stack.title} waits at a breakpoint (phase {stack.phase or 'unknown'}); "
            f"a breakpoint in {stack.options_path}.environment.breakpoints can be continued once its resource has reached it"
        )
    named = ", ".join(str(each) for each in waiting[:NAMED_AT_MOST])
    first = f"kubectl stack continue {stack.argument} {shlex.quote(str(waiting[0]))} -n {stack.namespace}"
    lead = f"{where} does not wait at a breakpoint" if where else "specify the breakpoint to continue"
    return f"{lead}; waiting: {named}. Continue with: {first}"


def set_paused(stack: StackState, *, paused: bool) -> VerbResult:
    """Stop all writes of the operator, or permit them again."""
    if stack.is_paused == paused:
        return AlreadySo(said="already paused" if paused else "not paused")
    notes = ("the condition Paused lists the pending steps",) if paused else ()
    return Write(
        patches=(stack.patch_options({"paused": True if paused else None}),),
        said=f"patched: {stack.options_path}.paused={str(paused).lower()}",
        notes=(*notes, *note_git(stack, f"{stack.options_path}.paused")),
        goal=Goal(type=GoalType.CONDITION, detail="Paused=True") if paused else SETTLED,
    )


def set_suspended(stack: StackState, *, suspended: bool) -> VerbResult:
    """Scale workloads to nothing, or back."""
    goal = Goal(type=GoalType.SUSPENDED) if suspended else SETTLED
    if stack.is_suspended == suspended:
        return AlreadySo(said="already suspended" if suspended else "not suspended", goal=goal)
    return Write(
        patches=(stack.patch_options({"suspended": suspended}),),
        said=f"patched: {stack.options_path}.suspended={str(suspended).lower()}",
        notes=(*note_paused(stack), *note_git(stack, f"{stack.options_path}.suspended")),
        goal=goal,
    )


def promote(stack: StackState, *, revision: int) -> VerbResult:
    """Move an instance to a revision of its StackDefinition."""
    if revision and object_fields.number(stack.status, "definitionRevision") == revision:
        return AlreadySo(said=f"already has revision {revision} of its definition")
    pin = object_fields.number(stack.spec, "definitionRevision")
    if pin is not None:
        where = f"{stack.options_path}.definitionRevision"
        return Refusal(said=f"{stack.title} is pinned to revision {pin}: change or remove its {where}")
    text = str(revision)
    return Write(
        patches=({"metadata": {"annotations": {names.PROMOTE: text}}},),
        said=f"annotated: {names.PROMOTE}={text}",
        notes=note_paused(stack),
        goal=Goal(type=GoalType.PROMOTED, detail=text),
    )


def scale(group: StackState, *, replicas: int) -> VerbResult:
    """Set the number of members of a ResourceGroup, by a patch of its scale subresource."""
    if group.is_deleting:
        return Refusal(said=f"resourcegroup/{group.name} is being deleted, so its size no longer changes")
    if object_fields.number(group.spec, "replicas") == replicas:
        return AlreadySo(said=f"already has spec.replicas={replicas}")
    patch: Object = {"spec": {"replicas": replicas}}
    return Write(patches=(patch,), said=f"scaled: spec.replicas={replicas}", notes=note_size(group))


def request(
    stack: StackState, annotation: str, token: str, *, key: str, notes: tuple[str, ...] = (), goal: Goal = SETTLED
) -> VerbResult:
    """Make a request by annotation; a token that was used before would count as handled."""
    if stack.handled.get(key) == token:
        return Refusal(said=f"the token {token!r} was already used; use another one")
    return Write(
        patches=({"metadata": {"annotations": {annotation: token}}},),
        said=f"annotated: {annotation}={token}",
        notes=notes,
        handled=(key, token),
        goal=goal,
    )


def advise_replacement(stack: StackState) -> str:
    """Return the command that helps if an object is ready but broken."""
    return (
        f"To replace an object that is broken all the same: kubectl stack mark {stack.argument} RESOURCE "
        f"-n {stack.namespace} --reason TEXT"
    )


def note_paused(stack: StackState) -> tuple[str, ...]:
    """Return a note that nothing happens until the Stack is unpaused."""
    if not stack.is_paused:
        return ()
    command = f"kubectl stack unpause {stack.argument} -n {stack.namespace}"
    return (f"the {stack.noun} is paused: nothing is written before `{command}`",)


def note_suspended(stack: StackState) -> tuple[str, ...]:
    """Return a note that no definition is applied until the Stack is resumed."""
    if not stack.is_suspended:
        return ()
    command = f"kubectl stack resume {stack.argument} -n {stack.namespace}"
    return (f"the {stack.noun} is suspended: the change is applied after `{command}`",)


def note_size(group: StackState) -> tuple[str, ...]:
    """Return a note why a new size has no effect yet."""
    if not group.is_suspended:
        return note_paused(group)
    command = f"kubectl stack resume {group.argument} -n {group.namespace}"
    return (*note_paused(group), f"the group is suspended: the size counts after `{command}`")


def note_git(stack: StackState, field: str) -> tuple[str, ...]:
    """Return a note that a tool may revert the field from Git."""
    found = git_managers.find_git_manager(stack.raw)
    if found is None:
        return ()
    called = f"{found.tool} ({found.kind} {found.name})"
    return (f"{called} manages this {stack.noun} and may revert {field}; change it in Git as well",)
