"""Which claims of a StatefulSet a snapshot finds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from hearth.engine import stateful_set_claims
from hearth.engine.stateful_set_claims import Misses, TooManyMissing
from hearth.model import limits
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from support.server import api_errors

CLAIM = Kind(group="", version="v1", name="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)
PREFIX = "data-db-"


class Claims:
    """A cluster that has the claims of these ordinals."""

    def __init__(self, ordinals: Collection[int]) -> None:
        self.ordinals = ordinals
        self.reads = 0

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """As the port says."""
        self.reads += 1
        if int(ref.name.removeprefix(PREFIX)) not in self.ordinals:
            raise api_errors.not_found(kind, ref.name)
        return {"metadata": {"name": ref.name, "namespace": ref.namespace}}


def find(claims: Any, **spec: Any) -> list[int]:
    """The ordinals of the claims that are found for a StatefulSet."""
    stateful_set = {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}
    found, _foreign = asyncio.run(
        stateful_set_claims.find_claims(claims, stateful_set, "data", kind=CLAIM, misses=Misses())
    )
    return [int(name.removeprefix(PREFIX)) for name in found]


@pytest.mark.parametrize(
    ("ordinals", "spec", "expected"),
    [
        pytest.param({0, 1}, {"replicas": 2}, [0, 1], id="of-all-replicas"),
        pytest.param({0}, {}, [0], id="of-one-replica-by-default"),
        pytest.param({0, 1, 2}, {"replicas": 1}, [0, 1, 2], id="of-replicas-scaled-down"),
        pytest.param({0, 1}, {"replicas": 0}, [0, 1], id="of-all-replicas-scaled-down"),
        pytest.param({0, 9}, {"replicas": 10}, [0, 9], id="with-claims-not-made-yet"),
        pytest.param({0, 3, 8}, {"replicas": 1}, [0, 3, 8], id="behind-a-gap"),
        pytest.param({0, 6}, {"replicas": 1}, [0], id="not-behind-a-gap-of-five"),
        pytest.param({5, 6}, {"replicas": 2, "ordinals": {"start": 5}}, [5, 6], id="from-the-first-ordinal"),
        pytest.param({2, 5, 7}, {"replicas": 1, "ordinals": {"start": 5}}, [5, 7, 2], id="below-the-first-ordinal"),
    ],
)
def test_claims_are_found_by_their_names(ordinals: set[int], spec: dict[str, Any], expected: list[int]) -> None:
    """Also those of earlier replicas, some of which may be deleted."""
    assert find(Claims(ordinals), **spec) == expected


def test_a_search_without_end_ends() -> None:
    """A tenant writes ordinals and replicas."""
    claims = Claims(())
    with pytest.raises(TooManyMissing, match=r"reduce spec\.replicas"):
        find(claims, replicas=2**31 - 1, ordinals={"start": 2**31 - 1})
    assert claims.reads == limits.CLAIMS_MISSING + 1


def test_all_templates_share_one_limit() -> None:
    """A thousand templates cost as many reads as one."""
    claims, misses = Claims({0}), Misses()
    stateful_set = {"metadata": {"name": "db", "namespace": "default"}, "spec": {"replicas": 300}}

    async def find_all() -> None:
        for _ in range(1000):
            await stateful_set_claims.find_claims(claims, stateful_set, "data", kind=CLAIM, misses=misses)  # type: ignore[arg-type]  # the only part that is used

    with pytest.raises(TooManyMissing):
        asyncio.run(find_all())
    assert claims.reads < limits.CLAIMS_MISSING + 10


def test_a_claim_that_the_set_did_not_make_is_not_found() -> None:
    """A name alone does not make it one of its claims, and a restore would delete its data."""
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "db"}}}
    stateful_set = {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}
    claims: Any = Claims({0, 1})
    found = asyncio.run(stateful_set_claims.find_claims(claims, stateful_set, "data", kind=CLAIM, misses=Misses()))
    assert found == ([], ["data-db-0", "data-db-1"])
