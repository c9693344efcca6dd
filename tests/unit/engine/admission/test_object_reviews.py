"""Reviews of single objects: ResourceGroups, collections, HealthMarks, StackSnapshots, and requests to restore one."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.engine.admission.review import Review, ReviewResult
from support.units.admission_reviews import SOUND, Cluster, make_reviewer, write


async def test_all_mistakes_of_a_group_are_one_denial() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "${params.nothing}"}}
    rolling = {"maxBatchSize": 0, "minInService": 1}
    spec = {"replicas": 2, "rollingUpdate": rolling, "template": {"manifest": manifest}}
    group = {"kind": "ResourceGroup", "metadata": {"name": "workers", "namespace": "a"}, "spec": spec}
    denied = await make_reviewer().review_stack(Review(new=group))
    scaled = await make_reviewer().review_stack(Review(new=group, old={**group, "spec": {**spec, "paused": True}}))

    for path in ("template.manifest.metadata.name", "template.manifest.data.k", "rollingUpdate.maxBatchSize"):
        assert f"spec.{path}: " in denied.denial
    assert not scaled.denial
    assert scaled.warnings


def review_group(spec: dict[str, Any], *, old: dict[str, Any] | None = None) -> Review:
    """A write of a ResourceGroup."""
    group = {"kind": "ResourceGroup", "metadata": {"name": "workers", "namespace": "a"}}
    return Review(new={**group, "spec": spec}, old=None if old is None else {**group, "spec": old})


ONE = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
SAME_NAME = {"manifest": {**ONE["manifest"], "metadata": {"name": "same"}}}


@pytest.mark.parametrize(
    ("spec", "path", "said"),
    [
        ({"replicas": -1}, "replicas", "is -1, but must be between 0 and"),
        ({"replicas": 10**9}, "replicas", "use several groups for more members"),
        ({"replicas": True}, "replicas", "must be a whole number"),
        ({"rollingUpdate": {"maxBatchSize": 0}}, "rollingUpdate.maxBatchSize", "must be at least 1"),
        ({"rollingUpdate": {"maxBatchSize": "0%"}}, "rollingUpdate.maxBatchSize", "must be at least 1"),
        ({"rollingUpdate": {"minInService": -1}}, "rollingUpdate.minInService", "must be a whole number from 0"),
        ({"rollingUpdate": {"pauseTime": "9h"}}, "rollingUpdate.pauseTime", "may be at most"),
        (
            {"removalPolicies": [{"resources": ["x"]}]},
            "removalPolicies[0].resources[0]",
            "must be the index of a member",
        ),
        ({"template": SAME_NAME}, "template.manifest.metadata.name", "so that all would be one object"),
    ],
)
async def test_an_impossible_group_is_denied(spec: dict[str, Any], path: str, said: str) -> None:
    sound = {"replicas": 2, "template": ONE}
    for old in (None, sound):
        denial = (await make_reviewer().review_stack(review_group({**sound, **spec}, old=old))).denial
        assert denial.startswith(f"spec.{path}: ")
        assert said in denial
        assert "nothing is changed" in denial


SCALED = {"manager": "keda", "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}


async def test_a_size_below_the_minimum_is_only_a_warning_if_an_autoscaler_wrote_it() -> None:
    spec = {"replicas": 2, "template": ONE, "rollingUpdate": {"minInService": 3}}
    stated = review_group(spec)
    result = await make_reviewer().review_stack(stated)
    assert "spec.rollingUpdate.minInService: is 3, but spec.replicas is 2; lower it, or raise" in result.denial

    scaled = {**stated.new, "metadata": {**stated.new["metadata"], "managedFields": [SCALED]}}
    assert await make_reviewer().review_stack(Review(new=scaled)) == ReviewResult(
        warnings=(
            (
                "spec.rollingUpdate.minInService: is 3, but the group was scaled to 2 members, so 2 counts; lower it, "
                "or raise spec.replicas"
            ),
        )
    )
    for sound in (0, 3):
        assert await make_reviewer().review_stack(review_group({**spec, "replicas": sound})) == ReviewResult()


@pytest.mark.parametrize(
    ("resources", "path", "said"),
    [
        ({"w": {**ONE, "forEach": "params.zones", "key": "'x'"}}, "w.key", "keys must be unique"),
        ({"w": {**ONE, "forEach": "params.zoness"}}, "w.forEach", "zoness"),
        (
            {"w": {**ONE, "forEach": "other.data"}, "other": ONE},
            "w.forEach",
            "can use only params, conditions, values and stack",
        ),
        ({"w": {**SAME_NAME, "forEach": "params.zones"}}, "w.manifest.metadata.name", "which the resource 'w[0]' also"),
        ({"w": {**ONE, "forEach": "params.zones"}, "o": {**ONE, "dependsOn": ["w[7]"]}}, "o.dependsOn[0]", "no member"),
        (
            {
                "w": {**ONE, "forEach": "params.zones"},
                "o": {"manifest": {**ONE["manifest"], "data": {"x": "${w[7].metadata.name}"}}},
            },
            "o.manifest.data.x",
            "there is no 'w[7]'",
        ),
        (
            {"w": {**ONE, "forEach": "params.zones", "updatePolicy": {"rolling": {"maxBatchSize": 1, "minReady": 2}}}},
            "w.updatePolicy.rolling.minReady",
            "none could ever change",
        ),
    ],
)
async def test_an_impossible_collection_is_denied(resources: dict[str, Any], path: str, said: str) -> None:
    template = {"parameters": {"zones": {"type": "array"}}, "resources": resources}
    metadata = {"name": "shop", "namespace": "a"}
    spec = {"template": template, "parameters": {"zones": ["a", "b"]}}
    denial = (await make_reviewer().review_stack(Review(new={"metadata": metadata, "spec": spec}))).denial

    assert f"spec.template.resources.{path}: " in denial
    assert said in denial


# ---------------------------------------------------------------- marks, snapshots, restores

SETTLED = {
    "metadata": {"generation": 1},
    "spec": {"template": {"resources": SOUND}},
    "status": {"observedGeneration": 1, "phase": "UpdateComplete"},
}


def mark(**spec: Any) -> Review:
    """A new HealthMark."""
    return Review(
        new={"kind": "HealthMark", "metadata": {"name": "m", "namespace": "a"}, "spec": {"markUnhealthy": True, **spec}}
    )


@pytest.mark.parametrize(
    ("spec", "denial"),
    [
        ({"stackName": "shop", "resource": "a"}, ""),
        ({"stackName": "shop", "resource": "a/db"}, ""),
        ({"stackName": "shop", "resource": "b"}, "spec.resource: Stack shop has no resource b; it has: a"),
        (
            {"stackName": "shoop", "resource": "a"},
            "spec.stackName: namespace a has no Stack shoop; use an existing one",
        ),
        ({"stackName": "moving", "resource": "b"}, ""),
        ({"target": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}, ""),
    ],
    ids=["known", "path", "unknown resource", "unknown Stack", "Stack in progress", "by object"],
)
async def test_a_mark_on_nothing_is_denied(spec: dict[str, Any], denial: str) -> None:
    moving = {**SETTLED, "status": {"observedGeneration": 1, "phase": "UpdateInProgress"}}
    result = await make_reviewer(Cluster(shop=SETTLED, moving=moving)).review(mark(reason="slow", **spec))

    assert (result.denial, result.warnings) == (denial, ())


async def test_a_mark_should_say_why() -> None:
    result = await make_reviewer(Cluster(shop=SETTLED)).review(mark(stackName="shop", resource="a"))

    assert (result.denial, len(result.warnings)) == ("", 1)


def snapshot(stack: str, *, phase: str = "Complete", **metadata: Any) -> dict[str, Any]:
    """A stored StackSnapshot."""
    return {"metadata": metadata, "spec": {"stackName": stack}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("stacks", "said"),
    [
        ({"shop": SETTLED}, ""),
        ({}, "namespace a has no Stack shop; the snapshot waits until there is one"),
        ({"shop": {"spec": {"kubeConfig": {"secretRef": {"name": "east"}}}}}, "are in another cluster"),
        ({"shop": {**SETTLED, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}}, "is being deleted"),
    ],
    ids=["taken", "unknown Stack", "other cluster", "deletion"],
)
async def test_a_snapshot_that_is_not_taken_now_is_a_warning(stacks: dict[str, Any], said: str) -> None:
    reviewer = make_reviewer(Cluster(**stacks))
    raw = {"kind": "StackSnapshot", "metadata": {"name": "one", "namespace": "a"}, "spec": {"stackName": "shop"}}
    result = await reviewer.review(Review(new=raw))
    changed = await reviewer.review(Review(new=raw, old=raw))

    assert (result.denial, len(result.warnings)) == ("", 1 if said else 0)
    assert said in "".join(result.warnings)
    assert changed == ReviewResult()


@pytest.mark.parametrize(
    ("stored", "denial", "warning"),
    [
        (snapshot("shop"), "", ""),
        (None, "", "namespace a has no StackSnapshot one; nothing is restored before it is complete"),
        (snapshot("shop", phase="InProgress"), "", "StackSnapshot one is not complete"),
        (snapshot("shop", deletionTimestamp="2026-01-01T00:00:00Z"), "", "is being deleted"),
        (snapshot("other"), "StackSnapshot one is one of Stack other, not of shop", ""),
    ],
    ids=["complete", "unknown", "in progress", "deletion", "of another Stack"],
)
async def test_a_request_to_restore_is_reviewed_when_it_is_made(stored: Any, denial: str, warning: str) -> None:
    reviewer = make_reviewer(Cluster(**({} if stored is None else {"one": stored})))
    before = {"template": {"resources": SOUND}}
    asked = write(SOUND, old=before, rollback={"toSnapshot": "one"})
    result = await reviewer.review_stack(asked)
    kept = await reviewer.review_stack(write(SOUND, old=asked.spec, rollback={"toSnapshot": "one"}, paused=True))

    assert result.denial == (f"spec.rollback.toSnapshot: {denial}; use a StackSnapshot of this Stack" if denial else "")
    assert (len(result.warnings), warning in "".join(result.warnings)) == (1 if warning else 0, True)
    assert kept == ReviewResult()


async def test_objects_that_are_no_longer_kept_are_warned_about() -> None:
    kept = {"deletionPolicy": "Abandon"}
    template = {"resources": {"a": ONE}}
    stack = {"kind": "Stack", "metadata": {"name": "shop", "namespace": "a"}, "spec": {"template": template}}
    found = await make_reviewer().review_stack(Review(new=stack, old={**stack, "spec": {"template": template, **kept}}))
    assert "spec.deletionPolicy: was Abandon; the deletion of this Stack now deletes" in found.warnings[0]

    spec = {"group": "platform.example", "names": {"kind": "WebApp", "plural": "webapps"}, "template": template}
    definition = {"kind": "StackDefinition", "metadata": {"name": "webapps.platform.example"}, "spec": spec}
    old = {**definition, "spec": {**spec, "defaults": kept}}
    found = await make_reviewer().review_definition(Review(new=definition, old=old))
    assert "spec.defaults.deletionPolicy: was Abandon; the deletion of an object of this kind" in found.warnings[0]
