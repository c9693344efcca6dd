"""Plans the steps that suspend, resume and restore one object, and reads the suspend record on the object.

A separate field manager applies only the suspend fields, so suspending needs no definition and does not change it. The
same apply stores the previous values as an annotation, the suspend record. The operator trusts a record only if it is
signed for this object and the suspend field manager still owns it, and then uses only the fields that the suspend rule
of the kind sets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import orjson

from hearth.model import limits, names, value_class
from hearth.model.child import Child, FieldOwnership, Object, Path
from hearth.model.phases import ConditionType
from hearth.plan.health import suspend_rules
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.health.suspend_rules import SuspendRule
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.retry.backoff import SuspendPurpose
from hearth.plan.state.resource_status import ResourceCondition
from hearth.plan.state.steps import Suspend

RESUMED = "false"
"""The annotation's value when the object's own definition has restored all fields in one apply."""
PURPOSE = "suspended"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRecord:
    """Previous values of the fields that suspend an object."""

    ours: Mapping[Path, Any] = field(default_factory=dict)
    """Fields that the object's definition owned, with their values. The definition restores them."""
    theirs: Mapping[Path, Any] = field(default_factory=dict)
    """The other fields with their values; None for absent fields."""
    is_resumed: bool = False
    """Whether the fields have their previous values again although the definition has not restored them."""


NONE = SuspendRecord()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRecords:
    """Reader and writer of the records of one Stack's objects."""

    hashes: HashFunction
    rules: HealthRules
    _known: dict[str, tuple[tuple[object, ...], SuspendRecord | None]] = field(default_factory=dict)
    """By UID: the parsed annotation and the inputs of parsing. Every planning reads it several times."""

    def is_suspended(self, child: Child) -> bool:
        """Return whether the object was suspended and its definition has not resumed it since."""
        return self.find(child) is not None

    def is_suspended_now(self, child: Child) -> bool:
        """Return whether the object is still suspended."""
        record = self.find(child)
        return record is not None and not record.is_resumed

    def read(self, child: Child) -> SuspendRecord:
        """Return the object's record, or an empty one if it is not suspended."""
        return self.find(child) or NONE

    def find(self, child: Child) -> SuspendRecord | None:
        """Return the trusted record, or None."""
        if not child.has_own_record:
            return None
        text = find_record_text(child)
        if text == RESUMED or len(text) > limits.ANNOTATION_BYTES:
            return None
        inputs = (text, child.stack_uid, rule := self.rules.find_suspension(child.kind))
        known = self._known.get(child.uid)
        if known is None or known[0] != inputs:
            known = self._known[child.uid] = (inputs, self._parse(child, text, rule))
        return known[1]

    def _parse(self, child: Child, text: str, rule: SuspendRule | None) -> SuspendRecord | None:
        """Parse the record in an annotation. Return None unless the operator wrote it."""
        try:
            encoded = orjson.loads(text)
            signature = encoded.pop("signature")
            if not isinstance(signature, str) or not self.hashes.is_signed(
                PURPOSE, describe_signed(child, encoded), signature
            ):
                return None
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        ours, theirs = (read_recorded(encoded.get(word), rule) for word in ("ours", "theirs"))
        if ours is None or theirs is None:
            return None
        return SuspendRecord(ours=ours, theirs=theirs, is_resumed=encoded.get("awake") is True)

    def write(self, child: Child, record: SuspendRecord) -> str:
        """Format the record as annotation value."""
        fields = {"ours": record.ours, "theirs": record.theirs}
        encoded: Object = {
            word: {suspend_rules.write_path(path): value for path, value in values.items()}
            for word, values in fields.items()
            if values
        }
        if record.is_resumed:
            encoded["awake"] = True
        encoded["signature"] = self.hashes.sign(PURPOSE, describe_signed(child, encoded))
        return orjson.dumps(encoded, option=orjson.OPT_SORT_KEYS).decode()

    def describe(self, child: Child) -> tuple[ResourceCondition, ...]:
        """Describe an untrusted record for the Stack's owner."""
        if not child.has_record or find_record_text(child) == RESUMED or self.find(child) is not None:
            return ()
        kind = f"{child.kind.plural}.{child.kind.group}" if child.kind.group else child.kind.plural
        scope = f" -n {child.namespace}" if child.namespace else ""
        command = f"kubectl annotate {kind} {child.name}{scope} {names.ANNOTATION_SUSPENDED}-"
        message = (
            f"{child.resource} ({child.ref}): annotation {names.ANNOTATION_SUSPENDED} was not written by this operator for "
            f"this object. It is ignored; remove it: {command}"
        )
        return (
            ResourceCondition(type=ConditionType.SUSPEND_RECORD_INVALID, reason="SignatureInvalid", message=message),
        )


def find_record_text(child: Child) -> str:
    """Return the annotation's value. A missing annotation reads as resumed."""
    annotations: Mapping[str, str] = child.fields["metadata"].get("annotations") or {}
    return annotations.get(names.ANNOTATION_SUSPENDED, RESUMED)


def describe_signed(child: Child, encoded: Object) -> list[Any]:
    """Return the signed content: the record and the identity of its object."""
    return [child.uid, child.stack_uid, child.kind.group, child.kind.name, encoded]


def read_recorded(encoded: Any, rule: SuspendRule | None) -> dict[Path, Any] | None:
    """Return the fields of a record that the rule sets, or None if a value has an impossible type."""
    if encoded is not None and not isinstance(encoded, dict):
        return None
    values = rule.values if rule is not None else {}
    found: dict[Path, Any] = {}
    for written, value in (encoded or {}).items():
        path = suspend_rules.parse_path(written)
        if path is None or path not in values:
            # The rule has changed since. Do not write a field that only the old rule set.
            continue
        if not is_like(value, values[path]):
            return None
        found[path] = value
    return found


def is_like(value: Any, model: Any) -> bool:
    """Return whether the value is absent or has the type of the model: boolean, number or text."""
    if value is None or model is None:
        return not isinstance(value, dict | list)
    kinds = next((kind for kind in (bool, int | float, str) if isinstance(model, kind)), ())
    return isinstance(value, kinds) and (isinstance(value, bool) == isinstance(model, bool))


def suspend(child: Child, rule: SuspendRule, records: SuspendRecords) -> Suspend:
    """Plan the step that scales an object down, or scales it down again if another client started it in the meantime."""
    is_again = records.is_suspended_now(child)
    before = records.read(child)
    if before.is_resumed:
        before = SuspendRecord(ours=read_fields(child, before.ours), theirs=read_fields(child, before.theirs))
    recorded = {**before.ours, **before.theirs}
    still = {path: value for path, value in rule.overrides.items() if path in recorded}
    sets = {**rule.sets, **rule.find_overridden(child), **still}
    unknown = [path for path in sets if path not in recorded]
    ours = [path for path in unknown if owns(child.ownership, path)]
    theirs = [path for path in unknown if path not in ours]
    record = SuspendRecord(
        ours={**before.ours, **read_fields(child, ours)}, theirs={**before.theirs, **read_fields(child, theirs)}
    )
    started = (path for path, value in sets.items() if suspend_rules.read(child.fields, path) != value)
    return Suspend(
        child=child,
        manifest=remember(build_apply(child, sets), records.write(child, record)),
        purpose=SuspendPurpose.SUSPEND,
        repaired_paths=tuple(started) if is_again else (),
    )


def resume(child: Child, records: SuspendRecords) -> Suspend:
    """Plan the step that resumes an object that has its definition.

    It restores, once, the fields that the definition does not own.
    """
    record = records.read(child)
    theirs = read_fields(child, record.theirs) if record.is_resumed else record.theirs
    back = {path: value for path, value in theirs.items() if not owns(child.ownership, path)}
    return Suspend(child=child, manifest=build_apply(child, back), purpose=SuspendPurpose.RESUME)


def restore(child: Child, records: SuspendRecords) -> Suspend:
    """Plan the step that restores a suspended object to its previous values, regardless of its current definition."""
    record = dataclasses.replace(records.read(child), is_resumed=True)
    manifest = remember(build_apply(child, {**record.ours, **record.theirs}), records.write(child, record))
    return Suspend(child=child, manifest=manifest, purpose=SuspendPurpose.RESTORE)


def read_fields(child: Child, paths: Iterable[Path]) -> dict[Path, Any]:
    """Return these fields of an object, with None for absent ones."""
    return {path: suspend_rules.read(child.fields, path) for path in paths}


def remember(manifest: Object, record: str) -> Object:
    """Return the manifest with the suspend record in its annotations."""
    metadata = {**manifest["metadata"], "annotations": {names.ANNOTATION_SUSPENDED: record}}
    for key, value in (manifest["metadata"].get("annotations") or {}).items():
        metadata["annotations"][key] = value
    return {**manifest, "metadata": metadata}


def build_apply(child: Child, stated: Mapping[Path, Any]) -> Object:
    """Build the apply of these fields to this exact object. A field with value None is omitted."""
    metadata: Object = {"name": child.name, "uid": child.uid}
    if child.namespace:
        metadata["namespace"] = child.namespace
    manifest: Object = {"apiVersion": child.kind.api_version, "kind": child.kind.name, "metadata": metadata}
    for path, value in stated.items():
        place = manifest
        for key in path[:-1] if value is not None else ():
            place = place.setdefault(key, {})
        if value is not None:
            place[path[-1]] = value
    return manifest


def owns(found: FieldOwnership | None, path: Path) -> bool:
    """Return whether the object's definition owns the field."""
    if found is None:
        return False
    node: Any = field_ownership.read_fields(found)
    for key in path:
        node = node.get(f"f:{key}")
        if node is None:
            return False
        if field_ownership.is_leaf(node):
            return True
    return True


def without_suspend_fields(child: Child, finding: DriftFinding, records: SuspendRecords) -> DriftFinding:
    """Move the fields that suspending took from the object's definition from tolerated to repaired."""
    ours = records.read(child).ours
    return take(finding, tuple(lost for lost in finding.tolerated if lost.path in ours))


def reclaim_unrecorded(child: Child, finding: DriftFinding, records: SuspendRecords) -> DriftFinding:
    """Repair fields that still have their suspended value, for an object whose record is missing or not trusted.

    A field restored for its owner has another value, otherwise it would not have been suspended.
    """
    rule = records.rules.find_suspension(child.kind)
    sets = rule.values if rule is not None else {}
    held = {path for path, value in sets.items() if suspend_rules.read(child.fields, path) == value}
    return take(finding, tuple(lost for lost in finding.tolerated if lost.path in held))


def take(finding: DriftFinding, lost: tuple[LostField, ...]) -> DriftFinding:
    """Move these fields from tolerated to repaired."""
    if not lost:
        return finding
    return DriftFinding(
        tolerated=tuple(each for each in finding.tolerated if each not in lost), to_repair=(*finding.to_repair, *lost)
    )


def mark_resumed(manifest: Object, child: Child, finding: DriftFinding, records: SuspendRecords) -> Object:
    """Mark the object as resumed if this apply takes back every field that suspending set."""
    record = records.read(child)
    left = {lost.path for lost in finding.tolerated}
    if any(path in left or not is_stated(manifest, path) for path in (*record.ours, *record.theirs)):
        return manifest
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], names.ANNOTATION_SUSPENDED: RESUMED}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def is_stated(manifest: Object, path: Path) -> bool:
    """Return whether the manifest has a value at the path."""
    return suspend_rules.read(manifest, path) is not None
