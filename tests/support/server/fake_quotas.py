"""ResourceQuotas of the fake server, as far as they count objects: `spec.hard: {count/probes.testing.hearth.dev: 2}`.

Must not know of stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.server import api_errors


def key_of(kind: Kind) -> str:
    """How a quota names the number of objects of a kind."""
    return f"count/{api_errors.resource_name(kind)}"


def check(quotas: Iterable[Object], kind: Kind, name: str, *, used: int) -> None:
    """Refuse one more object of that kind where a quota is full. used: how many there are."""
    key = key_of(kind)
    for quota in quotas:
        hard = read_hard(quota)
        if key in hard and used >= int(hard[key]):
            counts = f"requested: {key}=1, used: {key}={used}, limited: {key}={hard[key]}"
            raise api_errors.forbidden(kind, name, f"exceeded quota: {quota['metadata']['name']}, {counts}")


def count(quota: Object, used: dict[str, int]) -> Object:
    """The status of a quota, given how many objects there are by key."""
    hard = read_hard(quota)
    return {"hard": hard, "used": {key: str(used.get(key, 0)) for key in hard}}


def read_hard(quota: Object) -> dict[str, Any]:
    """What a quota allows."""
    return dict((quota.get("spec") or {}).get("hard") or {})
