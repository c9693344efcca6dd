"""A StackPlan as text, JSON and Markdown, and which plan of a Stack is shown."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views import plan_output
from hearth.cli.stack_views.plan_output import ShownPlan
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import approvals, names
from hearth.model.approvals import Approval, Decision
from hearth.model.child import Object
from hearth.plan.target import change_plans
from support.units.blueprints import HASHER

DIGEST = "3f9c1a2e" + "0" * 56
STACK = StackState({"kind": "Stack", "metadata": {"name": "shop", "namespace": "a", "uid": "stack-1"}})
WEB = {"group": "apps", "kind": "Deployment", "namespace": "a", "name": "web"}
STEPS: list[Object] = [
    {"action": "update", "resource": "web", "object": WEB, "fields": ["spec.replicas"], "undo": "reversible"},
    {
        "action": "delete",
        "resource": "data",
        "object": {"group": "", "kind": "PersistentVolumeClaim", "namespace": "a", "name": "data"},
        "reason": "it is not in the template",
        "undo": "one-way",
        "risky": ["it deletes the object"],
    },
]


def make_plan(*, phase: str = "Pending", uid: str = "stack-1", name: str = "shop-3f9c1a2e", **spec: Any) -> Object:
    full = {
        "stackRef": {"kind": "Stack", "name": "shop", "uid": uid},
        "digest": DIGEST,
        "baseRevision": 6,
        "steps": STEPS,
    }
    metadata = {
        "name": name,
        "namespace": "a",
        "uid": "plan-1",
        "creationTimestamp": spec.pop("created", "2026-11-30T08:00:00Z"),
    }
    status = {"phase": phase, "expiresAt": "2026-12-01T08:00:00Z"}
    return {"metadata": metadata, "spec": {**full, **spec}, "status": status}


def write(raw: Object) -> str:
    lines = plan_output.list_lines(ShownPlan(raw), STACK)
    return "\n".join("".join(text for text, _ in line) for line in lines)


def decide(raw: Object, decision: Decision) -> Object:
    plan = approvals.ApprovalSubject(namespace="a", name="shop-3f9c1a2e", uid="plan-1", digest=DIGEST)
    approval = Approval(decision=decision, user="bob", time="2026-11-30T09:00:00Z", reason="Friday")
    stamp = approvals.sign_approval(approval, plan, signer=HASHER)
    return {**raw, "metadata": {**raw["metadata"], "annotations": {names.ANNOTATION_APPROVAL: stamp}}}


def test_a_plan_as_text_shows_what_an_approval_covers() -> None:
    raw = make_plan(
        unknown=["name of the object that db creates"],
        notes=["rolls back"],
        authors=["alice", "carol"],
        separateApprover=True,
    )

    assert (
        write(raw)
        == f"""\
stack/shop in a: plan shop-3f9c1a2e is Pending
~ change      web (deployment/web)
    ~ spec.replicas
- delete      data (persistentvolumeclaim/data): it is not in the template
    undo: one-way
    risky: it deletes the object
1 changed, 1 deleted; can be undone: not completely (one-way); 1 risky step
note: rolls back
unknown until run time: name of the object that db creates
authors, who cannot approve the change: alice, carol
expires at: 2026-12-01T08:00:00Z
digest: {DIGEST}
  kubectl stack approve shop 3f9c1a2e -n a
  kubectl stack reject shop 3f9c1a2e -n a"""
    )


@pytest.mark.parametrize(
    ("phase", "commands"),
    [
        ("Pending", ["kubectl stack approve shop 3f9c1a2e -n a", "kubectl stack reject shop 3f9c1a2e -n a"]),
        ("Approved", []),
        ("Rejected", ["kubectl stack retry shop -n a"]),
        ("Expired", ["kubectl stack retry shop -n a"]),
    ],
)
def test_each_phase_offers_the_commands_that_help(phase: str, commands: list[str]) -> None:
    assert list(plan_output.list_commands(ShownPlan(make_plan(phase=phase)), STACK)) == commands


def test_a_change_that_switches_approvals_off_says_so_next_to_the_digest() -> None:
    warning = change_plans.SWITCHED_OFF["relaxed"]
    text = write(make_plan(steps=[*STEPS, STEPS[1]], definitionHash="k1:2/relaxed", notes=[warning]))

    assert f"the change {warning}\ndigest: {DIGEST}" in text
    assert text.count(warning) == 1
    assert "; 2 risky steps\n" in text


def test_the_decision_is_shown() -> None:
    raw = decide(make_plan(phase="Rejected"), Decision.REJECTED)

    assert "\nrejected by bob at 2026-11-30T09:00:00Z: Friday\n" in write(raw)
    assert plan_output.to_output(ShownPlan(raw), STACK)["approval"] == {
        "decision": "rejected",
        "user": "bob",
        "time": "2026-11-30T09:00:00Z",
        "reason": "Friday",
    }


def test_a_plan_as_json_has_the_form_of_a_preview() -> None:
    found = plan_output.to_output(ShownPlan(make_plan()), STACK)

    assert found["changes"] == [
        {
            "action": "update",
            "resource": "web",
            "object": {"group": "apps", "kind": "Deployment", "namespace": "a", "name": "web"},
            "undo": {"grade": "reversible"},
            "fields": ["spec.replicas"],
        },
        {
            "action": "delete",
            "resource": "data",
            "object": {"group": "", "kind": "PersistentVolumeClaim", "namespace": "a", "name": "data"},
            "reason": "it is not in the template",
            "undo": {"grade": "one-way"},
            "risky": ["it deletes the object"],
        },
    ]
    expected = {"plan": "shop-3f9c1a2e", "phase": "Pending", "digest": DIGEST, "undo": "one-way", "baseRevision": 6}
    assert expected.items() <= found.items()


def test_a_plan_as_markdown_is_a_block_of_a_diff() -> None:
    hostile = [{**STEPS[0], "reason": "```\n# title", "fields": ["<img src=x>"]}]
    found = plan_output.write_markdown(ShownPlan(make_plan(steps=hostile, notes=["*x*"])), STACK)

    assert "\n````diff\n! change      web (deployment/web): ``` # title\n     ~ <img src=x>\n````\n" in found
    assert "- note: \\*x\\*" in found
    assert found.endswith(
        "```sh\nkubectl stack approve shop 3f9c1a2e -n a\nkubectl stack reject shop 3f9c1a2e -n a\n```"
    )


def test_text_of_a_plan_cannot_control_a_terminal() -> None:
    red = "\x1b[31m\u202e"
    raw = make_plan(
        phase=red,
        authors=[red],
        separateApprover=True,
        unknown=[red],
        notes=[red],
        steps=[{**STEPS[1], "fields": [red], "risky": [red]}],
    )

    assert red not in write(raw)
    assert "\x1b" not in write(raw)


@pytest.mark.parametrize(
    ("plans", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([make_plan(uid="stack-2")], None, id="of an earlier Stack with the same name"),
        pytest.param([make_plan(phase="Completed"), make_plan(phase="Superseded")], None, id="ended"),
        pytest.param([make_plan(phase="Completed"), make_plan(name="shop-2")], "shop-2", id="the present one"),
        pytest.param(
            [make_plan(name="shop-2", created="2026-11-30T09:00:00Z"), make_plan(phase="Expired")],
            "shop-2",
            id="the newest",
        ),
    ],
)
def test_the_present_plan_is_chosen(plans: list[Object], expected: str | None) -> None:
    found = plan_output.choose_plan(plans, STACK)

    assert (found.name if found is not None else None) == expected


@pytest.mark.parametrize("spec", [None, [], {"steps": 5}, {"steps": [None, {}, {"action": "boom", "undo": "never"}]}])
def test_a_malformed_plan_is_shown(spec: Any) -> None:
    raw = {**make_plan(), "spec": spec, "status": None}

    assert "is Pending" in write(raw)
    assert plan_output.to_output(ShownPlan(raw), STACK)["plan"] == "shop-3f9c1a2e"
