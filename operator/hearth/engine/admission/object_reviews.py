"""Admission reviews of Stacks, StackTemplates, StackSnapshots and HealthMarks.

A Stack is compiled as in the engine, against the kinds that the cluster serves. Two writes get warnings but no denial:
a definition that reads other objects, because these may change before the operator reads them, and a write that leaves
the definition unchanged, so that users can pause or delete an invalid Stack. A StackSnapshot, or a request to restore
one, gets a warning if it refers to a missing object, because it waits for that object. A HealthMark is denied in that
case, because it never applies to a later object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hearth.engine import cooperative_work, stack_snapshots
from hearth.engine.admission import review as review_module
from hearth.engine.admission.review import Review, ReviewResult
from hearth.engine.cluster_objects import KubeconfigRef, StackObject
from hearth.engine.definition import definition_sources, rejections, snapshot_restore, stack_cluster
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import errors, members, names, windows
from hearth.model.child import Object
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import Mistake
from hearth.model.kinds import Kinds, ObjectRef
from hearth.model.tenancy import Boundary
from hearth.model.text import times
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.environment import environment_rules
from hearth.plan.resource import definition_warnings
from hearth.plan.status import breakpoint_waits
from hearth.plan.target import rollback_notes
from hearth.template import resource_group
from hearth.template.blueprint import Blueprint, Definition, Known
from hearth.template.cel.evaluation import Unevaluated
from hearth.template.compiler import secret_literals
from hearth.template.text import error_hints

TEMPLATE_SOURCES = ("templateRef", "templateRefs")
DEFINING_FIELDS = (
    *("template", *TEMPLATE_SOURCES, "parameters", "parametersFrom"),
    *("adoptionPolicy", "serviceAccountName", "kubeConfig"),
    resource_group.SIZE,
)
"""Fields of the spec that select the applied objects and their account."""
CONSEQUENCE = "nothing is changed"
STORED = "it is stored, and nothing is applied until this is corrected"
SNAPSHOT_COMPLETE = "Complete"
NO_REASON = (
    "spec.reason: is missing, so the object is marked only with the name of this HealthMark; "
    "set it to explain why the object is unhealthy"
)
API_VERSION = f"{names.GROUP}/{names.VERSION}"


async def review_stack(
    builder: RevisionBuilder, review: Review, *, check_kubeconfig: Callable[[str], object]
) -> ReviewResult:
    """Return a denial with all errors of a Stack, or warnings. It has the evaluator processes of `builder` to itself.

    check_kubeconfig: raises KubeconfigRefused for a kubeconfig that the engine would not use.
    """
    if review.new.get("metadata", {}).get("deletionTimestamp"):
        return review_module.ALLOWED
    stack = review_module.make_stack(review.new, namespace=review.namespace)
    if denial := _find_boundary(builder, stack).stack_denial:
        return deny(review, denial)
    try:
        restore = await review_restore(builder, review)
        result = (await _review_stack(builder, review, stack, check_kubeconfig=check_kubeconfig)).combine(restore)
    finally:
        builder.evaluations.forget(stack.uid)
    if result.denial or not (warning := warn_of_rollback(review)):
        return result
    return dataclasses.replace(result, warnings=(review_module.shorten(warning), *result.warnings))


async def _review_stack(
    builder: RevisionBuilder, review: Review, stack: StackObject, *, check_kubeconfig: Callable[[str], object]
) -> ReviewResult:
    try:
        definition = await builder.read_spec(review.namespace, review.spec, reader=builder.find_reader(stack))
    except errors.SourceNotFound as error:
        result = ReviewResult(warnings=review_module.to_warnings(str(error)))
        return await deny_certain(builder, review, stack, result)
    except errors.InvalidDefinition as error:
        return await deny_certain(builder, review, stack, judge(review, error, definition=None))
    try:
        blueprint = await compile_fully(builder, definition, stack)
    except errors.InvalidDefinition as error:
        return await deny_certain(builder, review, stack, judge(review, error, definition=definition))
    if stack.kubeconfig is not None:
        # The kinds of another cluster are known once the engine reaches it.
        found = await _check_kubeconfig(builder, stack, stack.kubeconfig, check=check_kubeconfig)
        return ReviewResult(warnings=review_module.to_warnings(found))
    boundary = _find_boundary(builder, stack)
    beyond = await cooperative_work.finish(find_beyond(blueprint, boundary, kinds=builder.cluster.kinds))
    if beyond:
        return judge(review, errors.InvalidDefinition(beyond), definition=definition)
    warnings = [*find_warnings(review.spec, blueprint, kinds=builder.cluster.kinds)]
    warnings += secret_literals.find_warnings(definition.template)
    if review.old is not None:
        before = review_module.read_spec(review.old)
        warnings += definition_warnings.find_lost_guards(before, review.spec, path="spec", objects="this Stack")
        former = definition_warnings.list_kinds(review_module.read_spec(review.old).get("template"))
        warnings += definition_warnings.find_renames(
            former, blueprint, is_new=lambda name: members.root_of(name) not in former
        )
    if stack.is_group:
        warnings += resource_group.find_warnings(review.new["spec"])
    return ReviewResult(warnings=review_module.to_warnings("\n".join(warnings)))


async def _check_kubeconfig(
    builder: RevisionBuilder, stack: StackObject, reference: KubeconfigRef, *, check: Callable[[str], object]
) -> str:
    """Return why the kubeconfig is not used; only a warning, because the Secret may change."""
    try:
        text = await stack_cluster.read_kubeconfig(builder.find_reader(stack), stack, reference)
        check(text)
    except errors.SourceNotFound as error:
        return str(error)
    except errors.KubeconfigRefused as error:
        return stack_cluster.describe_rejected(stack, reference, error)
    return ""


def _find_boundary(builder: RevisionBuilder, stack: StackObject) -> Boundary:
    """Return where the objects of the Stack may be."""
    is_remote = stack.kubeconfig is not None
    return builder.tenancy.find_boundary(
        stack.namespace, stack.service_account, is_remote=is_remote, definer=stack.definer
    )


async def review_template(builder: RevisionBuilder, review: Review) -> ReviewResult:
    """Deny a StackTemplate with errors that occur with any parameters, before the Stacks that use it report them."""
    stack = review_module.make_stack(review.new, namespace="")
    blueprint, mistakes = await compile_template(builder, review.spec.get("template"), stack)
    if mistakes:
        error = errors.InvalidDefinition(mistakes)
        return ReviewResult(denial=rejections.describe_mistakes(error, consequence="the template is not stored"))
    if blueprint is None:
        return review_module.ALLOWED
    found = [
        *find_warnings({}, blueprint, kinds=builder.cluster.kinds),
        *secret_literals.find_warnings(review.spec.get("template")),
    ]
    return ReviewResult(warnings=review_module.to_warnings("\n".join(found)))


async def compile_template(
    builder: RevisionBuilder, template: object, stack: StackObject
) -> tuple[Blueprint | None, Sequence[Mistake]]:
    """Compile a template without parameters; return the errors that occur with any parameters.

    Returns no errors where some value could fix all of them. The Stack only represents the owner and is not stored.
    """
    definition = Definition(template=template if isinstance(template, dict) else {}, parameters={})
    try:
        definition_sources.check_template(definition.template, path=definition_sources.INLINE_PATH)
        return await compile_fully(builder, definition, stack), ()
    except errors.InvalidDefinition as error:
        return None, definition_sources.find_certain(error, definition)
    finally:
        builder.evaluations.forget(stack.uid)


async def compile_fully(builder: RevisionBuilder, definition: Definition, stack: StackObject) -> Blueprint:
    """Compile, and wait for slow expressions; the caller limits the time."""
    while True:
        try:
            return await builder.compile(definition, stack)
        except Unevaluated:
            await builder.evaluations.wait(stack.uid)


def warn_of_rollback(review: Review) -> str:
    """Return a warning if the edit ends a rollback without requesting another one, otherwise ""."""
    if review.old is None or is_definition_kept(review):
        return ""
    before, after = (review_module.read_spec(each).get("rollback") for each in (review.old, review.new))
    if after and after != before:
        return ""
    status = review.old.get("status")
    return rollback_notes.warn_of_end(
        status if isinstance(status, dict) else {}, name=review.name, namespace=review.namespace
    )


def judge(review: Review, error: errors.InvalidDefinition, *, definition: Definition | None) -> ReviewResult:
    """Deny the write. If the spec or its template reads other objects, only warn, because these may have caused the
    error.

    definition: None if it could not be read.
    """
    if reads_other_objects(review.spec, definition):
        text = rejections.describe_mistakes(error, consequence=STORED)
        return ReviewResult(warnings=review_module.to_warnings(text))
    return deny(review, rejections.describe_mistakes(error, consequence=CONSEQUENCE))


async def deny_certain(
    builder: RevisionBuilder, review: Review, stack: StackObject, result: ReviewResult
) -> ReviewResult:
    """Deny errors that occur with any values from `spec.parametersFrom`; without any, return the result unchanged."""
    template, given = review.spec.get("template"), review.spec.get("parameters") or {}
    has_source = any(review.spec.get(each) is not None for each in TEMPLATE_SOURCES)
    if result.denial or has_source or not isinstance(template, dict) or not review.spec.get("parametersFrom"):
        return result
    definition = Definition(template=template, parameters=given)
    try:
        definition_sources.check_template(template, path=definition_sources.INLINE_PATH)
        await compile_fully(builder, definition, stack)
    except errors.InvalidDefinition as error:
        certain = definition_sources.find_certain(error, definition, given=given)
        if certain:
            text = rejections.describe_mistakes(errors.InvalidDefinition(certain), consequence=CONSEQUENCE)
            return deny(review, text)
    return result


def find_past_end(review: Review, *, now: float) -> str:
    """Return the denial of a new `expiresAfter` that is over already, so that the Stack would be deleted at once, or ""."""
    lifetime = review.spec.get("expiresAfter")
    metadata = review.new.get("metadata") or {}
    if review.old is None or lifetime is None or metadata.get("deletionTimestamp"):
        return ""
    if lifetime == review_module.read_spec(review.old).get("expiresAfter"):
        return ""
    try:
        age = now - times.parse_time(str(metadata.get("creationTimestamp")))
        is_over = times.parse_duration(str(lifetime)) <= age
    except ValueError:
        return ""
    if not is_over:
        return ""
    return (
        f"spec.expiresAfter: is {lifetime}, but the Stack was created {times.format_duration(age)} ago, so it would be deleted "
        "now; set a longer time, or delete the Stack yourself"
    )


def find_window_denial(review: Review) -> str:
    """Return the denial of a new window with mistakes, or ""."""
    window = review.spec.get("window")
    is_kept = review.old is not None and review_module.read_spec(review.old).get("window") == window
    if not isinstance(window, dict) or is_kept or (review.new.get("metadata") or {}).get("deletionTimestamp"):
        return ""
    mistakes = list(windows.find_mistakes(window, path="spec.window"))
    if not mistakes:
        return ""
    return rejections.describe_mistakes(errors.InvalidDefinition(mistakes), consequence=CONSEQUENCE)


def deny(review: Review, text: str) -> ReviewResult:
    """Deny the write, or only warn if it leaves the definition unchanged."""
    if is_definition_kept(review):
        return ReviewResult(warnings=review_module.to_warnings(text))
    return ReviewResult(denial=text)


def reads_other_objects(spec: Object, definition: Definition | None) -> bool:
    """Return whether the definition contains anything that another object supplies."""
    if any(spec.get(each) is not None for each in TEMPLATE_SOURCES):
        return True
    return bool(definition.origins) if definition is not None else bool(spec.get("parametersFrom"))


def is_definition_kept(review: Review) -> bool:
    """Return whether the write leaves an existing definition unchanged."""
    if review.old is None:
        return False
    before, after = review_module.read_spec(review.old), review.spec
    try:
        return all(before.get(each) == after.get(each) for each in DEFINING_FIELDS)
    except RecursionError:
        return False


def find_beyond(blueprint: Blueprint, boundary: Boundary, *, kinds: Kinds) -> ChunkedWork[list[Mistake]]:
    """Find the resources whose namespace is already known and outside the boundary of the Stack."""
    found: list[Mistake] = []
    for resource in blueprint.resources.values():
        yield
        kind = kinds.find(resource.api_version, resource.kind)
        outcome = resource.manifest.evaluate({}) if kind is not None and resource.is_constant else None
        if kind is None or not isinstance(outcome, Known):
            continue
        metadata = outcome.value.get("metadata") or {}
        namespace = str(metadata.get("namespace") or boundary.namespace) if kind.namespaced else ""
        ref = ObjectRef(group=kind.group, kind=kind.name, namespace=namespace, name=str(metadata.get("name") or ""))
        if denial := boundary.find_denial(ref):
            found.append(Mistake(path=resource.path, message=denial))
    return found


def find_warnings(spec: Object, blueprint: Blueprint, *, kinds: Kinds) -> Iterator[str]:
    """Find valid settings that are probably unintended."""
    resources = blueprint.resources
    for resource in resources.values():
        if kinds.find(resource.api_version, resource.kind) is None:
            yield (
                f"{resource.path}: the cluster does not serve {resource.api_version} {resource.kind}, "
                f"so this resource waits until it does"
            )
    yield from definition_warnings.find_warnings(blueprint)
    nested = [name for name, resource in resources.items() if resource.is_stack]
    for rule in environment_rules.parse(spec.get("environment")).find_unmatched(resources.keys(), nested=nested):
        yield breakpoint_waits.describe_idle_rule(rule, blueprint.externals.keys())


async def review_snapshot(builder: RevisionBuilder, review: Review) -> ReviewResult:
    """Review a new StackSnapshot. Its Stack never changes, so a later write needs no review."""
    name = str(review.spec.get("stackName") or "")
    if review.old is not None or not name:
        # A snapshot of an instance has no `stackName`. It waits for an instance that does not exist and reports that in
        # its status.
        return review_module.ALLOWED
    stack = await find_live(builder, names.STACK, namespace=review.namespace, name=name)
    warning = describe_stack(stack, name=name, namespace=review.namespace)
    return ReviewResult(warnings=review_module.to_warnings(warning))


async def review_restore(builder: RevisionBuilder, review: Review) -> ReviewResult:
    """Review the snapshot that a Stack requests to be restored, if the request is new. One of another Stack is denied."""
    name = find_request(review.new)
    if not name or name == find_request(review.old):
        return review_module.ALLOWED
    found = await find_live(builder, stack_snapshots.STACK_SNAPSHOT, namespace=review.namespace, name=name)
    if found is None:
        text = f"namespace {review.namespace} has no StackSnapshot {name}; nothing is restored before it is complete"
        return ReviewResult(warnings=review_module.to_warnings(f"{snapshot_restore.PATH}: {text}"))
    owner = names.read_owner(review_module.read_spec(found))
    if owner != review.name:
        text = (
            f"StackSnapshot {name} is one of {names.describe_owner(owner)}, not of {review.name}; use a "
            "StackSnapshot of this Stack"
        )
        return ReviewResult(denial=f"{snapshot_restore.PATH}: {text}")
    return ReviewResult(warnings=review_module.to_warnings(describe_snapshot(found, name=name)))


def find_request(stack: Object | None) -> str:
    """Return the name in `spec.rollback.toSnapshot`; "" for none."""
    rollback = review_module.read_spec(stack).get("rollback")
    return str(rollback.get("toSnapshot") or "") if isinstance(rollback, dict) else ""


def describe_stack(stack: Object | None, *, name: str, namespace: str) -> str:
    """Explain why a snapshot of the Stack would not be taken now. Returns "" if it would."""
    if stack is None:
        return f"spec.stackName: namespace {namespace} has no Stack {name}; the snapshot waits until there is one"
    if review_module.read_spec(stack).get("kubeConfig") is not None:
        return (
            f"spec.stackName: the objects of Stack {name} are in another cluster (spec.kubeConfig), so this snapshot waits "
            f"forever; create VolumeSnapshots there"
        )
    if (stack.get("metadata") or {}).get("deletionTimestamp"):
        return f"spec.stackName: Stack {name} is being deleted, so no snapshot of it is taken"
    return ""


def describe_snapshot(snapshot: Object, *, name: str) -> str:
    """Explain why a snapshot is not restored at once. Returns "" if it is."""
    status = snapshot.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    if (snapshot.get("metadata") or {}).get("deletionTimestamp"):
        return f"{snapshot_restore.PATH}: StackSnapshot {name} is being deleted; use another one"
    if phase != SNAPSHOT_COMPLETE:
        return f"{snapshot_restore.PATH}: StackSnapshot {name} is not complete; nothing is restored before it is"
    return ""


async def find_live(builder: RevisionBuilder, kind_name: str, *, namespace: str, name: str) -> Object | None:
    """Return the live object, or None if it does not exist. Raises ApiStatusError or Unreachable if that is unknown."""
    kind = builder.cluster.kinds.find(API_VERSION, kind_name)
    if kind is None:
        return None
    ref = ObjectRef(group=names.GROUP, kind=kind_name, namespace=namespace, name=name)
    try:
        return await builder.cluster.get(ref, kind=kind)
    except errors.ApiStatusError as error:
        if not error.is_not_found:
            raise
        return None


async def review_mark(builder: RevisionBuilder, review: Review) -> ReviewResult:
    """Return the denial of a mark on a Stack or resource that does not exist, or warnings."""
    spec = review.spec
    is_unexplained = bool(spec.get("markUnhealthy")) and not str(spec.get("reason") or "").strip()
    warnings = (review_module.shorten(NO_REASON),) if is_unexplained else ()
    # The target is immutable, and an existing mark may outlive its resource.
    owner = names.read_owner(spec)
    if review.old is not None or not owner:
        return ReviewResult(warnings=warnings)
    denial = await _find_mark_denial(builder, review.namespace, spec, owner=owner)
    return ReviewResult(denial=denial, warnings=warnings)


async def _find_mark_denial(builder: RevisionBuilder, namespace: str, spec: Object, *, owner: str) -> str:
    """Return why the mark cannot apply to anything, or "" if it can, or if that is unknown."""
    kind, name = names.split_owner(owner)
    if kind not in names.STACK_KINDS:
        # Only the operator that serves the StackDefinition knows its instances.
        return ""
    stack = await find_live(builder, kind, namespace=namespace, name=name)
    if stack is None:
        (field,) = names.write_owner(owner)
        return f"spec.{field}: namespace {namespace} has no {kind} {name}; use an existing one"
    if kind != names.STACK:
        # Only the operator knows which indices were removed.
        return ""
    resources = await _find_resources(builder, namespace, stack)
    first = str(spec.get("resource") or "").partition("/")[0]
    if resources is None:
        return ""
    root = members.root_of(first)
    if root not in resources:
        hint = error_hints.did_you_mean(root, resources)
        there = f"it has: {enumerate_names(sorted(resources))}" if resources else "it has none"
        return f"spec.resource: Stack {spec['stackName']} has no resource {root}{hint}; {there}"
    is_collection = isinstance(resources[root], dict) and resources[root].get("forEach") is not None
    if is_collection and first == root:
        return f"spec.resource: {root} is a collection; specify a member by its key: {root}[<key>]"
    if first != root and not is_collection:
        return f"spec.resource: {root} has no members, because it has no forEach; write {root}"
    return ""


async def _find_resources(builder: RevisionBuilder, namespace: str, stack: Object) -> Mapping[str, Any] | None:
    """Return the resources of a Stack by name, or None if they may differ from the resources of its spec."""
    if is_in_transition(stack):
        return None
    try:
        definition = await builder.read_spec(
            namespace,
            review_module.read_spec(stack),
            reader=builder.find_reader(review_module.make_stack(stack, namespace=namespace)),
        )
    except (errors.InvalidDefinition, errors.SourceNotFound):
        return None
    resources = definition.template.get("resources")
    return resources if isinstance(resources, dict) else None


def is_in_transition(stack: Object) -> bool:
    """Whether a revision other than the spec's may be active, or some of its objects still exist."""
    status = stack.get("status") or {}
    is_current = status.get("observedGeneration") == stack.get("metadata", {}).get("generation")
    rollback = review_module.read_spec(stack).get("rollback") or {}
    is_requested = rollback.get("toRevision") is not None or bool(rollback.get("toSnapshot"))
    is_settled = status.get("phase") in ("CreateComplete", "UpdateComplete")
    return is_requested or not (is_current and is_settled)
