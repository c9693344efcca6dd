"""Plans of changes: which ones count, and what identifies a change."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import windows
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.text import times
from hearth.model.windows import Window
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.target import change_plans
from hearth.plan.target.change_plans import DEFAULT_POLICY, ApprovalPolicy, ChangeIdentity, PreviewedChange
from hearth.plan.target.target import RollbackRequest, TargetCause
from hearth.plan.target.target_choice import TargetChoice

KEY = KeyedHasher(b"the key of this cluster")
IDENTITY = ChangeIdentity(definition_hash="k1:abc", base_revision=3, previous_plan="generation 1")
CHANGE = PreviewedChange(generation=2, sources={}, steps=({"action": "delete", "resource": "web"},), undo="one-way")


def make_spec(**more: Any) -> Object:
    reference = {"kind": "Stack", "name": "shop", "uid": "u1"}
    return {**change_plans.make_spec(reference, IDENTITY, CHANGE, DEFAULT_POLICY, namespace="ns"), **more}


def is_genuine(spec: Object, signature: str, *, namespace: str = "ns", name: str = "shop-1") -> bool:
    return change_plans.is_genuine(namespace, name, spec, signature, signatures=KEY)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param({"required": "Never"}, None, id="switched off"),
        pytest.param({"required": "Always"}, ApprovalPolicy(), id="all changes"),
        pytest.param(
            {"required": "Always", "validFor": "8h", "separateApprover": True},
            ApprovalPolicy(valid_for="8h", is_separate=True),
            id="all options",
        ),
        pytest.param({"required": "Risky"}, ApprovalPolicy(is_for_risks=True), id="risky changes"),
        pytest.param({"required": "Sometimes"}, ApprovalPolicy(), id="a word of a later version"),
        pytest.param("Always", ApprovalPolicy(), id="another shape"),
    ],
)
def test_policy_of_a_spec(stated: object, expected: ApprovalPolicy | None) -> None:
    assert change_plans.parse_policy({"approval": stated} if stated is not None else {}) == expected


@pytest.mark.parametrize(
    ("steps", "switched_off", "policy", "expected"),
    [
        pytest.param([{}, {}], "", ApprovalPolicy(), True, id="all changes"),
        pytest.param([{}, {}], "", ApprovalPolicy(is_for_risks=True), False, id="no risk"),
        pytest.param(
            [{}, {"risky": ["it deletes the object"]}], "", ApprovalPolicy(is_for_risks=True), True, id="a risk"
        ),
        *(
            pytest.param([], f"/{each}", ApprovalPolicy(is_for_risks=True), True, id=f"weaker rules: {each}")
            for each in change_plans.SWITCHED_OFF
        ),
        pytest.param([], "/restore-abc", ApprovalPolicy(is_for_risks=True), False, id="a restore"),
    ],
)
def test_a_change_needs_an_approval(
    steps: list[Object], switched_off: str, policy: ApprovalPolicy, expected: bool
) -> None:
    spec = make_spec(steps=steps, definitionHash=f"k1:abc{switched_off}")

    assert change_plans.needs_approval(spec, policy) is expected


def test_a_plan_of_this_operator_is_genuine_and_names_its_change() -> None:
    spec = make_spec()

    assert is_genuine(spec, change_plans.sign_plan("ns", "shop-1", spec, signer=KEY))
    assert change_plans.read_identity(spec) == IDENTITY


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        pytest.param({"steps": []}, {}, id="other steps"),
        pytest.param({"definitionHash": "k1:def"}, {}, id="another definition"),
        pytest.param({"previousPlan": "p1"}, {}, id="valid again"),
        pytest.param({"validFor": "9999h"}, {}, id="valid longer"),
        pytest.param({"stackRef": {"kind": "Stack", "name": "shop", "uid": "u2"}}, {}, id="another Stack"),
        pytest.param({"stackRef": "u1"}, {}, id="no reference"),
        pytest.param({"digest": 7}, {}, id="no digest"),
        pytest.param({"extra": 1}, {}, id="a field of a later version"),
        pytest.param({}, {"namespace": "other"}, id="copied to another namespace"),
        pytest.param({}, {"name": "shop-2"}, id="copied to another name"),
    ],
)
def test_a_changed_or_copied_plan_does_not_count(changed: Object, place: dict[str, str]) -> None:
    signature = change_plans.sign_plan("ns", "shop-1", make_spec(), signer=KEY)

    assert not is_genuine(make_spec(**changed), signature, **place)


def test_a_changed_plan_with_a_new_digest_does_not_count() -> None:
    signature = change_plans.sign_plan("ns", "shop-1", make_spec(), signer=KEY)
    changed = make_spec(steps=[])

    assert not is_genuine({**changed, "digest": change_plans.find_digest("ns", changed)}, signature)


@pytest.mark.parametrize("signature", ["", "x", "k0:" + "f" * 10_000], ids=["none", "short", "long"])
def test_a_plan_without_a_signature_does_not_count(signature: str) -> None:
    assert not is_genuine(make_spec(), signature)


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    spec = make_spec()

    assert change_plans.find_digest("ns", dict(reversed(spec.items()))) == spec["digest"]


SPEC = TargetChoice(cause=TargetCause.SPEC)
ROLLBACK = RollbackRequest(to_revision=1, spec_hash="two", revision=1)
RESTORE = RollbackRequest(to_revision=0, spec_hash="two", revision=1, snapshot="nightly")


@pytest.mark.parametrize(
    ("choice", "switched_off", "expected"),
    [
        pytest.param(SPEC, "", "two", id="a definition"),
        pytest.param(SPEC, "off", "two/off", id="without approvals afterward"),
        pytest.param(
            TargetChoice(cause=TargetCause.ROLLBACK, revision=1, rollback=ROLLBACK), "", "one", id="a rollback"
        ),
        pytest.param(TargetChoice(cause=TargetCause.ROLLBACK, revision=0), "", "empty", id="to nothing"),
    ],
)
def test_name_of_a_change(choice: TargetChoice, switched_off: str, expected: str) -> None:
    assert change_plans.name_change(choice, "two", hashes={1: "one"}, switched_off=switched_off) == expected


def test_a_restore_is_another_change_than_a_rollback() -> None:
    choice = TargetChoice(cause=TargetCause.ROLLBACK, revision=1, rollback=RESTORE)

    assert change_plans.name_change(choice, "two", hashes={1: "one"}).startswith("one/restore-")


def test_versions_of_sources_are_listed_by_kind_and_name() -> None:
    ref = ObjectRef(group="", kind="Secret", namespace="ns", name="db")

    assert change_plans.list_versions({ref: "7"}) == {"Secret/ns/db": "7"}


@pytest.mark.parametrize(
    ("authors", "settings", "expected"),
    [
        pytest.param((), {}, DEFAULT_POLICY, id="none recorded"),
        pytest.param(("alice",), {}, ApprovalPolicy(is_separate=True, authors=("alice",)), id="recorded"),
        pytest.param(
            ("alice",), {"templateRef": {"name": "t"}}, ApprovalPolicy(is_separate=True), id="another template"
        ),
        pytest.param(("alice",), {"parametersFrom": [{}]}, ApprovalPolicy(is_separate=True), id="other parameters"),
    ],
)
def test_recorded_authors_need_a_separate_approver(
    authors: tuple[str, ...], settings: Object, expected: ApprovalPolicy
) -> None:
    assert change_plans.add_authors(DEFAULT_POLICY, authors, settings) == expected


def test_a_plan_is_by_the_authors_that_it_names() -> None:
    by_alice, by_bob = (ApprovalPolicy(is_separate=True, authors=(name,)) for name in ("alice", "bob"))
    reference = {"kind": "Stack", "name": "shop", "uid": "u1"}
    spec = change_plans.make_spec(reference, IDENTITY, CHANGE, by_alice, namespace="ns")

    assert (spec["separateApprover"], spec["authors"]) == (True, ["alice"])
    assert [change_plans.is_by(spec, each) for each in (by_alice, by_bob, DEFAULT_POLICY)] == [True, False, False]
    assert change_plans.is_by(make_spec(), DEFAULT_POLICY)


@pytest.mark.parametrize(
    ("handled", "expected"),
    [
        pytest.param("0d5f7c1e-6d0c-4b5c-9d3e-2f0d7c1b8a99", True, id="a plan"),
        pytest.param("generation 5", False, id="approvals were switched on"),
        pytest.param("generation 5 at 2026-11-30T09:00:00Z", False, id="the status was lost"),
        pytest.param("", False, id="no record"),
    ],
)
def test_only_a_uid_in_the_record_is_a_plan(handled: str, *, expected: bool) -> None:
    assert change_plans.is_plan(handled) is expected


MONDAYS = windows.parse({"days": ["Mon"], "from": "02:00", "to": "04:00"})


@pytest.mark.parametrize(
    ("approved_at", "window", "expected"),
    [
        pytest.param("", None, "2026-11-06T09:00:00Z", id="not approved"),
        pytest.param("", MONDAYS, "2026-11-06T09:00:00Z", id="not approved, with a window"),
        pytest.param("2026-11-05T10:00:00Z", None, "2026-11-06T09:00:00Z", id="approved"),
        pytest.param("2026-11-05T10:00:00Z", MONDAYS, "2026-11-10T02:00:00Z", id="approved before the window"),
        pytest.param("2026-11-06T09:00:00Z", MONDAYS, "2026-11-06T09:00:00Z", id="approved too late"),
        pytest.param("2026-11-05T10:00:00Z", windows.parse({}), "2026-11-06T09:00:00Z", id="approved in the window"),
    ],
)
def test_the_expiry_of_a_plan(approved_at: str, window: Window | None, expected: str) -> None:
    """Created on a Thursday, and valid for a day."""
    found = change_plans.find_expiry("2026-11-05T09:00:00Z", make_spec(), approved_at=approved_at, window=window)
    assert times.format_time(found) == expected
