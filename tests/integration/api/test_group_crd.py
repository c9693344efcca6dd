"""What a real API server makes of a ResourceGroup: bounds, and the scale subresource."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import limits, names
from hearth.model.errors import ApiStatusError
from support.real.real_user import RealUser
from support.stories.world import Address

MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap"}
SOUND = {"replicas": 3, "template": {"manifest": MANIFEST}}


def make(user: RealUser, spec: dict[str, Any], name: str = "workers") -> dict[str, Any]:
    """A group in the namespace of the test."""
    metadata = {"name": name, "namespace": user.namespace}
    return {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": "ResourceGroup", "metadata": metadata, "spec": spec}


@pytest.fixture
async def address(user: RealUser) -> Address:
    """A group that is there."""
    return Address.of(await user.create(make(user, SOUND)))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"replicas": -1}, "spec.replicas", id="negative"),
        pytest.param({"replicas": limits.GROUP_MEMBERS + 1}, "spec.replicas", id="absurd"),
        pytest.param({"rollingUpdate": {"maxBatchSize": 0}}, "spec.rollingUpdate.maxBatchSize", id="a batch of none"),
        pytest.param(
            {"rollingUpdate": {"maxBatchSize": "0%"}}, "spec.rollingUpdate.maxBatchSize", id="a share of none"
        ),
        pytest.param({"rollingUpdate": {"minInService": 4}}, "minInService must not be greater", id="above the size"),
        pytest.param({"rollingUpdate": {"pauseTime": "2h"}}, "pauseTime must be at most 3600s", id="a long pause"),
        pytest.param({"removalPolicies": [{"resources": ["-1"]}]}, "spec.removalPolicies[0].resources[0]", id="index"),
        pytest.param({"removalPolicies": [{"resources": []}]}, "spec.removalPolicies[0].resources", id="no index"),
        pytest.param({"removalPoliciesMode": "Never"}, "spec.removalPoliciesMode", id="mode"),
        pytest.param({"template": {}}, "spec.template.manifest", id="no manifest"),
    ],
)
async def test_a_mistake_is_refused_with_its_path(user: RealUser, change: dict[str, Any], path: str) -> None:
    """Bounds of the schema hold before the operator sees anything."""
    with pytest.raises(ApiStatusError) as refused:
        await user.create(make(user, {**SOUND, **change}))
    assert refused.value.code == 422
    assert path in str(refused.value)


async def test_the_defaults_are_shown(user: RealUser) -> None:
    """One member, and one at a time in a rolling update."""
    made = await user.create(make(user, {"template": {"manifest": MANIFEST}, "rollingUpdate": {}}))
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["rollingUpdate"] == {"maxBatchSize": 1}


async def test_a_name_that_no_member_could_have_is_refused(user: RealUser) -> None:
    """The name of a group is part of its members' names."""
    with pytest.raises(ApiStatusError) as refused:
        await user.create(make(user, SOUND, name="a.b"))
    assert "contain no dots" in str(refused.value)


@pytest.mark.parametrize("replicas", [-1, limits.GROUP_MEMBERS + 1])
async def test_an_impossible_size_is_refused_by_the_scale_subresource(
    user: RealUser, address: Address, replicas: int
) -> None:
    """An autoscaler cannot write what a user may not."""
    with pytest.raises(ApiStatusError) as refused:
        await user.scale(address, replicas, manager="keda")
    assert refused.value.code == 422
    assert ((await user.find(address)) or {})["spec"]["replicas"] == 3


async def test_a_size_is_scaled_and_its_writer_is_recorded(user: RealUser, address: Address) -> None:
    """The record of the scale subresource is what keeps the size from being undone."""
    await user.scale(address, 5, manager="keda")
    found = await user.find(address) or {}
    (entry,) = [each for each in found["metadata"]["managedFields"] if each.get("subresource") == "scale"]
    assert found["spec"]["replicas"] == 5
    assert (entry["manager"], entry["fieldsV1"]["f:spec"]) == ("keda", {"f:replicas": {}})
