"""Compares writes with the steps of an approved plan. A write outside the plan must not be sent.

A step allows writes of one object. The manifest must be the approved one, apart from values that were unknown, and the
write may change no other field than the step names. Values are compared by keyed hash, because a plan never shows
secrets. Labels and annotations of Hearth do not count. Fields that the API server or a webhook adds are no change by
Hearth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.model import limits, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.errors import HearthError
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership import apply_obstacles, field_changes
from hearth.plan.ownership.field_changes import ABSENT, Absent, FieldPath
from hearth.plan.ownership.field_ownership import Node

REASON: Final = "OutsidePlan"
"""Reason of a resource that stops because its next write is not in the approved plan."""
NAME: Final = "metadata.name"
NAMESPACE: Final = "metadata.namespace"
ANY_ITEM: Final = "[*]"
"""In the path of a field: an item of a list whose name was unknown."""
CREATING: Final = frozenset({"create", "replace"})
CHANGING: Final = frozenset({"update", "adopt"})
DELETING: Final = frozenset({"delete", "replace"})
FIELDS_SHOWN: Final = 3


class OutsidePlan(HearthError):
    """A write that the approved plan does not contain. The message describes the difference."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ContentSeal:
    """The manifest of a step, without its values."""

    content: str
    """Keyed hash of the manifest without the unknown values."""
    unknown: tuple[str, ...] = ()
    """Paths of the values that are unknown until run time. Items of lists are numbered."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedStep:
    """One step of an approved plan."""

    action: str
    ref: ObjectRef | None = None
    """The object after the step; None if it only deletes one."""
    old_ref: ObjectRef | None = None
    """Of a replacement: the object that is deleted."""
    fields: tuple[str, ...] = ()
    """Paths of the fields that an update changes."""
    seal: ContentSeal | None = None
    """None if the step applies no manifest."""

    def fits(self, ref: ObjectRef) -> bool:
        """Return whether the step is about this object. An unknown name or namespace fits any."""
        if self.ref is None or (self.ref.group, self.ref.kind) != (ref.group, ref.kind):
            return False
        unknown = self.seal.unknown if self.seal is not None else ()
        has_name = NAME in unknown or self.ref.name == ref.name
        return has_name and (NAMESPACE in unknown or self.ref.namespace == ref.namespace)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedSteps:
    """The steps that may be written now. Each method returns the difference as text, or "" if the write is approved."""

    steps: tuple[ApprovedStep, ...]
    hash_content: Callable[[Object], str]
    """The keyed hash of the Stack."""
    is_rollback: bool = False
    """Whether the change failed and is being rolled back. The plan covers this: the same objects and fields, with the
    content of the stored revision."""

    def find_excess_of_creation(self, ref: ObjectRef, manifest: Object) -> str:
        """Compare the creation of an object."""
        steps = [each for each in self._find(ref) if each.action in CREATING]
        is_restored = self.is_rollback and self._is_removed(ref)
        if is_restored or any(self._has_content(each, manifest) for each in steps):
            return ""
        if steps:
            return f"the approved plan creates {ref} with other values"
        return f"the approved plan does not create {ref}"

    def changes(self, ref: ObjectRef) -> bool:
        """Return whether the plan changes this object."""
        return any(each.action in CHANGING | self._adopting for each in self._find(ref))

    def find_excess_of_change(
        self, ref: ObjectRef, live: Object, changed: Object, *, stack_uid: str, manifest: Object | None = None
    ) -> str:
        """Compare a change of an object.

        live: the object before the write; changed: the object with the fields that the write changes, see
        `find_changed`; stack_uid: of the Stack, whose objects have it as a label; manifest: the applied one, None for a
        patch.
        """
        is_child = object_fields.text(live, "metadata", "labels", names.LABEL_STACK_UID) == stack_uid
        steps = [each for each in self._find(ref) if is_child or each.action in self._adopting]
        paths = list(find_paths(live, changed))
        if is_child and not paths:
            return ""
        approved = [each for each in steps if manifest is None or self._has_content(each, manifest)]
        for each in approved:
            # The step that creates an object approves all of its fields.
            if each.action in CREATING or (
                each.action in CHANGING | self._adopting and not find_unplanned(paths, each.fields)
            ):
                return ""
        if not is_child:
            return f"the approved plan does not adopt {ref}"
        if not steps:
            return f"the approved plan does not change {ref} ({show(paths)})"
        if not approved:
            return f"the approved plan gives {ref} other values"
        planned = [path for each in approved for path in each.fields]
        return (
            f"the approved plan does not change these fields of {ref}: {show(find_unplanned(paths, planned) or paths)}"
        )

    def find_excess_of_deletion(self, ref: ObjectRef) -> str:
        """Compare the deletion of an object."""
        # Work that failed is deleted before it runs again: the plan creates exactly this object.
        is_created = any(each.action in CREATING and each.ref == ref for each in self.steps)
        return "" if is_created or self._is_removed(ref) else f"the approved plan does not delete {ref}"

    def find_excess_of_release(self, ref: ObjectRef) -> str:
        """Compare the release of an object, which changes less than its deletion."""
        is_kept = any(each.action in self._releasing for each in self._find(ref))
        return "" if is_kept or not self.find_excess_of_deletion(ref) else f"the approved plan does not release {ref}"

    def replaces_set_of(self, claim_ref: ObjectRef) -> bool:
        """Return whether the StatefulSet of a claim is replaced. Its claims then get the size in its new template."""
        sets = (each.old_ref for each in self.steps if each.action == "replace" and each.old_ref is not None)
        return any(
            (each.kind_key, each.namespace) == ("StatefulSet.apps", claim_ref.namespace)
            and re.fullmatch(rf".+-{re.escape(each.name)}-[0-9]+", claim_ref.name) is not None
            for each in sets
        )

    @property
    def _adopting(self) -> frozenset[str]:
        """Actions after which the object of no Stack belongs to this one. A rollback takes back what was released."""
        return frozenset({"adopt", "keep"} if self.is_rollback else {"adopt"})

    @property
    def _releasing(self) -> frozenset[str]:
        return frozenset({"adopt", "keep"} if self.is_rollback else {"keep"})

    def _find(self, ref: ObjectRef) -> Iterator[ApprovedStep]:
        return (each for each in self.steps if each.fits(ref))

    def _is_removed(self, ref: ObjectRef) -> bool:
        """Return whether the plan deletes exactly this object."""
        return any(
            each.action in DELETING and ref == (each.old_ref if each.action == "replace" else each.ref)
            for each in self.steps
        )

    def _has_content(self, step: ApprovedStep, manifest: Object) -> bool:
        if self.is_rollback:
            return True
        return (
            step.seal is not None and seal(manifest, step.seal.unknown, self.hash_content).content == step.seal.content
        )


def seal(manifest: Object, unknown: Iterable[str], hash_content: Callable[[Object], str]) -> ContentSeal:
    """Return the seal of a manifest. unknown: the paths of values that do not count."""
    paths = tuple(dict.fromkeys(unknown))
    return ContentSeal(content=hash_content(mask(field_changes.prune(manifest), frozenset(paths))), unknown=paths)


def mask(value: Any, unknown: frozenset[str], path: FieldPath = ()) -> Any:
    """Return the value with None at these paths."""
    if not unknown:
        return value
    if path and field_changes.write_path(path) in unknown:
        return None
    if isinstance(value, dict):
        return {key: mask(inner, unknown, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [mask(inner, unknown, (*path, f"[{at}]")) for at, inner in enumerate(value)]
    return value


def find_changed(live: Object, predicted: Object, *, manager: str) -> Object:
    """Return the live object with the fields that an apply changes itself.

    predicted: the answer of the API server to the apply as a dry run. Fields that only the API server or a webhook
    changes stay as they are, if the records of field ownership show that.
    """
    before, after = (apply_obstacles.find_owned(each, manager=manager) for each in (live, predicted))
    # After an apply, there is always a record.
    if after is None or (before is not None and before[0] != after[0]):
        return predicted
    changed: Object = take_owned(live, predicted, before[1] if before is not None else None, after[1])
    return changed


def take_owned(live: Any, predicted: Any, before: Node | None, after: Node | None) -> Any:
    """Return `live` with the owned fields of `predicted`; ABSENT if the field is removed.

    before, after: the owned fields in the notation of `fieldsV1`, before and after the apply.
    """
    nodes = [each for each in (before, after) if each is not None]
    if not nodes:
        return live
    is_whole = all(each.keys() <= {"."} for each in nodes)
    if not is_whole and isinstance(live, dict) and isinstance(predicted, dict):
        found = {}
        for key in [*live, *(key for key in predicted if key not in live)]:
            value = take_owned(live.get(key, ABSENT), predicted.get(key, ABSENT), *step_into(f"f:{key}", before, after))
            if not isinstance(value, Absent):
                found[key] = value
        return found
    if not is_whole and isinstance(live, list) and isinstance(predicted, list):
        elements = dict.fromkeys(element for each in nodes for element in each if element.startswith("k:"))
        if elements and max(len(live), len(predicted), len(elements)) <= limits.COMPARED_ITEMS:
            return take_owned_items(live, predicted, before, after, elements=elements)
    return predicted


def take_owned_items(
    live: Sequence[Any], predicted: Sequence[Any], before: Node | None, after: Node | None, *, elements: Iterable[str]
) -> list[Any]:
    """Return a keyed list with the owned items of `predicted`, and the other items of `live`."""

    def name(items: Sequence[Any]) -> list[str]:
        return [next((each for each in elements if apply_obstacles.is_named(item, each)), "") for item in items]

    present, wanted = name(live), name(predicted)
    values = {element: item for element, item in zip(wanted, predicted, strict=True) if element}
    found = [
        take_owned(item, values.pop(element, ABSENT), *step_into(element, before, after)) if element else item
        for element, item in zip(present, live, strict=True)
    ]
    found = [each for each in found if not isinstance(each, Absent)] + list(values.values())
    # Without items of others, the order is the one of the manifest.
    return list(predicted) if all(present) and all(wanted) and len(found) == len(predicted) else found


def step_into(element: str, *nodes: Node | None) -> Iterator[Node | None]:
    """Yield the owned fields one level below."""
    return (each.get(element) if each is not None else None for each in nodes)


def find_paths(live: Object, changed: Object) -> Iterator[str]:
    """Yield the paths of all values that differ, without the records of the API server and of Hearth."""
    for change in field_changes.find_changes(live, changed):
        paths = dict.fromkeys(
            path
            for value in (change.old, change.new)
            if not isinstance(value, Absent)
            for path, _ in field_changes.find_leaves(value, change.path)
        )
        yield from (field_changes.write_path(path) for path in paths)


def find_unplanned(paths: Iterable[str], planned: Iterable[str]) -> list[str]:
    """Return the paths that are at or below none of the planned ones."""
    known = set(planned)
    patterns = [compile_path(each) for each in known if ANY_ITEM in each]
    return [
        path
        for path in paths
        if known.isdisjoint(find_prefixes(path)) and not any(pattern.match(path) for pattern in patterns)
    ]


def find_prefixes(path: str) -> Iterator[str]:
    """Yield a path and the paths above it."""
    yield path
    yield from (path[:at] for at, character in enumerate(path) if character in ".[" and at)


def compile_path(planned: str) -> re.Pattern[str]:
    """Compile the pattern of a planned path with items of any name, and everything below it."""
    return re.compile(r"\[[^\]]*\]".join(map(re.escape, planned.split(ANY_ITEM))) + r"(?![^.\[])")


def show(paths: Sequence[str]) -> str:
    """Return the first paths as text."""
    rest = len(paths) - FIELDS_SHOWN
    return ", ".join(paths[:FIELDS_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def read_steps(stored: Iterable[Mapping[str, Any]]) -> tuple[ApprovedStep, ...]:
    """Return the steps in the spec of a StackPlan, whose signature was verified."""
    return tuple(
        ApprovedStep(
            action=str(step["action"]),
            ref=read_ref(step.get("object")),
            old_ref=read_ref(step.get("oldObject")),
            fields=tuple(step.get("fields") or ()),
            seal=ContentSeal(content=step["content"], unknown=tuple(step.get("unknownFields") or ()))
            if step.get("content")
            else None,
        )
        for step in stored
    )


def read_ref(stored: Mapping[str, Any] | None) -> ObjectRef | None:
    """Return the object that a step names."""
    if stored is None:
        return None
    return ObjectRef(
        group=stored["group"], kind=stored["kind"], namespace=stored.get("namespace") or "", name=stored["name"]
    )
