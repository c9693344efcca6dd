"""Stamps of StackPlans: which texts prove a decision, for which plan."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import orjson
import pytest

from hearth.model import approvals, limits
from hearth.model.approvals import Approval, ApprovalSubject, Decision, DecisionRequest
from hearth.plan.ownership import keyed_hash
from support.units.blueprints import HASHER

DIGEST = "3f9c1a2e" + "0" * 56
PLAN = ApprovalSubject(namespace="default", name="shop-3f9c1a2e", uid="uid-1", digest=DIGEST)
APPROVAL = Approval(decision=Decision.APPROVED, user="alice", time="2026-11-30T09:00:00Z", reason="after lunch")
STAMP = approvals.sign_approval(APPROVAL, PLAN, signer=HASHER)
ANOTHER_KEY = keyed_hash.KeyedHasher(b"another key, long enough")


def change(**fields: Any) -> str:
    """The stamp with other fields and the same signature."""
    return orjson.dumps({**orjson.loads(STAMP), **fields}).decode()


@pytest.mark.parametrize("decision", list(Decision))
@pytest.mark.parametrize("reason", ["", 'with "quotes" and ünïcode \u202e'])
def test_a_stamp_proves_its_decision(decision: Decision, reason: str) -> None:
    approval = dataclasses.replace(APPROVAL, decision=decision, reason=reason, user="system:serviceaccount:a:b")

    text = approvals.sign_approval(approval, PLAN, signer=HASHER)

    assert approvals.read_approval(text, PLAN, signatures=HASHER) == approval


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"namespace": "other"}, id="in another namespace"),
        pytest.param({"name": "shop-3f9c1a2f"}, id="on a plan of another name"),
        pytest.param({"uid": "uid-2"}, id="on a plan that was created again"),
        pytest.param({"digest": "3f9c1a2e" + "1" * 56}, id="on another change with the same first digits"),
    ],
)
def test_a_copy_of_a_stamp_proves_nothing(other: dict[str, str]) -> None:
    plan = dataclasses.replace(PLAN, **other)
    renamed = change(digest=plan.digest)

    assert approvals.read_approval(STAMP, plan, signatures=HASHER) is None
    assert approvals.read_approval(renamed, plan, signatures=HASHER) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="no annotation"),
        pytest.param("", id="an empty one"),
        pytest.param("approved", id="a word"),
        pytest.param("null", id="null"),
        pytest.param("[]", id="a list"),
        pytest.param("[" * 4_000, id="deep nesting"),
        pytest.param(STAMP[:-1], id="a stamp that was cut"),
        pytest.param(STAMP + " ", id="a stamp with a space"),
        pytest.param(STAMP.replace(":", ": ", 1), id="another notation"),
        pytest.param('{"user":"boss",' + STAMP[1:], id="a second user"),
        pytest.param(change(extra="x"), id="an unknown field"),
        pytest.param(change(user="mallory"), id="another user"),
        pytest.param(change(decision="rejected"), id="the opposite decision"),
        pytest.param(change(decision="maybe"), id="an unknown decision"),
        pytest.param(change(time="2027-11-30T09:00:00Z"), id="a later time"),
        pytest.param(change(time="tomorrow"), id="no time"),
        pytest.param(change(reason="because"), id="another reason"),
        pytest.param(change(signature=""), id="no signature"),
        pytest.param(change(signature=5), id="a number as signature"),
        pytest.param(change(signature={"a": 1}), id="a mapping as signature"),
        pytest.param(change(user=None), id="null as user"),
        pytest.param(change(decision=[]), id="a list as decision"),
        pytest.param(change(user="x" * limits.APPROVAL_LENGTH), id="too long"),
        pytest.param("\ud800", id="half of a surrogate pair"),
        pytest.param(approvals.sign_approval(APPROVAL, PLAN, signer=ANOTHER_KEY), id="another key"),
    ],
)
def test_a_hostile_text_proves_nothing(text: object) -> None:
    assert approvals.read_approval(text, PLAN, signatures=HASHER) is None


def test_no_cut_or_changed_character_is_accepted() -> None:
    changed = (STAMP[:at] + chr(ord(each) ^ 1) + STAMP[at + 1 :] for at, each in enumerate(STAMP))
    cut = (STAMP[:at] for at in range(len(STAMP)))

    assert {approvals.read_approval(each, PLAN, signatures=HASHER) for each in itertools.chain(changed, cut)} == {None}


def test_a_signature_for_another_purpose_proves_nothing() -> None:
    signed = [PLAN.namespace, PLAN.name, PLAN.uid, PLAN.digest, *dataclasses.astuple(APPROVAL)]
    own, other = (HASHER.sign(purpose, signed) for purpose in (approvals.PLAN, approvals.GATE))

    assert change(signature=own) == STAMP
    assert approvals.read_approval(change(signature=other), PLAN, signatures=HASHER) is None


def test_a_stamp_that_could_not_be_read_is_not_written() -> None:
    endless = dataclasses.replace(APPROVAL, user="x" * limits.APPROVAL_LENGTH)

    with pytest.raises(ValueError, match="at most 4096"):
        approvals.sign_approval(endless, PLAN, signer=HASHER)


@pytest.mark.parametrize(
    ("text", "expected", "is_valid"),
    [
        pytest.param("3f9c1a2e", DecisionRequest(digest="3f9c1a2e"), True, id="eight digits"),
        pytest.param(DIGEST, DecisionRequest(digest=DIGEST), True, id="all digits"),
        pytest.param(" 3F9C1A2E\n", DecisionRequest(digest="3f9c1a2e"), True, id="capitals and spaces"),
        pytest.param("3f9c1a2e too risky", DecisionRequest(digest="3f9c1a2e", reason="too risky"), True, id="a reason"),
        pytest.param("3f9c1a2", DecisionRequest(digest="3f9c1a2"), False, id="seven digits"),
        pytest.param("3f9c1a2f", DecisionRequest(digest="3f9c1a2f"), False, id="another digest"),
        pytest.param(DIGEST + "0", DecisionRequest(digest=DIGEST + "0"), False, id="too many digits"),
        pytest.param("", DecisionRequest(digest=""), False, id="nothing"),
        pytest.param("true", DecisionRequest(digest="true"), False, id="a word"),
        pytest.param("\x00", DecisionRequest(digest="\x00"), False, id="a control character"),
    ],
)
def test_a_request_names_the_digest(text: str, expected: DecisionRequest, is_valid: bool) -> None:
    request = approvals.parse_request(text)

    assert request == expected
    assert request.matches_digest(DIGEST) is is_valid


def test_a_request_of_a_megabyte_is_cut() -> None:
    request = approvals.parse_request("3f9c1a2e " + "x" * 1_000_000)

    assert (request.digest, len(request.reason)) == ("3f9c1a2e", limits.APPROVAL_REASON)
    assert not approvals.parse_request("3" * 1_000_000).matches_digest(DIGEST)
