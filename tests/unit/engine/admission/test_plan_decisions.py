"""Decisions about StackPlans at admission: who gets a stamp, and that every doubt denies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from hearth.engine.admission import reviewer as reviewer_module
from hearth.engine.admission.plan_decisions import DecisionCheck
from hearth.engine.admission.review import ALLOWED, Author, Review, ReviewResult
from hearth.model import approvals, limits, names
from hearth.model.approvals import Approval, ApprovalSubject, Decision
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.target import change_plans
from support.units.admission_reviews import make_reviewer
from support.units.blueprints import HASHER

NAME = "shop-3f9c1a2e"
BOB = Author(name="bob", uid="7", groups=("system:authenticated",))
ACCOUNT = Author(name="system:serviceaccount:hearth-system:hearth")
NOW = 1_796_000_000.0
APPROVE, REJECT, STAMP = names.REQUEST_APPROVE, names.REQUEST_REJECT, names.ANNOTATION_APPROVAL
WITHDRAWN = {APPROVE: None, REJECT: None}


class Rights:
    """The rights of all users; asking can take forever or fail."""

    def __init__(self, *rights: str, error: Exception | None = None, hangs: bool = False) -> None:
        self.rights, self.error, self.hangs = rights, error, hangs
        self.asked: list[str] = []

    async def may(
        self, author: Author, verb: str, resource: str, *, namespace: str, name: str = "", group: str = ""
    ) -> bool:
        self.asked.append(f"{author.name} {verb} {resource}.{group} {namespace}/{name}")
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.error is not None:
            raise self.error
        return self.asked[-1] in self.rights


def make_spec(**more: Any) -> dict[str, Any]:
    spec = {"stackRef": {"kind": "Stack", "name": "shop", "uid": "s"}, "steps": [], **more}
    return {**spec, "digest": change_plans.find_digest("a", spec)}


def make_plan(
    annotations: Mapping[str, str] | None = None, *, phase: str = "Pending", signer: KeyedHasher = HASHER, **spec: Any
) -> dict[str, Any]:
    full = make_spec(**spec)
    signature = change_plans.sign_plan("a", NAME, full, signer=signer)
    stated = {names.ANNOTATION_SIGNATURE: signature, **(annotations or {})}
    metadata = {"namespace": "a", "name": NAME, "uid": "plan-1", "annotations": stated}
    return {"kind": "StackPlan", "metadata": metadata, "spec": full, "status": {"phase": phase}}


DIGEST = make_spec()["digest"]
SHORT = DIGEST[:8]
PLAN = ApprovalSubject(namespace="a", name=NAME, uid="plan-1", digest=DIGEST)
ALL = Rights(f"bob approve stackplans.hearth.dev a/{NAME}")


def stamp(decision: Decision = Decision.APPROVED, *, user: str = "carol") -> str:
    approval = Approval(decision=decision, user=user, time="2026-11-30T09:00:00Z")
    return approvals.sign_approval(approval, PLAN, signer=HASHER)


async def decide(
    after: Mapping[str, str],
    before: Mapping[str, str] | None = None,
    *,
    rights: Rights = ALL,
    user: Author = BOB,
    is_dry_run: bool = False,
    seconds: float = 4.0,
    **plan: Any,
) -> ReviewResult:
    """The result of a write that replaces the annotations of a plan."""
    reviewer = make_reviewer(seconds=seconds)
    reviewer.decision_check = DecisionCheck(access=rights, hashes=HASHER, operator_namespace="hearth-system")
    reviewer.now = lambda: NOW
    old = make_plan(before, **plan)
    digest = old["spec"]["digest"]
    new = make_plan({key: value.replace(DIGEST, digest) for key, value in after.items()}, **plan)
    return await reviewer.review(Review(new=new, old=old, author=user, is_dry_run=is_dry_run))


@pytest.mark.parametrize(
    ("request_key", "decision"),
    [
        pytest.param(APPROVE, Decision.APPROVED, id="approve"),
        pytest.param(REJECT, Decision.REJECTED, id="reject"),
    ],
)
async def test_a_request_of_a_user_with_the_right_becomes_a_stamp(request_key: str, decision: Decision) -> None:
    result = await decide({request_key: f"{SHORT} Friday"})

    annotations = dict(result.annotations)
    found = approvals.read_approval(annotations.pop(STAMP), PLAN, signatures=HASHER)
    assert found == Approval(decision=decision, user="bob", time="2026-11-30T00:53:20Z", reason="Friday")
    assert (annotations, result.denial, result.warnings) == (WITHDRAWN, "", ())


@pytest.mark.parametrize(
    ("after", "options", "expected"),
    [
        pytest.param(
            {APPROVE: DIGEST}, {"rights": Rights()}, "lacks the verb approve on stackplans.hearth.dev", id="no right"
        ),
        pytest.param({REJECT: DIGEST}, {"rights": Rights()}, "lacks the verb approve", id="no right to reject"),
        pytest.param(
            {APPROVE: DIGEST},
            {
                "rights": Rights(
                    "bob approve stackplans.hearth.dev a/other", "bob approve stackplans.hearth.dev b/" + NAME
                )
            },
            "lacks the verb approve",
            id="the right for another plan and another namespace",
        ),
        pytest.param(
            {APPROVE: DIGEST}, {"rights": Rights(error=ApiStatusError(code=500, status=None))}, "try again", id="fault"
        ),
        pytest.param({APPROVE: DIGEST}, {"rights": Rights(error=Unreachable("down"))}, "try again", id="no answer"),
        pytest.param({APPROVE: DIGEST}, {"rights": Rights(error=RuntimeError("bug"))}, "internal error", id="bug"),
        pytest.param(
            {APPROVE: DIGEST}, {"rights": Rights(hangs=True), "seconds": 0.01}, "takes more than 0.01 s", id="slow"
        ),
        pytest.param(
            {APPROVE: SHORT[:7]}, {}, f"'{SHORT[:7]}' is not the beginning of the plan's digest", id="seven digits"
        ),
        pytest.param({APPROVE: "true"}, {}, "'true' is not the beginning", id="no digest"),
        pytest.param({APPROVE: "f" * 8}, {}, "'ffffffff' is not the beginning", id="another digest"),
        pytest.param({APPROVE: "9" * 1_000_000}, {}, "is not the beginning", id="a megabyte"),
        pytest.param({APPROVE: DIGEST, REJECT: DIGEST}, {}, "are set at once", id="both"),
        pytest.param({STAMP: stamp()}, {}, "only the operator sets or removes it", id="a stamp by hand"),
        pytest.param({APPROVE: DIGEST, STAMP: "{}"}, {}, "only the operator", id="a request with a stamp"),
        pytest.param(
            {}, {"before": {STAMP: stamp(Decision.REJECTED)}}, "only the operator", id="a stamp that is removed"
        ),
        pytest.param(
            {STAMP: stamp()}, {"before": {STAMP: stamp(Decision.REJECTED)}}, "only the operator", id="an older stamp"
        ),
        pytest.param(
            {APPROVE: DIGEST, STAMP: stamp(Decision.REJECTED)},
            {"before": {STAMP: stamp(Decision.REJECTED)}},
            "was rejected by carol at 2026-11-30T09:00:00Z",
            id="an approval of a rejected plan",
        ),
        pytest.param({APPROVE: DIGEST}, {"phase": "Superseded"}, "the plan is Superseded", id="superseded"),
        pytest.param({APPROVE: DIGEST}, {"phase": "Expired"}, "the plan is Expired", id="expired"),
        pytest.param({REJECT: DIGEST}, {"phase": "Running"}, "the plan is Running", id="running"),
        pytest.param(
            {APPROVE: DIGEST},
            {"separateApprover": True, "authors": ["alice", "bob"]},
            "user bob wrote the change",
            id="the author",
        ),
        pytest.param(
            {APPROVE: DIGEST}, {"separateApprover": True}, "the authors of the change are unknown", id="no author"
        ),
        pytest.param(
            {APPROVE: DIGEST},
            {"signer": KeyedHasher(b"not the key of this cluster")},
            "did not create this plan",
            id="forged",
        ),
        pytest.param({APPROVE: DIGEST}, {"user": ACCOUNT}, "in the operator's namespace", id="the operator"),
        pytest.param(
            {APPROVE: DIGEST + " " + "\x00" * 500}, {"user": Author(name="b" * 4_000)}, "lacks", id="a long name"
        ),
    ],
)
async def test_a_decision_is_denied(after: Mapping[str, str], options: dict[str, Any], expected: str) -> None:
    result = await decide(after, **options)

    assert expected in result.denial
    assert result.annotations == {}


@pytest.mark.parametrize(
    "change", [{"steps": [{"action": "delete"}]}, {"separateApprover": False}, {"authors": ["eve"]}]
)
async def test_a_plan_with_changed_content_is_not_stamped(change: dict[str, Any]) -> None:
    reviewer = make_reviewer()
    reviewer.decision_check = DecisionCheck(access=ALL, hashes=HASHER, operator_namespace="hearth-system")
    old = make_plan()
    old["spec"] |= change
    new = {**old, "metadata": make_plan({APPROVE: DIGEST})["metadata"]}

    assert "its content was changed" in (await reviewer.review(Review(new=new, old=old, author=BOB))).denial


async def test_a_name_that_no_stamp_can_hold_is_denied() -> None:
    user = Author(name="b" * limits.APPROVAL_LENGTH)
    rights = Rights(f"{user.name} approve stackplans.hearth.dev a/{NAME}")

    result = await decide({APPROVE: DIGEST}, user=user, rights=rights)

    assert "at most 4096 are possible; shorten the reason" in result.denial


@pytest.mark.parametrize(
    ("after", "before"),
    [
        pytest.param({APPROVE: DIGEST}, {APPROVE: DIGEST}, id="a request from before the webhook"),
        pytest.param({}, {APPROVE: DIGEST}, id="a request that is removed"),
        pytest.param({APPROVE: ""}, {}, id="an empty request"),
        pytest.param({"a": "b", STAMP: stamp()}, {STAMP: stamp()}, id="another annotation"),
    ],
)
async def test_a_write_without_a_decision_gets_no_stamp(after: Mapping[str, str], before: Mapping[str, str]) -> None:
    rights = Rights()

    assert await decide(after, before, rights=rights) == ALLOWED
    assert rights.asked == []


async def test_a_second_approval_keeps_the_first_stamp() -> None:
    result = await decide({APPROVE: DIGEST, STAMP: stamp()}, {STAMP: stamp()})

    assert dict(result.annotations) == WITHDRAWN
    assert result.warnings == ("the plan was already approved by carol at 2026-11-30T09:00:00Z",)


async def test_an_approved_plan_can_be_rejected() -> None:
    result = await decide({REJECT: DIGEST, STAMP: stamp()}, {STAMP: stamp()}, phase="Approved")

    found = approvals.read_approval(result.annotations[STAMP], PLAN, signatures=HASHER)
    assert found is not None
    assert (found.decision, found.user) == (Decision.REJECTED, "bob")


async def test_a_forged_stamp_does_not_stop_an_approval() -> None:
    result = await decide({APPROVE: DIGEST, STAMP: "forged"}, {STAMP: "forged"})

    assert approvals.read_approval(result.annotations[STAMP], PLAN, signatures=HASHER) is not None


async def test_the_author_can_reject_a_change() -> None:
    result = await decide({REJECT: DIGEST}, separateApprover=True, authors=["bob"])

    assert result.denial == ""


async def test_another_user_can_approve_what_the_author_cannot() -> None:
    result = await decide({APPROVE: DIGEST}, separateApprover=True, authors=["alice"])

    assert result.denial == ""


async def test_a_dry_run_reveals_no_stamp() -> None:
    allowed = await decide({APPROVE: DIGEST}, is_dry_run=True)
    denied = await decide({APPROVE: DIGEST}, is_dry_run=True, rights=Rights())

    assert dict(allowed.annotations) == WITHDRAWN
    assert allowed.warnings == ("dry run: the plan would be approved",)
    assert "lacks the verb approve" in denied.denial


async def test_a_new_plan_has_no_decision() -> None:
    reviewer = make_reviewer()
    reviewer.decision_check = DecisionCheck(access=Rights(), hashes=HASHER, operator_namespace="hearth-system")

    result = await reviewer.review(Review(new=make_plan({APPROVE: DIGEST, STAMP: stamp()}), author=BOB))

    assert dict(result.annotations) == {**WITHDRAWN, STAMP: None}
    assert result.denial == ""
    assert "removed, because a plan can be approved only after it was created" in result.warnings[0]


async def test_no_user_can_decide_while_the_operator_starts_or_stops() -> None:
    plan, stack = Review(new=make_plan()), Review(new={"kind": "Stack"})

    assert "the operator is starting" in reviewer_module.answer_unreviewed(plan, "the operator is starting").denial
    assert reviewer_module.answer_unreviewed(stack, "the operator is starting").denial == ""
    assert "try again" in (await make_reviewer().review(plan)).denial


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
@pytest.mark.parametrize("value", [None, [], "x", 5, {"annotations": {APPROVE: 5, STAMP: []}}])
async def test_a_malformed_plan_is_not_stamped(part: str, value: object) -> None:
    reviewer = make_reviewer()
    reviewer.decision_check = DecisionCheck(access=Rights(), hashes=HASHER, operator_namespace="hearth-system")
    new = {**make_plan({APPROVE: DIGEST}), part: value}

    for old in (new, make_plan()):
        result = await reviewer.review(Review(new=new, old=old, author=BOB))
        assert STAMP not in result.annotations
