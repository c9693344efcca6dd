"""The content of a StackPlan, from a preview."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model import limits
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership.field_changes import FieldChange
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.plan.target import approved_steps
from hearth.plan.target.approved_steps import ApprovedStep, ContentSeal
from hearth.preview import planned_steps, previews
from hearth.preview.changes import Action, Change, Preview
from hearth.preview.planned_steps import NotPlannable
from hearth.preview.source_readers import NO_READERS, SourceReaders

WEB = ObjectRef(group="apps", kind="Deployment", namespace="ns", name="web")


def make_preview(*changes: Change, **more: Any) -> Preview:
    return Preview(kind="Stack", namespace="ns", name="shop", is_new=False, changes=changes, **more)


def test_an_update_has_the_paths_of_its_fields_and_no_values() -> None:
    field = FieldChange(path=("spec", "replicas"), old=1, new="unspeakable")
    change = Change(
        action=Action.UPDATE,
        resource="web",
        ref=WEB,
        fields=(field,),
        reason="it changed",
        undo=Undo(grade=UndoGrade.REVERSIBLE),
    )

    found = planned_steps.make_change(make_preview(change), generation=4)

    assert found.generation == 4
    assert found.undo == "reversible"
    assert found.steps == (
        {
            "action": "update",
            "resource": "web",
            "object": {"group": "apps", "kind": "Deployment", "namespace": "ns", "name": "web"},
            "fields": ["spec.replicas"],
            "reason": "it changed",
            "undo": "reversible",
        },
    )


CLAIM = ObjectRef(group="", kind="PersistentVolumeClaim", namespace="ns", name="data")
OTHER = ObjectRef(group="apps", kind="Deployment", namespace="kube-system", name="web")
CLUSTER_ISSUER = ObjectRef(group="cert-manager.io", kind="ClusterIssuer", namespace="", name="web")
GRANT = ObjectRef(group="rbac.authorization.k8s.io", kind="RoleBinding", namespace="ns", name="web")
INNER = ObjectRef(group="hearth.dev", kind="Stack", namespace="ns", name="inner")
ONE_WAY = Undo(grade=UndoGrade.ONE_WAY)


@pytest.mark.parametrize(
    ("change", "risks"),
    [
        pytest.param(Change(action=Action.CREATE, resource="web", ref=WEB), [], id="creation"),
        pytest.param(Change(action=Action.UPDATE, resource="web", ref=WEB), [], id="update"),
        pytest.param(Change(action=Action.DELETE, resource="web", ref=WEB), ["it deletes the object"], id="deletion"),
        pytest.param(
            Change(action=Action.REPLACE, resource="web", ref=WEB, old_ref=WEB),
            ["it replaces the object"],
            id="replacement",
        ),
        pytest.param(Change(action=Action.UPDATE, resource="db", ref=CLAIM), ["its kind holds data"], id="data"),
        pytest.param(
            Change(action=Action.REPLACE, resource="db", ref=WEB, old_ref=CLAIM),
            ["it replaces the object", "its kind holds data"],
            id="data in the old object",
        ),
        *(
            pytest.param(
                Change(action=Action.CREATE, resource="web", ref=ref),
                ["its object is not in the namespace of the Stack"],
                id=name,
            )
            for name, ref in (("another namespace", OTHER), ("no namespace", CLUSTER_ISSUER))
        ),
        pytest.param(Change(action=Action.CREATE, resource="grant", ref=GRANT), ["it can give rights"], id="rights"),
        pytest.param(
            Change(action=Action.UPDATE, resource="web", ref=WEB, undo=ONE_WAY),
            ["a rollback cannot undo it"],
            id="one-way",
        ),
        pytest.param(
            Change(action=Action.UPDATE, resource="inner", ref=INNER), ["its own steps are unknown"], id="nested Stack"
        ),
    ],
)
def test_a_step_says_why_it_is_risky(change: Change, risks: list[str]) -> None:
    (step,) = planned_steps.make_change(make_preview(change), generation=4).steps

    assert step.get("risky", []) == risks


@pytest.mark.parametrize(
    ("inner", "risks"),
    [
        pytest.param({"changes": (Change(action=Action.UPDATE, resource="web", ref=WEB),)}, [], id="none"),
        pytest.param({"is_new": True}, [], id="a new one without objects"),
        pytest.param(
            {"changes": (Change(action=Action.DELETE, resource="web", ref=WEB),)},
            ["a step in it is risky: web: it deletes the object"],
            id="a deletion",
        ),
        pytest.param(
            {"changes": (Change(action=Action.STOP, resource="web", ref=WEB),)},
            ["a step in it is risky: web: stop, and the steps after it are unknown"],
            id="a breakpoint",
        ),
        pytest.param({"rejection": "wrong", "is_new": True}, ["a step in it is risky: wrong"], id="a mistake"),
        pytest.param(
            {"notes": ("the changes in it are not shown",)}, ["its own steps are unknown"], id="unknown steps"
        ),
    ],
)
def test_a_step_is_as_risky_as_those_of_its_nested_stack(inner: dict[str, Any], risks: list[str]) -> None:
    content: dict[str, Any] = {"is_new": False, **inner}
    nested = Preview(kind="Stack", namespace="ns", name="inner", **content)
    change = Change(action=Action.UPDATE, resource="inner", ref=INNER)

    (step,) = planned_steps.make_change(make_preview(change, nested=(nested,)), generation=4).steps

    assert step.get("risky", []) == risks


SETTINGS = ObjectRef(group="", kind="ConfigMap", namespace="ns", name="settings")
READ = SourceReaders(by_source={SETTINGS: [INNER]})


@pytest.mark.parametrize(
    ("inner", "readers", "risks"),
    [
        pytest.param(None, NO_READERS, [], id="no reader"),
        pytest.param(None, READ, ["stack.hearth.dev/inner reads it, and its steps are unknown"], id="another Stack"),
        pytest.param(
            None,
            SourceReaders(is_complete=False),
            ["Stacks may read it, and their steps are unknown"],
            id="too many Stacks",
        ),
        pytest.param((Change(action=Action.UPDATE, resource="web", ref=WEB),), READ, [], id="harmless steps"),
        pytest.param(
            (Change(action=Action.DELETE, resource="db", ref=CLAIM),),
            READ,
            ["stack.hearth.dev/inner reads it and has a risky step: db: it deletes the object"],
            id="a deletion",
        ),
    ],
)
def test_a_step_is_as_risky_as_those_of_the_stacks_that_read_its_object(
    inner: tuple[Change, ...] | None, readers: SourceReaders, risks: list[str]
) -> None:
    nested = [Preview(kind="Stack", namespace="ns", name="inner", is_new=False, changes=inner)] if inner else []
    change = Change(action=Action.UPDATE, resource="settings", ref=SETTINGS)
    preview = make_preview(change, nested=tuple(nested))

    (step,) = planned_steps.make_change(preview, generation=4, readers=readers).steps

    assert step.get("risky", []) == risks


def test_a_step_is_not_risky_because_its_own_stack_reads_the_object() -> None:
    readers = SourceReaders(by_source={SETTINGS: [dataclasses.replace(INNER, name="shop")]})
    change = Change(action=Action.UPDATE, resource="settings", ref=SETTINGS)

    (step,) = planned_steps.make_change(make_preview(change), generation=4, readers=readers).steps

    assert "risky" not in step


@pytest.mark.parametrize("action", [Action.CREATE, Action.UPDATE])
def test_the_steps_of_an_instance_are_unknown(action: Action) -> None:
    instance = ObjectRef(group="platform.example", kind="WebApp", namespace="ns", name="web")
    readers = SourceReaders(instance_groups={"platform.example"})
    change = Change(action=action, resource="web", ref=instance)

    (step,) = planned_steps.make_change(make_preview(change), generation=4, readers=readers).steps

    assert step["risky"] == ["its own steps are unknown"]


def test_a_step_has_the_hash_of_its_manifest_and_the_paths_that_do_not_count() -> None:
    seal = ContentSeal(content="k1:2", unknown=("data.host",))
    change = Change(action=Action.CREATE, resource="web", ref=WEB, seal=seal)

    (step,) = planned_steps.make_change(make_preview(change), generation=4).steps

    assert (step["content"], step["unknownFields"]) == ("k1:2", ["data.host"])
    assert approved_steps.read_steps([step]) == (ApprovedStep(action="create", ref=WEB, seal=seal),)


def test_a_step_with_too_many_unknown_values_has_no_plan() -> None:
    unknown = tuple(f"f{number}" for number in range(limits.PLAN_FIELDS + 1))
    change = Change(action=Action.CREATE, resource="web", ref=WEB, seal=ContentSeal(content="k", unknown=unknown))

    with pytest.raises(NotPlannable, match="web has 101 values that are unknown"):
        planned_steps.make_change(make_preview(change), generation=1)


def test_values_unknown_until_run_time_are_listed() -> None:
    ref = ObjectRef(group="", kind="ConfigMap", namespace="ns", name="(known after db is ready)")
    field = FieldChange(path=("data", "host"), old="", new=["x", {"y": "(known after db is ready)"}])
    changes = (
        Change(action=Action.CREATE, resource="config", ref=ref),
        Change(action=Action.UPDATE, resource="web", ref=WEB, fields=(field,)),
    )

    assert planned_steps.make_change(make_preview(*changes), generation=1).unknown == (
        "name of the object of config (known after db is ready)",
        "web: data.host (known after db is ready)",
    )


def test_resources_that_change_nothing_become_notes() -> None:
    inner = make_preview(Change(action=Action.DELETE, resource="x", ref=WEB), notes=("inner",))
    changes = (
        Change(action=Action.STOP, resource="web", ref=WEB, hook="PreUpdate"),
        Change(action=Action.FAIL, resource="db", reason="quota"),
    )

    found = planned_steps.make_change(
        make_preview(*changes, notes=("outer", previews.APPROVAL), nested=(inner,)), generation=1
    )

    assert found.steps == ()
    assert found.notes == (
        "outer",
        "web: stop at PreUpdate",
        "db: fail: quota",
        "Stack shop in it has 1 changes",
        "inner",
    )


def test_a_rejected_definition_has_no_plan() -> None:
    with pytest.raises(NotPlannable, match="wrong"):
        planned_steps.make_change(make_preview(rejection="wrong"), generation=1)


def test_a_change_with_too_many_steps_has_no_plan() -> None:
    changes = [Change(action=Action.DELETE, resource=f"r{number}", ref=WEB) for number in range(limits.PLAN_STEPS + 1)]

    with pytest.raises(NotPlannable, match="make smaller changes"):
        planned_steps.make_change(make_preview(*changes), generation=1)


def test_a_step_with_too_many_fields_has_no_plan() -> None:
    fields = [FieldChange(path=(f"f{number}",), old=1, new=2) for number in range(limits.PLAN_FIELDS + 1)]
    change = Change(action=Action.UPDATE, resource="web", ref=WEB, fields=tuple(fields))

    with pytest.raises(NotPlannable, match="changes 101 fields"):
        planned_steps.make_change(make_preview(change), generation=1)


def test_long_texts_are_cut() -> None:
    change = Change(action=Action.DELETE, resource="web", ref=WEB, reason="x" * 10_000)

    (step,) = planned_steps.make_change(make_preview(change), generation=1).steps
    assert len(step["reason"]) == limits.PLAN_TEXT


def test_a_plan_ignores_the_pause_of_a_stack() -> None:
    assert planned_steps.unpause({"spec": {"paused": True, "timeout": "1m"}}) == {"spec": {"timeout": "1m"}}


def test_a_plan_says_how_many_notes_have_no_room() -> None:
    notes = [f"note {number}" for number in range(limits.PLAN_NOTES + 10)]

    shown = planned_steps.shorten(notes)

    assert len(shown) == limits.PLAN_NOTES - 1
    assert shown[-1] == "the plan has no room for 12 more notes"
    assert planned_steps.shorten(notes[:40]) == tuple(notes[:40])
