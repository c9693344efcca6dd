"""Recognizes objects and revisions that the operator wrote, without access to the operator's key.

The operator compares keyed hashes. A preview evaluates the stored revisions with the current values instead. The
objects of a settled Stack have the manifests of its target. Otherwise, dry runs show which manifest an object has.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition import stored_definition
from hearth.model import field_paths, members, names, value_class
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError, InvalidDefinition, SourceNotFound, TamperedRevision, Unreachable
from hearth.model.field_paths import ElementPath
from hearth.plan.ownership import field_changes
from hearth.plan.resource import drift, finished_run
from hearth.plan.resource.resource_planner import ResourcePlanner
from hearth.plan.stack import options
from hearth.plan.state import finished_work, requirements
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.plan_input import PlanInput
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.state.watched_kinds import WatchedKinds
from hearth.plan.status import conditions
from hearth.plan.target import target_status
from hearth.plan.target.target import Target
from hearth.preview import object_copies, preview_world
from hearth.preview.preview_world import PreviewWorld
from hearth.template.blueprint import Blueprint, ReadValue
from hearth.template.cel.evaluation import Unevaluated

UNREADABLE = (InvalidDefinition, SourceNotFound, TamperedRevision, Unevaluated, ApiStatusError)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One object as one stored revision would define it."""

    child: Child
    desired: DesiredObject


async def recognize(world: PreviewWorld) -> dict[str, list[Object]]:
    """Recognize revisions and objects; return the manifests of the target by resource, as they are now."""
    present = preview_world.parse_present(world)
    if present is None:
        return {}
    await recognize_revisions(world, present)
    memory = target_status.read_memory(present.status, uid=present.uid, hashes=world.hashes)
    target = target_status.decode(memory) if memory is not None else None
    if target is None:
        return {}
    is_at_rest = target.is_completed and conditions.find(present.status, "Ready").get("status") == "True"
    numbers = [target.revision] if is_at_rest else list_numbers(world, target, memory or {})
    wanted = options.parse(world.stack.spec).to_revision
    earlier = wanted if wanted is not None else 0
    earlier = earlier or target_status.read_completed(memory or {}).previous or 0
    found = [await find_candidates(world, present, number, target) for number in numbers]
    await recognize_finished(world, present, [target.revision, earlier], target)
    if not is_at_rest:
        found.append(await find_wanted(world))
    await recognize_children(world, [each for each in found if each], is_at_rest=is_at_rest)
    return {each.child.resource: [each.desired.manifest] for each in (found[0] if found else [])}


def list_numbers(world: PreviewWorld, target: Target, memory: Mapping[str, Any]) -> list[int]:
    """Return the revisions that objects may have, while the Stack has not completed its target."""
    completed, wanted = target_status.read_completed(memory), options.parse(world.stack.spec).to_revision
    numbers = (target.revision, *target.protected_revisions, completed.last, completed.previous, wanted)
    return list(dict.fromkeys(number for number in numbers if number))


async def recognize_revisions(world: PreviewWorld, present: StackObject) -> None:
    """Store the revisions with the preview's hashes, also in the status, as if the operator had this key."""
    hashes, translated = world.hashes.of_stack(present.uid), {}
    for revision, stored in world.request.revisions:
        definition = await restate(world, present, revision, stored) if stored else {}
        hashed = stored_definition.hash_record(definition, hashes) if definition else revision.hash
        translated[revision.hash] = hashed
        made = dataclasses.replace(revision, hash=hashed)
        world.management.add_revision(verified_revisions.sign(made, present, world.hashes), definition)
    preview_world.replace_status(world, preview_world.translate_status(world.stack.status, translated))


async def restate(world: PreviewWorld, present: StackObject, revision: Revision, stored: Object) -> Object:
    """Return a stored definition with the preview's hashes of its sensitive values, as they are today."""
    hashes, reader = world.hashes.of_stack(present.uid), world.builder.find_reader(present)
    try:
        definition = await stored_definition.from_stored(
            stored, reader=reader, stack=present, number=revision.number, hashes=hashes
        )
    except UNREADABLE:
        return stored
    return stored_definition.to_stored(definition, hashes)


async def find_candidates(world: PreviewWorld, present: StackObject, number: int, target: Target) -> list[Candidate]:
    """Return each object as a stored revision would define it; none if that cannot be compiled now."""
    planner = await plan_stored(world, present, number, target)
    return list(evaluate(world, present, planner)) if planner is not None else []


async def plan_stored(world: PreviewWorld, present: StackObject, number: int, target: Target) -> ResourcePlanner | None:
    """Return a planner of a stored revision, or None if that cannot be compiled now."""

    async def compile_() -> Blueprint:
        return (await world.builder.compile_stored(present, number, surge=target.surge)).blueprint

    try:
        return await make_planner(world, present, compile_)
    except (*UNREADABLE, Unreachable):
        return None


async def find_wanted(world: PreviewWorld) -> list[Candidate]:
    """Return each object as the wanted definition would define it; none if that definition is rejected."""
    stack, builder = world.stack, world.builder
    try:
        definition = await builder.read_spec(stack.namespace, stack.spec, reader=builder.find_reader(stack))
        planner = await make_planner(world, stack, lambda: builder.compile(definition, stack))
    except (*UNREADABLE, Unreachable):
        return []
    return list(evaluate(world, stack, planner))


async def recognize_finished(world: PreviewWorld, present: StackObject, numbers: list[int], target: Target) -> None:
    """Add the preview's hashes of finished work to the status: of the target, and of an earlier revision.

    The status has the number of finished definitions of a resource, but not their revisions. The earlier revision
    counts if there are two.
    """
    entries = {entry.resource: entry for entry in finished_work.decode(present.status.get(finished_work.FIELD))}
    for number, least in zip(numbers, (1, 2), strict=True) if entries else ():
        planner = await plan_stored(world, present, number, target)
        if planner is None:
            continue
        gone: dict[str, str] = {}
        list(evaluate(world, present, planner, gone=gone))
        for name, hash_ in gone.items():
            entry = entries.get(name)
            if entry is not None and len(entry.definitions) >= least:
                definitions = (finished_work.shorten(hash_), *entry.definitions)[: finished_work.DEFINITIONS]
                entries[name] = dataclasses.replace(entry, definitions=definitions)
    if entries:
        work = finished_work.FinishedWork(entries=entries)
        preview_world.replace_status(world, {**world.stack.status, finished_work.FIELD: work.encode()})


async def make_planner(
    world: PreviewWorld, present: StackObject, compile_: Callable[[], Awaitable[Blueprint]]
) -> ResourcePlanner:
    """Return a planner that knows the external objects, and the members that they define."""
    planner = await read_externals(world, present, await compile_())
    read = {
        name: ReadValue.of(each, fields)
        for name, each in planner.blueprint.externals.items()
        if each.is_awaited and (fields := planner.externals.statuses[name].fields) is not None
    }
    if not read:
        return planner
    world.builder.read[present.uid] = {**world.builder.read.get(present.uid, {}), **read}
    return await read_externals(world, present, await compile_())


async def read_externals(world: PreviewWorld, present: StackObject, blueprint: Blueprint) -> ResourcePlanner:
    """Return a planner of the blueprint that knows the external objects."""
    boundary = world.services.find_boundary(present)
    planner = ResourcePlanner(
        blueprint=blueprint,
        stack=present.identity,
        kinds=WatchedKinds(served=world.cluster.kinds),
        hashes=world.hashes.of_stack(present.uid),
        rules=world.services.health_rules,
        plan_input=PlanInput(boundary=boundary, find_external=world.cluster.find_external),
    )
    if blueprint.externals:
        world.cluster.follow_externals(present.uid, planner.find_queries(boundary), namespace=present.namespace)
        await world.cluster.read_externals(boundary.user)
        for name in blueprint.externals:
            planner.refresh_external(name)
    return planner


def evaluate(
    world: PreviewWorld, present: StackObject, planner: ResourcePlanner, *, gone: dict[str, str] | None = None
) -> Iterator[Candidate]:
    """Yield the desired objects of a blueprint with the current values. Every object counts as ready.

    gone: receives the hash of each resource that has no object.
    """
    statuses: dict[str, ResourceStatus] = {}
    for name in planner.blueprint.resources:
        children = world.cluster.children_of(present.uid, name)
        planner.plan(name, statuses, children, memory=InMemoryState(), now=0.0)
        current = requirements.find_current(children)
        statuses[name] = ResourceStatus(state=ResourceState.READY, reason="Ready", message="", child=current)
        absent = planner.desired.find(name) if current is None else None
        if absent is not None and absent.resource.run is not None:
            statuses[name] = finished_run.make_gone(absent)
            if gone is not None:
                gone[name] = absent.hash
        if (whole := members.name_all(members.root_of(name))) in planner.collections:
            planner.collections[whole].update(name, statuses[name])
        for child in children:
            desired = planner.desired.find(name, child)
            if desired is not None and child.is_identified and child.ref == desired.ref:
                yield Candidate(child=child, desired=desired)


async def recognize_children(world: PreviewWorld, found: list[list[Candidate]], *, is_at_rest: bool) -> None:
    """Give each object the hash of the definition that it has, if one of the candidates fits."""
    by_child: dict[str, list[Candidate]] = {}
    for candidate in (each for candidates in found for each in candidates):
        by_child.setdefault(candidate.child.uid, []).append(candidate)
    chosen = await asyncio.gather(*(choose(world, each, is_at_rest=is_at_rest) for each in by_child.values()))
    for each, candidates in zip(chosen, by_child.values(), strict=True):
        if each is not None:
            adopt_hash(world, each, hash_=each.desired.hash)
        else:
            # The object has none of these definitions, so it gets a hash that no definition has.
            adopt_hash(world, candidates[0], hash_=world.hashes.hash(candidates[0].child.uid))


async def choose(world: PreviewWorld, candidates: list[Candidate], *, is_at_rest: bool) -> Candidate | None:
    """Return the candidate that the object has, by dry runs unless the Stack is at rest, or None if it has none of them."""
    if is_at_rest:
        return candidates[0]
    for candidate in candidates:
        if await is_as(world, candidate):
            return candidate
    return None


async def is_as(world: PreviewWorld, candidate: Candidate) -> bool:
    """Whether an apply of the candidate would change nothing of its object, except fields that others took."""
    stack, child = world.stack, candidate.child
    known = world.copies.find(object_copies.place_of(child.ref))
    manager = names.field_manager(stack.namespace, stack.name, kind=stack.kind)
    live = known.raw if known is not None else {}
    taken = [lost.path for lost in drift.compare(child, candidate.desired).tolerated if has_value(live, lost.path)]
    manifest = field_paths.without(candidate.desired.manifest, taken)
    try:
        applied = await world.live.try_apply(manifest, kind=child.kind, manager=manager, force=True)
    except (ApiStatusError, Unreachable):
        return False
    return known is not None and not field_changes.find_changes(known.raw, applied)


def has_value(live: Object, path: ElementPath) -> bool:
    """Return whether the object has the field. Only then can another manager have taken it."""
    try:
        return field_paths.read(live, path) is not None
    except (KeyError, IndexError, TypeError):
        return False


def adopt_hash(world: PreviewWorld, candidate: Candidate, *, hash_: str) -> None:
    """Replace the operator's hashes on a copied object by the preview's."""
    known = world.copies.find(object_copies.place_of(candidate.child.ref))
    if known is None:
        return
    metadata = known.raw["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    annotations[names.ANNOTATION_HASH] = hash_
    if names.ANNOTATION_LAST_APPLIED in annotations and candidate.desired.record:
        annotations[names.ANNOTATION_LAST_APPLIED] = candidate.desired.record
    raw = {**known.raw, "metadata": {**metadata, "annotations": annotations}}
    world.copies.put(raw, kind=known.kind, is_live=True)
