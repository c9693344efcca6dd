"""Makes the preview of one Stack: copies the cluster, runs the engine on the copy and lists the changes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from hearth import supervision
from hearth.engine.ports import Evaluations
from hearth.engine.services import Unassisted
from hearth.engine.work_queue import WorkQueue
from hearth.model import containers, kinds, members, names, object_fields, windows
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError, HearthError
from hearth.model.kinds import ObjectRef
from hearth.model.text import redaction, times
from hearth.plan.environment import environment_rules
from hearth.plan.ownership import field_changes
from hearth.plan.ownership.field_changes import ABSENT, Absent, FieldChange, FieldPath
from hearth.plan.resource import definition_warnings, enforcement, reversal, step_planning
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.target import change_hold
from hearth.plan.target.change_hold import ChangeHold
from hearth.preview import object_copies, preview_run, preview_world, recognition, source_readers
from hearth.preview.changes import Action, Change, Preview
from hearth.preview.live_cluster import LiveCluster
from hearth.preview.object_copies import ObjectCopy
from hearth.preview.preview_run import NestedStack, PreviewRun
from hearth.preview.preview_world import PreviewRequest, PreviewWorld

PAUSED = "spec.paused is true: the operator writes nothing until it is unpaused"
APPROVAL = "spec.approval: the change waits until a user approves its StackPlan"
RISKY_APPROVAL = "spec.approval: if a step is risky, the change waits until a user approves its StackPlan"
WINDOW = "spec.window is closed: the change waits until {until}"
ELSEWHERE = "spec.kubeConfig: the objects are in another cluster, which a preview does not read"
UNKNOWN_SPEC = "the changes in {ref} are not shown, because its spec depends on values that only the run can know"
DELETED = "the Stack is deleted with the objects that it does not keep"
ENDLESS = "the same objects are replaced repeatedly; the preview ends here"
UNWANTED: Final = "no longer a member; if updatePolicy.maxRemoved does not allow the deletion, it waits for consent"
HALTED = frozenset({ResourceState.STOPPED, ResourceState.FAILED, ResourceState.RETRYING})
UNSTORED: Final = "no revision stores the value of a sensitive parameter, so a rollback keeps the new one"
SECRET_FIELDS: Final = ("data", "stringData")


PreviewNested: TypeAlias = Callable[[NestedStack, Mapping[ObjectRef, Object]], Awaitable[Preview]]
"""Makes the preview of a Stack within another; the mapping has the sources that the outer Stack writes."""


class PreviewFailed(HearthError):
    """A preview without a result, because of a fault in the program."""


async def make_preview(
    live: LiveCluster,
    request: PreviewRequest,
    *,
    now: float,
    workload_cluster: LiveCluster | None = None,
    evaluate: Callable[[WorkQueue], Evaluations] = lambda _queue: Unassisted(),
    preview_nested: PreviewNested | None = None,
) -> Preview:
    """Return the effects of the wanted Stack; nothing is written. Raises ApiStatusError, Unreachable or PreviewFailed.

    now: seconds since the epoch; workload_cluster: the cluster of the objects, None for the Stack's own; evaluate:
    makes the evaluator of slow expressions; preview_nested: makes the preview of a nested Stack, None to leave out
    nested Stacks.
    """
    world = preview_world.make_world(live, request, now=now, workload_cluster=workload_cluster, evaluate=evaluate)
    if world.stack.kubeconfig is not None:
        raise PreviewFailed(ELSEWHERE)
    await preview_world.read_children(world)
    before = await recognition.recognize(world)
    run, faults = PreviewRun(world), list[str]()
    with supervision.using(supervision.Supervisor(on_error=faults.append)):
        await run.run()
    if faults:
        raise PreviewFailed(
            f"internal error in the preview ({', '.join(dict.fromkeys(faults))}); its result is unknown"
        )
    hide = make_filter(world, before=before, applied=run.recorder.stated)
    preview = assemble(run, [hide(each) for each in await list_changes(run)])
    return preview if preview_nested is None else await add_nested(preview, run, preview_nested)


async def preview_deletion(live: LiveCluster, request: PreviewRequest, *, now: float) -> Preview:
    """Return which objects the deletion of a Stack deletes and keeps. Raises ApiStatusError or Unreachable."""
    world = preview_world.make_world(live, request, now=now)
    await preview_world.read_children(world)
    changes = []
    for copy in world.copies:
        child = copy.child
        contents = "" if child.must_not_delete else find_contents(child, world.copies)
        is_kept = child.must_not_delete or bool(contents)
        reason = preview_run.explain_release(child, contents) if is_kept else ""
        action = Action.KEEP if is_kept else Action.DELETE
        adopts = preview_run.is_adopting(request.present, child.resource)
        undo = grade_removal(copy, is_released=is_kept, adopts=adopts)
        changes.append(Change(action=action, resource=child.resource, ref=child.ref, reason=reason, undo=undo))
    stack = world.stack
    return Preview(
        kind=stack.kind,
        namespace=stack.namespace,
        name=stack.name,
        is_new=False,
        changes=tuple(changes),
        notes=(DELETED,),
    )


def find_contents(container_child: Child, copies: Iterable[ObjectCopy]) -> str:
    """Return an object that outlives the Stack in a Namespace, or of the kind of a CustomResourceDefinition; "" for none."""
    for copy in copies if container_child.kind.key in containers.KINDS else ():
        child = copy.child
        if child.must_not_delete and container_child.ref in containers.find_containers(child.kind, child.namespace):
            return str(child.ref)
    return ""


async def add_nested(preview: Preview, run: PreviewRun, preview_nested: PreviewNested) -> Preview:
    """Return the preview with the previews of the Stacks in it, without the sensitive texts of this one."""
    world, notes, nested = run.world, list(preview.notes), []
    if preview.rejection:
        return preview
    sources = {copy.child.ref: copy.raw for copy in world.copies if source_readers.is_source(copy.child.ref)}
    for ref, change in {**find_reading_stacks(run), **run.recorder.nested, **find_obsolete_stacks(run)}.items():
        if world.assumptions.unknown.is_within((change.after or {}).get("spec")):
            notes.append(UNKNOWN_SPEC.format(ref=world.assumptions.unknown.explain(str(ref))))
        else:
            nested.append(
                redact_preview(await preview_nested(change, sources), frozenset(world.builder.sensitive_texts))
            )
    return dataclasses.replace(preview, nested=tuple(nested), notes=tuple(notes))


def find_reading_stacks(run: PreviewRun) -> dict[ObjectRef, NestedStack]:
    """Return the nested Stacks whose definition is read from an object that the change writes."""
    written = set(source_readers.find_written_sources(run.recorder.changes))
    return {
        copy.child.ref: NestedStack(before=copy.raw, after=copy.raw)
        for copy in (run.world.copies if written else ())
        if names.is_stack(copy.child.ref.group, copy.child.ref.kind)
        and not written.isdisjoint(source_readers.find_read_sources(copy.raw))
    }


def find_obsolete_stacks(run: PreviewRun) -> dict[ObjectRef, NestedStack]:
    """Return the nested Stacks whose deletion waits: the preview does not know the names in the others of the tree.

    Nested Stacks that a rule or `spec.protected` keeps are left out.
    """
    planner = run.reconciler.planner
    denied = {each.child.uid for each in planner.deletion_guard.denied} if planner is not None else set()
    children = [each for each in planner.cleanup.children.values() if each.uid not in denied] if planner else []
    found = {child.ref: run.world.copies.find(object_copies.place_of(child.ref)) for child in children}
    return {
        ref: NestedStack(before=copy.raw, after=None)
        for ref, copy in found.items()
        if copy is not None and names.is_stack(ref.group, ref.kind)
    }


def redact_preview(preview: Preview, texts: frozenset[str]) -> Preview:
    """Return a preview and its nested previews without these texts."""
    return dataclasses.replace(
        preview,
        changes=tuple(redact_change(each, texts) for each in preview.changes),
        nested=tuple(redact_preview(each, texts) for each in preview.nested),
        notes=tuple(redaction.redact(each, texts) for each in preview.notes),
        rejection=redaction.redact(preview.rejection, texts),
        mistakes=tuple(
            dataclasses.replace(each, message=redaction.redact(each.message, texts)) for each in preview.mistakes
        ),
    )


async def list_changes(run: PreviewRun) -> list[Change]:
    """Return the changes, then the unchanged resources, each with whether that is certain."""
    uncertain = await find_uncertain(run)
    halted = {name for name in uncertain if is_halted(run, name)}
    changes = [
        dataclasses.replace(each, is_uncertain=each.is_uncertain or each.resource in uncertain)
        for each in run.recorder.changes
    ]
    return changes + [
        dataclasses.replace(
            each,
            is_uncertain=each.is_uncertain or each.resource in uncertain or is_dependent(each, halted, run),
        )
        for each in list_unfinished(run)
    ]


def assemble(run: PreviewRun, changes: Sequence[Change]) -> Preview:
    """Return the preview, without changes if the definition is rejected."""
    world, definition = run.world, run.reconciler.definition
    rejection = definition.rejection or definition.cluster.problem
    return Preview(
        kind=world.stack.kind,
        namespace=world.stack.namespace,
        name=world.stack.name,
        is_new=world.request.present is None,
        revision=definition.revision.number if definition.revision is not None else None,
        changes=() if rejection is not None else tuple(changes),
        notes=tuple(redaction.redact(each, world.builder.sensitive_texts) for each in list_notes(run)),
        live_reads=tuple(redaction.redact(each, world.builder.sensitive_texts) for each in list_live_reads(run)),
        rejection=redaction.redact(rejection.message, world.builder.sensitive_texts) if rejection is not None else "",
        mistakes=tuple(world.builder.mistakes) if rejection is not None else (),
        sources=definition.source_versions,
    )


def is_halted(run: PreviewRun, name: str) -> bool:
    """Return whether the resource stops, fails or waits."""
    status = run.statuses.get(name)
    return status is not None and not status.is_ready


def is_dependent(change: Change, halted: Collection[str], run: PreviewRun) -> bool:
    """Return whether an obsolete object waits for resources that perhaps do not halt."""
    return change.action is Action.WAIT and bool(halted) and change.resource not in run.recorder.resources()


def list_notes(run: PreviewRun) -> Iterator[str]:
    """Yield notes for the reader in addition to the changes."""
    definition = run.reconciler.definition
    if definition.options.is_paused:
        yield PAUSED
    if run.is_change and (hold := find_change_hold(run)) is not None:
        yield WINDOW.format(until=times.format_time(hold.until))
    is_waiting = run.is_change or run.world.request.present is None
    if is_waiting and (policy := definition.options.approval) is not None:
        yield RISKY_APPROVAL if policy.is_for_risks else APPROVAL
    if run.is_rolled_back and (target := definition.targets.current) is not None:
        yield f"spec.rollback.onFailure then takes the Stack back to revision {target.revision}: {target.failure}"
    if run.is_endless:
        yield ENDLESS
    request = run.world.request
    if request.form is None and request.present is not None:
        before, after = (object_fields.mapping(each, "spec") for each in (request.present, request.wanted))
        yield from definition_warnings.find_lost_guards(before, after, path="spec", objects="this Stack")
    yield from list_renames(run)
    for name, status in run.statuses.items():
        if status.state in (ResourceState.FAILED, ResourceState.RETRYING) and not is_hindered(run, name, status):
            yield f"{name} is not ready now: {status.message}"


def list_live_reads(run: PreviewRun) -> Iterator[str]:
    """Yield a sentence for each object and list that the Stack reads."""
    planner = run.reconciler.planner
    for name, external in planner.blueprint.externals.items() if planner is not None else ():
        objects = f"{external.kind} {external.object_name}" if external.object_name else f"a list of {external.kind}"
        yield f"{name}: the Stack reads {objects}; later changes of it change the Stack without an approval"


def find_change_hold(run: PreviewRun) -> ChangeHold | None:
    """Return why the change waits, or None if it does not. The window is valid, because the API server accepted it."""
    request = run.world.request
    # A field of an instance with this name is a parameter.
    window = object_fields.mapping(request.wanted, "spec", "window") if request.form is None else {}
    if not window or next(windows.find_mistakes(window, path=""), None) is not None:
        return None
    return change_hold.find_change_hold(windows.parse(window), now=run.world.services.clock.now())


def list_renames(run: PreviewRun) -> Iterator[str]:
    """Yield the resources that seem to be renamed ones, so that their data is left behind."""
    planner, changes = run.reconciler.planner, run.recorder.changes
    if planner is None:
        return
    created = {each.resource for each in changes if each.action is Action.CREATE}
    obsolete = [each for each in (*changes, *list_unfinished(run)) if each.resource not in planner.blueprint.resources]
    former = {each.resource: kinds.make_key(each.ref.group, each.ref.kind) for each in obsolete if each.ref is not None}
    yield from definition_warnings.find_renames(former, planner.blueprint, is_new=created.__contains__)


def is_hindered(run: PreviewRun, name: str, status: ResourceStatus) -> bool:
    """Return whether a change that the definition requires does not happen."""
    planner = run.reconciler.planner
    desired = planner.find_desired(name, status.child) if planner is not None and status.child is not None else None
    return (
        status.child is None
        or desired is None
        or desired.hash != status.child.hash
        or name in run.reconciler.memory.attempts
        or status.reason == enforcement.RESTRICTED
    )


def list_unfinished(run: PreviewRun) -> Iterator[Change]:
    """Yield the resources that stop, fail or wait, and the objects that stay."""
    for name, status in run.statuses.items():
        message = run.world.assumptions.unknown.explain(status.message)
        make = functools.partial(Change, resource=name, ref=status.ref, reason=message)
        if status.stopped_at or status.state is ResourceState.STOPPED:
            yield make(action=Action.STOP, hook=status.stopped_at)
        elif status.state in (ResourceState.FAILED, ResourceState.RETRYING):
            if is_hindered(run, name, status) and not run.is_rolled_back:
                yield make(action=Action.FAIL)
        elif status.state is ResourceState.WAITING:
            yield make(action=Action.WAIT)
    if run.reconciler.planner is not None:
        yield from list_obsolete(run, run.reconciler.planner)
        yield from list_unwanted_members(run, run.reconciler.planner)


def grade_removal(copy: ObjectCopy, *, is_released: bool, adopts: bool) -> Undo:
    """Return how a rollback undoes that an object is deleted or released."""
    child = copy.child
    if is_released:
        return reversal.grade_release(is_adopted=child.is_adopted, adopts=adopts)
    return reversal.grade_deletion(child.kind.key, copy.raw)


def list_obsolete(run: PreviewRun, planner: StackPlanner) -> Iterator[Change]:
    """Yield the obsolete objects that stay."""
    for child in planner.preserved.values():
        reason = "it holds data or is retained, and no user asked for its removal"
        yield Change(action=Action.KEEP, resource=child.resource, ref=child.ref, reason=reason, undo=reversal.COMPLETE)
    held = planner.deletion_guard.held_deletions
    unnamed = {child.uid: name for name, found in planner.find_unnamed().items() for child in found}
    for uid, child in planner.cleanup.children.items():
        copy = run.world.copies.find(object_copies.place_of(child.ref))
        is_released = step_planning.is_retained(child, planner.blueprint)
        adopts = run.adopts(child.resource)
        undo = grade_removal(copy, is_released=is_released, adopts=adopts) if copy is not None else None
        make = functools.partial(Change, resource=child.resource, ref=child.ref, undo=undo)
        if uid in unnamed:
            reason = f"it stays until the name of {unnamed[uid]} is known, which may be the same"
            yield make(action=Action.WAIT, reason=reason)
        elif uid not in held:
            yield make(action=Action.WAIT, reason="its deletion waits until the resources of the target are ready")
        elif held[uid].is_excessive:
            yield make(action=Action.STOP, reason=f"{planner.deletion_guard.excess}; it waits for consent")
        elif held[uid].is_denied:
            yield make(action=Action.FAIL, reason=held[uid].message, undo=None)
        else:
            yield make(action=Action.STOP, hook=enforcement.BEFORE[environment_rules.Action.DELETE])
    for name in planner.find_post_delete_stops():
        yield Change(action=Action.STOP, resource=name, hook=enforcement.AFTER[environment_rules.Action.DELETE])


def list_unwanted_members(run: PreviewRun, planner: StackPlanner) -> Iterator[Change]:
    """Yield the members that a collection with `maxRemoved` deletes later, after the run of a preview."""
    waiting = {name for root in planner.blueprint.collections for name in planner.removals.list_waiting(root)}
    for copy in run.world.copies if waiting else ():
        child = copy.child
        is_own = child.stack_uid == run.world.stack.uid and child.resource in waiting
        if is_own and not child.deleting and not step_planning.is_retained(child, planner.blueprint):
            undo = grade_removal(copy, is_released=False, adopts=False)
            make = functools.partial(Change, action=Action.DELETE, resource=child.resource, ref=child.ref)
            yield make(reason=UNWANTED, undo=undo, is_uncertain=True)


async def find_uncertain(run: PreviewRun) -> set[str]:
    """Return the resources whose outcome is uncertain: because of their own values or a required resource."""
    planner = run.reconciler.planner
    if planner is None:
        return set()
    changes = run.recorder.changes
    uncertain = {each.resource for each in changes if each.is_uncertain}
    known = {each.resource for each in changes}
    moved = {each.resource for each in changes if each.is_uncertain and each.action is Action.REPLACE}
    for name, resource in planner.blueprint.resources.items():
        status = planner.statuses.get(name)
        required = {each for need in resource.requires for each in expand(need, planner)}
        if status is None or name in uncertain:
            continue
        is_blocked = status.state is ResourceState.WAITING and not required.isdisjoint(uncertain)
        if (
            is_blocked
            or not required.isdisjoint(moved)
            or (name not in known and status.state in HALTED and not await is_certain(run, planner, name, status))
        ):
            uncertain.add(name)
    return uncertain


def expand(required: str, planner: StackPlanner) -> tuple[str, ...]:
    """Return the resource that is required, or all members of a collection."""
    if not members.is_all(required):
        return (required,)
    return planner.blueprint.collections[members.root_of(required)].members


async def is_certain(run: PreviewRun, planner: StackPlanner, name: str, status: ResourceStatus) -> bool:
    """Return whether a halted resource changes regardless of the unknown values."""
    desired = planner.find_desired(name, status.child) if status.child is not None else None
    if desired is None:
        return True
    stack = run.world.stack
    manager = names.field_manager(stack.namespace, stack.name, kind=stack.kind)
    try:
        return await run.world.cluster.changes_for_sure(desired.manifest, kind=desired.kind, manager=manager)
    except ApiStatusError:
        return True


def make_filter(
    world: PreviewWorld, *, before: Mapping[str, Sequence[Object]], applied: Mapping[str, Sequence[Object]]
) -> Callable[[Change], Change]:
    """Return the function that hides the sensitive values of a change, and grades a change of one as one-way.

    Call it once everything was compiled.

    If a manifest has one, neither the old nor the new value is shown. before: the manifests of the current target, by
    resource; applied: the manifests of the preview.
    """
    texts = frozenset(world.builder.sensitive_texts)
    hidden = set(world.builder.hidden)
    is_blind = not before and any(stored.get("sensitive") for _, stored in world.request.revisions)
    tainted: dict[str, list[FieldPath] | None] = {}
    for resource in hidden:
        manifests = [*before.get(resource, ()), *applied.get(resource, ())]
        found = [path for manifest in manifests for path in find_sensitive(manifest, texts)]
        tainted[resource] = found or None

    def hide(change: Change) -> Change:
        fields = tuple(hide_field(change, each) for each in change.fields)
        shown = redact_change(dataclasses.replace(change, fields=fields), texts)
        lost = find_lost_secret(change)
        return shown if lost is None else dataclasses.replace(shown, undo=lost)

    def find_lost_secret(change: Change) -> Undo | None:
        if change.undo is None or change.undo.grade is UndoGrade.ONE_WAY or change.resource not in hidden:
            return None
        stated = [path for manifest in before.get(change.resource, ()) for path in find_sensitive(manifest, texts)]
        for each in change.fields:
            if any(map(functools.partial(is_same_value, change, each.path), stated)) and is_other_secret(each, texts):
                return reversal.make_one_way(redaction.redact(each.text, texts), UNSTORED)
        return None

    def hide_field(change: Change, each: FieldChange) -> FieldChange:
        is_secret = change.ref is not None and (change.ref.group, change.ref.kind) == ("", "Secret")
        if is_secret and each.path[0] in SECRET_FIELDS:
            return conceal(each)
        paths = tainted.get(change.resource, [])
        if is_blind or paths is None or any(is_overlapping(each.path, path) for path in paths):
            return conceal(each)
        return each

    return hide


def redact_change(change: Change, texts: frozenset[str]) -> Change:
    """Return a change without these texts."""

    def redact_field(each: FieldChange) -> FieldChange:
        old, new = (
            value if isinstance(value, Absent) else redaction.redact_within(value, texts)
            for value in (each.old, each.new)
        )
        return dataclasses.replace(each, old=old, new=new)

    reason, unchecked = (redaction.redact(text, texts) for text in (change.reason, change.unchecked))
    fields, undo = tuple(map(redact_field, change.fields)), redact_undo(change.undo, texts)
    return dataclasses.replace(change, fields=fields, reason=reason, unchecked=unchecked, undo=undo)


def redact_undo(undo: Undo | None, texts: frozenset[str]) -> Undo | None:
    """Return how a change is undone, without these texts."""
    if undo is None:
        return None
    lost = tuple(redaction.redact(each, texts) for each in undo.lost)
    field, reason = (redaction.redact(text, texts) for text in (undo.field, undo.reason))
    return dataclasses.replace(undo, field=field, reason=reason, lost=lost)


def find_sensitive(manifest: Object, texts: frozenset[str]) -> list[FieldPath]:
    """Return the paths of the values that contain a sensitive text."""
    return [
        path
        for path, value in field_changes.find_leaves(field_changes.prune(manifest))
        if redaction.redact_within(value, texts) != value
    ]


def is_same_value(change: Change, path: FieldPath, stated: FieldPath) -> bool:
    """Return whether a path of a manifest leads to the changed value. The API server moves `stringData` to `data`."""
    is_secret = change.ref is not None and (change.ref.group, change.ref.kind) == ("", "Secret")
    if is_secret and stated[0] in SECRET_FIELDS and path[0] in SECRET_FIELDS:
        return is_overlapping(path[1:], stated[1:])
    return is_overlapping(path, stated)


def is_other_secret(change: FieldChange, texts: frozenset[str]) -> bool:
    """Return whether a value changes that contains a sensitive text, and that text changes."""
    if isinstance(change.old, Absent) or isinstance(change.new, Absent):
        return False
    old, new = (
        {text for text in texts if redaction.redact_within(value, frozenset((text,))) != value}
        for value in (change.old, change.new)
    )
    return old != new


def is_overlapping(one: FieldPath, other: FieldPath) -> bool:
    """Return whether one path leads into the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def conceal(change: FieldChange) -> FieldChange:
    """Return the change without its values."""

    def replace(value: Any) -> Any:
        return ABSENT if isinstance(value, Absent) else redaction.SENSITIVE

    return dataclasses.replace(change, old=replace(change.old), new=replace(change.new))
