"""Reviews of HealthMarks, of StackSnapshots, and of requests to restore one."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.engine.admission.review import Review, ReviewResult
from support.units.admission_reviews import SOUND, Cluster, make_reviewer, write

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
            "spec.stackName: namespace a has no Stack shoop; name an existing one",
        ),
        ({"stackName": "moving", "resource": "b"}, ""),
        ({"target": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}, ""),
    ],
    ids=["known", "path", "unknown resource", "unknown Stack", "Stack in progress", "by object"],
)
async def test_a_mark_on_nothing_is_denied(spec: dict[str, Any], denial: str) -> None:
    """If it is certain that it is nothing: a mark never applies to a later object."""
    moving = {**SETTLED, "status": {"observedGeneration": 1, "phase": "UpdateInProgress"}}
    result = await make_reviewer(Cluster(shop=SETTLED, moving=moving)).review(mark(reason="slow", **spec))

    assert (result.denial, result.warnings) == (denial, ())


async def test_a_mark_should_say_why() -> None:
    """It may be left out, as the API says, so that is a warning."""
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
    """It waits, and may be created beside its Stack. Another deletion policy needs no review."""
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
    """A snapshot of another Stack never becomes one of this; all else the Stack waits for."""
    reviewer = make_reviewer(Cluster(**({} if stored is None else {"one": stored})))
    before = {"template": {"resources": SOUND}}
    asked = write(SOUND, old=before, rollback={"toSnapshot": "one"})
    result = await reviewer.review_stack(asked)
    kept = await reviewer.review_stack(write(SOUND, old=asked.spec, rollback={"toSnapshot": "one"}, paused=True))

    assert result.denial == (f"spec.rollback.toSnapshot: {denial}; name one of this Stack" if denial else "")
    assert (len(result.warnings), warning in "".join(result.warnings)) == (1 if warning else 0, True)
    assert kept == ReviewResult()
