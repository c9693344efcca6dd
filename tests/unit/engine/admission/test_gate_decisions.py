"""Decisions about gates at admission: who gets a stamp, who may change a gated definition, and that every doubt denies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from hearth.engine.admission import reviewer as reviewer_module
from hearth.engine.admission.gate_decisions import GateCheck
from hearth.engine.admission.review import ALLOWED, Author, Review, ReviewResult
from hearth.model import approvals, limits, names
from hearth.model.approvals import Approval, Decision
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.plan.rollouts import rollout_gates
from support.units.admission_reviews import make_reviewer
from support.units.blueprints import HASHER

NAME = "sites.platform.example"
CANARY, REST, OLD = "3f9c1a2e" + "0" * 24, "3f9c1a2f" + "0" * 24, "aaaaaaaa" + "0" * 24
BOB = Author(name="bob")
ACCOUNT = Author(name="system:serviceaccount:hearth-system:hearth")
NOW = 1_796_000_000.0
APPROVE, REJECT, STAMPS = names.REQUEST_APPROVE, names.REQUEST_REJECT, names.ANNOTATION_APPROVALS
WITHDRAWN = {APPROVE: None, REJECT: None}
GATES = [{"name": "release-manager", "approval": {}}]
SPEC = {"template": {}, "rollout": {"gates": GATES}}


class Rights:
    """The verbs that every user has on the definition; asking can take forever or fail."""

    def __init__(self, *verbs: str, error: Exception | None = None, hangs: bool = False) -> None:
        self.verbs, self.error, self.hangs = verbs, error, hangs
        self.asked: list[str] = []

    async def may(
        self, author: Author, verb: str, resource: str, *, namespace: str, name: str = "", group: str = ""
    ) -> bool:
        self.asked.append(verb)
        assert (resource, group, namespace, name) == ("stackdefinitions", "hearth.dev", "", NAME)
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.error is not None:
            raise self.error
        return verb in self.verbs


def make(annotations: Mapping[str, str], spec: Any = SPEC, *, phase: str = "Progressing") -> dict[str, Any]:
    listed = [
        {"wave": "canary", "name": "release-manager", "state": "Waiting", "digest": CANARY},
        {"wave": "rest", "name": "release-manager", "state": "Passed", "digest": REST},
    ]
    metadata = {"name": NAME, "uid": "uid-1", "annotations": dict(annotations)}
    status = {"rollout": {"phase": phase, "gates": listed}}
    return {"kind": "StackDefinition", "metadata": metadata, "spec": spec, "status": status}


def stamp(digest: str, decision: Decision = Decision.APPROVED, *, user: str = "carol") -> str:
    approval = Approval(decision=decision, user=user, time="2026-11-30T09:00:00Z")
    return approvals.sign_approval(approval, rollout_gates.make_subject(NAME, "uid-1", digest), signer=HASHER)


async def decide(
    after: Mapping[str, str],
    before: Mapping[str, str] | None = None,
    *,
    rights: Rights | None = None,
    user: Author = BOB,
    spec: Any = SPEC,
    old_spec: Any = SPEC,
    is_dry_run: bool = False,
    seconds: float = 4.0,
    phase: str = "Progressing",
) -> ReviewResult:
    """The result of a write that replaces the annotations and the spec of a definition."""
    reviewer = make_reviewer(seconds=seconds)
    check = GateCheck(access=rights or Rights("approve"), hashes=HASHER, operator_namespace="hearth-system")
    reviewer.gate_check, reviewer.now = check, lambda: NOW
    old, new = make(before or {}, old_spec, phase=phase), make(after, spec, phase=phase)
    return await reviewer.decide(Review(new=new, old=old, author=user, is_dry_run=is_dry_run))


@pytest.mark.parametrize(
    ("key", "decision"), [(APPROVE, Decision.APPROVED), (REJECT, Decision.REJECTED)], ids=["approve", "reject"]
)
async def test_a_request_of_a_user_with_the_right_becomes_a_stamp(key: str, decision: Decision) -> None:
    result = await decide({key: f"{CANARY[:8]} soaked"})

    annotations = dict(result.annotations)
    subject = rollout_gates.make_subject(NAME, "uid-1", CANARY)
    found = approvals.read_approval(annotations.pop(STAMPS), subject, signatures=HASHER)
    assert found == Approval(decision=decision, user="bob", time="2026-11-30T00:53:20Z", reason="soaked")
    assert (annotations, result.denial, result.warnings) == (WITHDRAWN, "", ())


async def test_a_stamp_joins_those_of_the_same_attempt_and_replaces_those_of_earlier_ones() -> None:
    before = {STAMPS: f"{stamp(REST)}\n{stamp(OLD)}\nforged"}

    result = await decide({**before, APPROVE: CANARY}, before)

    first, second = str(result.annotations[STAMPS]).split("\n")
    assert (first, approvals.find_digest(second)) == (stamp(REST), CANARY)


@pytest.mark.parametrize(
    ("after", "options", "expected"),
    [
        pytest.param(
            {APPROVE: CANARY},
            {"rights": Rights()},
            "lacks the verb approve on stackdefinitions.hearth.dev",
            id="no right",
        ),
        pytest.param({APPROVE: CANARY}, {"rights": Rights("update")}, "lacks the verb approve", id="only update"),
        pytest.param({REJECT: CANARY}, {"rights": Rights()}, "lacks the verb approve", id="no right to reject"),
        pytest.param(
            {APPROVE: CANARY}, {"rights": Rights(error=ApiStatusError(code=500, status=None))}, "try again", id="fault"
        ),
        pytest.param({APPROVE: CANARY}, {"rights": Rights(error=Unreachable("down"))}, "try again", id="no answer"),
        pytest.param({APPROVE: CANARY}, {"rights": Rights(error=RuntimeError("bug"))}, "internal error", id="bug"),
        pytest.param(
            {APPROVE: CANARY}, {"rights": Rights(hangs=True), "seconds": 0.01}, "takes more than 0.01 s", id="slow"
        ),
        pytest.param({APPROVE: CANARY[:7]}, {}, "is not the beginning of the digest of a gate", id="seven digits"),
        pytest.param({APPROVE: OLD}, {}, "(waiting: release-manager: 3f9c1a2e)", id="another attempt"),
        pytest.param({APPROVE: "9" * 1_000_000}, {}, "is not the beginning", id="a megabyte"),
        pytest.param({APPROVE: CANARY, REJECT: CANARY}, {}, "are set at once", id="both"),
        pytest.param({STAMPS: stamp(CANARY)}, {}, "only the operator sets it", id="a stamp by hand"),
        pytest.param({APPROVE: CANARY, STAMPS: "{}"}, {}, "only the operator", id="a request with a stamp"),
        pytest.param(
            {STAMPS: stamp(CANARY)},
            {"before": {STAMPS: stamp(CANARY, Decision.REJECTED)}},
            "only the operator",
            id="an older stamp",
        ),
        pytest.param(
            {APPROVE: CANARY, STAMPS: stamp(CANARY, Decision.REJECTED)},
            {"before": {STAMPS: stamp(CANARY, Decision.REJECTED)}},
            "was rejected by carol at 2026-11-30T09:00:00Z",
            id="an approval of a rejected gate",
        ),
        pytest.param({APPROVE: CANARY}, {"phase": "Stopped"}, "no rollout is in progress", id="stopped"),
        pytest.param({REJECT: REST}, {"phase": "Complete"}, "no rollout is in progress", id="complete"),
        pytest.param({APPROVE: CANARY}, {"user": ACCOUNT}, "in the operator's namespace", id="the operator"),
        pytest.param(
            {APPROVE: CANARY}, {"user": Author(name="b" * limits.APPROVAL_LENGTH)}, "at most 4096", id="a long name"
        ),
    ],
)
async def test_a_decision_is_denied(after: Mapping[str, str], options: dict[str, Any], expected: str) -> None:
    result = await decide(after, **options)

    assert expected in result.denial
    assert result.annotations == {}


@pytest.mark.parametrize(
    ("verbs", "change", "expected"),
    [
        pytest.param(("update", "approve"), {"rollout": {}}, [], id="all rights"),
        pytest.param(("update",), {"template": {"resources": {}}}, [], id="an editor changes the template"),
        pytest.param(("update",), {"rollout": {}}, ["approve"], id="an editor removes the gates"),
        pytest.param(
            ("update",), {"rollout": {"gates": GATES, "waves": []}}, ["approve"], id="an editor changes waves"
        ),
        pytest.param(("approve",), {"template": {"resources": {}}}, ["update"], id="an approver changes the template"),
        pytest.param((), {"rollout": {}, "template": 5}, ["update", "approve"], id="no right"),
    ],
)
async def test_a_change_of_a_gated_definition_needs_rights(
    verbs: tuple[str, ...], change: dict[str, Any], expected: list[str]
) -> None:
    result = await decide({}, rights=Rights(*verbs), spec={**SPEC, **change})

    assert [verb for verb in ("update", "approve") if f"lacks the verb {verb} " in result.denial] == expected
    assert bool(result.denial) == bool(expected)


async def test_the_operator_cannot_remove_gates_for_a_stack() -> None:
    result = await decide({}, rights=Rights("update", "approve"), user=ACCOUNT, spec={**SPEC, "rollout": {}})

    assert "in the operator's namespace" in result.denial


async def test_a_change_and_a_decision_in_one_write_need_the_rights_of_both() -> None:
    result = await decide({APPROVE: OLD}, rights=Rights(), spec={**SPEC, "template": 5})

    assert "lacks the verb update" in result.denial
    assert "is not the beginning" in result.denial


@pytest.mark.parametrize("spec", [{}, {"rollout": None}, {"rollout": []}, {"rollout": {"gates": []}}, None])
async def test_a_definition_without_gates_needs_no_further_rights(spec: Any) -> None:
    rights = Rights()

    assert await decide({}, rights=rights, old_spec=spec, spec={"template": 5}) == ALLOWED
    assert rights.asked == []


async def test_a_write_of_the_whole_object_does_not_withdraw_approvals() -> None:
    result = await decide({}, {STAMPS: stamp(CANARY)})

    assert result == ReviewResult(annotations={STAMPS: stamp(CANARY)})


async def test_a_second_approval_keeps_the_first_stamp() -> None:
    result = await decide({APPROVE: CANARY, STAMPS: stamp(CANARY)}, {STAMPS: stamp(CANARY)})

    assert dict(result.annotations) == WITHDRAWN
    assert result.warnings == ("the gate was already approved by carol at 2026-11-30T09:00:00Z",)


async def test_a_passed_gate_can_be_rejected() -> None:
    result = await decide({REJECT: REST, STAMPS: stamp(REST)}, {STAMPS: stamp(REST)})

    subject = rollout_gates.make_subject(NAME, "uid-1", REST)
    found = approvals.read_approval(result.annotations[STAMPS], subject, signatures=HASHER)
    assert found is not None
    assert (found.decision, found.user) == (Decision.REJECTED, "bob")


async def test_a_dry_run_reveals_no_stamp() -> None:
    allowed = await decide({APPROVE: CANARY}, is_dry_run=True)

    assert dict(allowed.annotations) == WITHDRAWN
    assert allowed.warnings == ("dry run: the gate would be approved",)


async def test_a_new_definition_has_no_decision() -> None:
    check = GateCheck(access=Rights(), hashes=HASHER, operator_namespace="hearth-system")

    result = await check.review(Review(new=make({APPROVE: CANARY, STAMPS: stamp(CANARY)}), author=BOB), now=NOW)
    plain = await check.review(Review(new=make({}), author=BOB), now=NOW)

    assert dict(result.annotations) == {**WITHDRAWN, STAMPS: None}
    assert "removed, because a gate can be approved only while its rollout waits" in result.warnings[0]
    assert plain == ALLOWED


async def test_no_user_can_decide_while_the_operator_starts_or_has_no_key() -> None:
    review = Review(new=make({APPROVE: CANARY}), old=make({}))
    starting = reviewer_module.answer_unreviewed(review, "the operator is starting", is_decision=True)

    assert starting.denial == (
        "cannot check whether the user may decide about the rollout, because the operator is starting; try again"
    )
    assert "try again" in (await make_reviewer().decide(review)).denial


@pytest.mark.parametrize("part", ["metadata", "status"])
@pytest.mark.parametrize(
    "value", [None, [], "x", 5, {"annotations": {APPROVE: 5, STAMPS: []}, "rollout": {"gates": 5}}]
)
async def test_a_damaged_definition_is_not_stamped(part: str, value: object) -> None:
    check = GateCheck(access=Rights("approve"), hashes=HASHER, operator_namespace="hearth-system")
    reviewer = make_reviewer()
    reviewer.gate_check = check
    new = {**make({APPROVE: CANARY}), part: value}

    result = await reviewer.decide(Review(new=new, old={**make({}), part: value}, author=BOB))

    assert STAMPS not in result.annotations
