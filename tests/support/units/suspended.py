"""Records on suspended objects as this operator writes them."""

from __future__ import annotations

from typing import Any

import orjson

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.resource import suspend_object
from hearth.plan.resource.suspend_object import SuspendRecords

RECORDS = SuspendRecords(hashes=KeyedHasher(b"k" * 32), rules=health_rules.DEFAULT_RULES)
OWNED: Object = {
    "manager": names.SUSPEND_FIELD_MANAGER,
    "operation": "Apply",
    "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{names.ANNOTATION_SUSPENDED}": {}}}},
}
"""The `managedFields` of the object."""


def sign(said: Object, *, uid: str, kind: Kind, stack_uid: str = "") -> str:
    """The annotation's text, signed for that object."""
    about: list[Any] = [uid, stack_uid, kind.group, kind.name, said]
    signature = RECORDS.hashes.sign(suspend_object.PURPOSE, about)
    return orjson.dumps({**said, "signature": signature}, option=orjson.OPT_SORT_KEYS).decode()
