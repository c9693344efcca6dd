"""Record of a suspended object's previous field values, as far as it can be trusted.

A trusted record was signed by this operator for this exact object, and the suspend field manager still owns it. Only
fields that the suspend rule of the kind sets are used. The operator never writes anything else to the object. Must not
know when an object is suspended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson

from hearth.model import limits, names, value_class
from hearth.model.child import Child, Object, Path
from hearth.plan.health import suspend_rules
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.health.suspend_rules import SuspendRule
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.state.condition_types import ConditionType
from hearth.plan.state.resource_status import ResourceCondition

RESUMED = "false"
"""The annotation's value when the object's own definition has restored all fields in one apply."""
PURPOSE = "suspended"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRecord:
    """Previous values of the fields that suspend an object."""

    ours: Mapping[Path, Any] = field(default_factory=dict)
    """Fields that the object's definition owned and therefore restores, with their values."""
    theirs: Mapping[Path, Any] = field(default_factory=dict)
    """The other fields. None for absent ones."""
    is_resumed: bool = False
    """Whether the fields have their previous values again although the definition has not restored them."""


NONE = SuspendRecord()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRecords:
    """Reader and writer of the records of one Stack's objects."""

    hashes: HashFunction
    rules: HealthRules
    _known: dict[str, tuple[tuple[object, ...], SuspendRecord | None]] = field(default_factory=dict)
    """By UID, the parsed annotation and the inputs of parsing. Every planning reads it several times."""

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
        text = find_text(child)
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
                PURPOSE, describe(child, encoded), signature
            ):
                return None
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        ours, theirs = (read_fields(encoded.get(word), rule) for word in ("ours", "theirs"))
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
        encoded["signature"] = self.hashes.sign(PURPOSE, describe(child, encoded))
        return orjson.dumps(encoded, option=orjson.OPT_SORT_KEYS).decode()

    def describe(self, child: Child) -> tuple[ResourceCondition, ...]:
        """Describe an untrusted record for the Stack's owner."""
        if not child.has_record or find_text(child) == RESUMED or self.find(child) is not None:
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


def find_text(child: Child) -> str:
    """Return the annotation's value. A missing annotation reads as resumed."""
    annotations: Mapping[str, str] = child.fields["metadata"].get("annotations") or {}
    return annotations.get(names.ANNOTATION_SUSPENDED, RESUMED)


def describe(child: Child, encoded: Object) -> list[Any]:
    """Return the signed content: the record and the identity of its object."""
    return [child.uid, child.stack_uid, child.kind.group, child.kind.name, encoded]


def read_fields(encoded: Any, rule: SuspendRule | None) -> dict[Path, Any] | None:
    """Return the fields of a record that the rule sets, or None if a value has an impossible type."""
    if encoded is not None and not isinstance(encoded, dict):
        return None
    values = rule.values if rule is not None else {}
    found: dict[Path, Any] = {}
    for written, value in (encoded or {}).items():
        path = suspend_rules.parse_path(written)
        if path is None or path not in values:
            # The rule has changed since. A field that only the old rule set must not be written.
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
