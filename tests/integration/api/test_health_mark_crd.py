"""What a real API server makes of the CustomResourceDefinition of HealthMark, and of `spec.healing`."""

from __future__ import annotations

import pytest

from hearth.kube.client import api_requests
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import HEALTH_MARK, STACK
from support.real.real_user import RealUser
from support.stories.world import Address

RESOURCE = {"stackName": "shop", "resource": "web"}
TARGET = {"target": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}


async def send(user: RealUser, kind: Kind, spec: Object) -> Object:
    """What the server makes of an object with that spec, as kubectl would send it; nothing is stored."""
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "m"}, "spec": spec}
    path = api_requests.collection_path(kind, user.namespace)
    return await user.connection.request("POST", path, query=api_requests.DRY_RUN_QUERY, body=body)


@pytest.mark.parametrize(
    "spec",
    [
        {**RESOURCE, "markUnhealthy": True},
        {**RESOURCE, "resource": "cache/db", "markUnhealthy": True, "reason": "x"},
        {**TARGET, "markUnhealthy": False},
    ],
    ids=["by resource", "by a path", "by the object"],
)
async def test_what_makes_sense_is_taken(user: RealUser, spec: Object) -> None:
    """As it is."""
    assert (await send(user, HEALTH_MARK, spec))["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (RESOURCE, "spec.markUnhealthy: Required value"),
        ({**RESOURCE, "markUnhealthy": "true"}, "must be of type boolean"),
        ({**RESOURCE, "markUnhealthy": None}, "spec.markUnhealthy"),
        ({**RESOURCE, "markUnhealthy": True, "unknown": 1}, 'unknown field "spec.unknown"'),
        ({"markUnhealthy": True}, "exactly one of them must be given"),
        ({"stackName": "shop", "markUnhealthy": True}, "exactly one of them must be given"),
        ({**RESOURCE, **TARGET, "markUnhealthy": True}, "exactly one of them must be given"),
        ({**RESOURCE, "resource": "a//b", "markUnhealthy": True}, "spec.resource"),
    ],
    ids=["no word", "a text", "null", "an unknown field", "nothing", "half", "both", "a path with a hole"],
)
async def test_what_makes_none_is_refused(user: RealUser, spec: Object, words: str) -> None:
    """By the server itself."""
    with pytest.raises(errors.ApiStatusError) as refused:
        await send(user, HEALTH_MARK, spec)
    assert refused.value.code in (400, 422)
    assert words in str(refused.value)


@pytest.mark.parametrize("change", [{"resource": "db"}, {**TARGET, "stackName": None, "resource": None}])
async def test_a_mark_keeps_speaking_of_the_same(user: RealUser, change: Object) -> None:
    """What it says may change, and whom it is about may not."""
    metadata = {"name": "m", "namespace": user.namespace}
    made = await user.create(
        {
            "apiVersion": HEALTH_MARK.api_version,
            "kind": "HealthMark",
            "metadata": metadata,
            "spec": {**RESOURCE, "markUnhealthy": True},
        }
    )
    with pytest.raises(errors.ApiStatusError) as refused:
        await user.patch(Address.of(made), {"spec": change})
    assert "the target of a mark is immutable" in str(refused.value)
    changed = await user.patch(Address.of(made), {"spec": {"markUnhealthy": False, "reason": "x"}})
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("limit", "is_taken"),
    [(1, True), ("40%", True), ("100%", True), (0, False), ("0%", False), ("101%", False), ("four", False)],
)
async def test_the_limit_is_a_number_or_a_share(user: RealUser, limit: int | str, is_taken: bool) -> None:
    """At least one; a share of all."""
    spec = {"healing": {"policy": "OnUpdate", "maxUnhealthy": limit}, "template": {"resources": {}}}
    if is_taken:
        assert (await send(user, STACK, spec))["spec"] == spec
        return
    with pytest.raises(errors.ApiStatusError) as refused:
        await send(user, STACK, spec)
    assert "spec.healing.maxUnhealthy" in str(refused.value)
