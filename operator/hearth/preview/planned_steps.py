"""Converts the preview of a change to the content of a StackPlan.

A plan has field paths and never values, because anyone who may view the namespace may read it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from hearth.model import limits, names, object_fields
from hearth.model.child import Object
from hearth.model.errors import HearthError
from hearth.model.kinds import ObjectRef
from hearth.model.well_known_kinds import CLUSTER_ROLE
from hearth.plan.resource import data_kinds
from hearth.plan.resource.reversal import UndoGrade
from hearth.plan.target import change_plans
from hearth.plan.target.change_plans import PreviewedChange
from hearth.preview import previews, source_readers
from hearth.preview.changes import Action, Change, Preview
from hearth.preview.source_readers import NO_READERS, SourceReaders

STEPS: Final = frozenset({Action.CREATE, Action.ADOPT, Action.UPDATE, Action.REPLACE, Action.DELETE, Action.KEEP})
"""The actions that write to an object. The others become notes."""
UNKNOWN: Final = re.compile(r"\(known after [^)]*\)")
"""A value that is unknown until run time, as a preview writes it."""
RIGHTS_GROUP: Final = CLUSTER_ROLE.group
"""The API group of roles and their bindings."""


class NotPlannable(HearthError):
    """A change that no plan can describe."""


def make_change(preview: Preview, *, generation: int, readers: SourceReaders = NO_READERS) -> PreviewedChange:
    """Return the content of the plan. Raises NotPlannable if the definition is rejected, or has too many steps.

    generation: of the Stack in the preview; readers: the Stacks that read the objects that the change writes.
    """
    if preview.rejection:
        raise NotPlannable(preview.rejection)
    changes = [each for each in preview.changes if each.action in STEPS]
    if len(changes) > limits.PLAN_STEPS:
        raise NotPlannable(
            f"the change has {len(changes)} steps, and a plan has at most {limits.PLAN_STEPS}; make smaller changes"
        )
    notes = [cut(each) for each in list_notes(preview)]
    # What the Stack itself reads is part of its definition: a change of it needs its own plan.
    others = readers.without(source_readers.make_ref(preview.kind, preview.namespace, preview.name))
    unknown = list(dict.fromkeys(cut(text) for each in changes for text in find_unknown(each)))
    return PreviewedChange(
        generation=generation,
        sources=change_plans.list_versions(preview.sources),
        steps=tuple(make_step(each, risks=find_risks(each, preview, others)) for each in changes),
        undo=str(preview.undo) if preview.undo is not None else "",
        unknown=tuple(unknown[: limits.PLAN_UNKNOWN]),
        notes=shorten(notes),
    )


def shorten(notes: Sequence[str]) -> tuple[str, ...]:
    """Return as many notes as a plan can have, with one to spare. The last one says how many are missing."""
    most = limits.PLAN_NOTES - 1
    if len(notes) <= most:
        return tuple(notes)
    missing = len(notes) - most + 1
    return (*notes[: most - 1], f"the plan has no room for {missing} more notes")


def unpause(stack: Object) -> Object:
    """Return the Stack without `spec.paused`. A plan contains the steps that start when the pause ends."""
    spec = object_fields.mapping(stack, "spec")
    return {**stack, "spec": {key: value for key, value in spec.items() if key != "paused"}}


def make_step(change: Change, *, risks: Iterable[str] = ()) -> Object:
    """Return a step as in the API. Raises NotPlannable if it has too many fields. risks: why it is risky."""
    fields = [each.text for each in change.fields]
    unknown = change.seal.unknown if change.seal is not None else ()
    require_room(fields, f"{change.resource} changes {len(fields)} fields")
    require_room(unknown, f"{change.resource} has {len(unknown)} values that are unknown until run time")
    step: Object = {"action": str(change.action), "resource": cut(change.resource)}
    if change.ref is not None:
        step["object"] = make_object(change.ref)
    if change.old_ref is not None:
        step["oldObject"] = make_object(change.old_ref)
    if fields:
        step["fields"] = fields
    if change.seal is not None:
        step["content"] = change.seal.content
    if unknown:
        step["unknownFields"] = list(unknown)
    if change.reason:
        step["reason"] = cut(change.reason)
    if change.undo is not None:
        step["undo"] = str(change.undo.grade)
    if risky := [cut(each) for each in risks]:
        step["risky"] = risky[: limits.PLAN_RISKS]
    if change.is_uncertain:
        step["uncertain"] = True
    return step


def find_risks(change: Change, preview: Preview, readers: SourceReaders) -> Iterator[str]:
    """Yield why a step of a preview is risky: nothing if it is not."""
    if change.action is Action.DELETE:
        yield "it deletes the object"
    if change.action is Action.REPLACE:
        yield "it replaces the object"
    refs = [each for each in (change.ref, change.old_ref) if each is not None]
    if any(each.kind_key in data_kinds.HOLDING for each in refs):
        yield "its kind holds data"
    if any(each.group == RIGHTS_GROUP for each in refs):
        yield "it can give rights"
    if any(each.namespace != preview.namespace for each in refs):
        yield "its object is not in the namespace of the Stack"
    if change.undo is not None and change.undo.grade is UndoGrade.ONE_WAY:
        yield "a rollback cannot undo it"
    yield from find_nested_risks(refs, preview, readers)
    yield from itertools.islice(find_reader_risks(change, preview, readers), 1)


def find_nested_risks(refs: Sequence[ObjectRef], preview: Preview, readers: SourceReaders) -> Iterator[str]:
    """Yield why the steps of a nested Stack, group or instance are risky: the first risk, or that they are unknown."""
    for ref in refs:
        if names.is_stack(ref.group, ref.kind) or ref.group in readers.instance_groups:
            inner = find_inner(ref, preview)
            if inner is None:
                yield "its own steps are unknown"
            elif risk := find_inner_risk(inner, readers):
                yield f"a step in it is risky: {risk}"


def find_reader_risks(change: Change, preview: Preview, readers: SourceReaders) -> Iterator[str]:
    """Yield why the steps of Stacks that read a written object are risky."""
    for source in source_readers.find_written_sources([change]):
        for reader in readers.by_source.get(source, ()):
            inner = find_inner(reader, preview)
            if inner is None:
                yield f"{reader} reads it, and its steps are unknown"
            elif risk := find_inner_risk(inner, readers):
                yield f"{reader} reads it and has a risky step: {risk}"
        if not readers.is_complete:
            yield "Stacks may read it, and their steps are unknown"


def find_inner(ref: ObjectRef, preview: Preview) -> Preview | None:
    """Return the preview of a Stack in another, or None if its steps are unknown."""
    place = ref.kind, ref.namespace, ref.name
    inner = next((each for each in preview.nested if (each.kind, each.namespace, each.name) == place), None)
    is_known = inner is not None and (inner.changes or inner.is_new or inner.rejection)
    return inner if is_known and names.is_stack(ref.group, ref.kind) else None


def find_inner_risk(inner: Preview, readers: SourceReaders) -> str:
    """Return the first risk in the steps of a Stack in another, or "" for none."""
    risks = (f"{each.resource}: {risk}" for each in inner.changes for risk in list_inner_risks(each, inner, readers))
    return inner.rejection or next(risks, "")


def list_inner_risks(change: Change, inner: Preview, readers: SourceReaders) -> Iterator[str]:
    """Yield why a change in a Stack in another is risky. No plan limits the steps after it."""
    yield from find_risks(change, inner, readers)
    if change.action not in STEPS:
        yield f"{change.action}, and the steps after it are unknown"


def require_room(paths: Sequence[str], what: str) -> None:
    """Raise NotPlannable if these paths are too many or too long for a plan. what: the reason for them."""
    if len(paths) > limits.PLAN_FIELDS or any(len(each) > limits.PLAN_TEXT for each in paths):
        raise NotPlannable(
            f"{what}; a plan names at most {limits.PLAN_FIELDS} of one object, each with at most {limits.PLAN_TEXT} "
            f"characters; make smaller changes"
        )


def make_object(ref: ObjectRef) -> Object:
    """Return a reference as in the API."""
    namespace = {"namespace": cut(ref.namespace)} if ref.namespace else {}
    return {"group": ref.group, "kind": ref.kind, **namespace, "name": cut(ref.name)}


def find_unknown(change: Change) -> Iterator[str]:
    """Yield the values of a step that are unknown until run time."""
    for ref in (change.ref, change.old_ref):
        if ref is not None and (found := UNKNOWN.search(f"{ref.namespace} {ref.name}")):
            yield f"name of the object of {change.resource} {found.group()}"
    for field in change.fields:
        if text := find_text(field.new):
            yield f"{change.resource}: {field.text} {text}"


def find_text(value: Any) -> str:
    """Return the first note about an unknown value in a value, or ""."""
    if isinstance(value, str):
        found = UNKNOWN.search(value)
        return found.group() if found else ""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(find_text, inner)), "")


def list_notes(preview: Preview) -> Iterator[str]:
    """Yield what a user must know in addition to the steps."""
    yield from preview.live_reads
    yield from (each for each in preview.notes if each not in (previews.APPROVAL, previews.RISKY_APPROVAL))
    for change in preview.changes:
        if change.action not in STEPS:
            detail = f" at {change.hook}" if change.hook else ""
            reason = f": {change.reason}" if change.reason else ""
            yield f"{change.resource}: {change.action}{detail}{reason}"
    for nested in preview.nested:
        undo = f", undo: {nested.undo}" if nested.undo is not None else ""
        yield f"{nested.kind} {nested.name} in it has {len(nested.changes)} changes{undo}"
        yield from list_notes(nested)


def cut(text: str) -> str:
    """Return the text, shortened to the length of a text in a plan."""
    return text if len(text) <= limits.PLAN_TEXT else f"{text[: limits.PLAN_TEXT - 1]}…"
