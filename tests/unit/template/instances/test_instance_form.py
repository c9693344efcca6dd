"""An instance in the form of a Stack, with untrusted content."""

from typing import Any

import pytest

from hearth.model import chunked_work
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForms

SPEC = {
    "template": {
        "parameters": {
            "size": {"type": "integer", "default": 2, "maximum": 5},
            "password": {"type": "string", "sensitive": True},
        },
        "resources": {},
    },
    "defaults": {"rollback": {"onFailure": True}, "timeout": "5m"},
    "final": ["timeout"],
    "options": ["adoptionPolicy"],
    "scale": {"parameter": "size"},
}
FORM = instance_form.make_form("sites.platform.example", 1, instance_form.make_content(SPEC))
NAMED = {"password": {"secretKeyRef": {"name": "s", "key": "k"}}}


def judge(spec: Any) -> list[Mistake]:
    return chunked_work.finish(instance_form.find_mistakes(FORM, instance_form.read_rules(FORM), spec))


def test_options_are_over_the_defaults_and_final_ones_stay() -> None:
    options = FORM.find_options({"stack": {"rollback": {"toRevision": 3}, "timeout": "1h", "paused": True}})

    assert FORM.make_settings(options, {}) == {
        "rollback": {"onFailure": True, "toRevision": 3},
        "timeout": "5m",
        "paused": True,
    }


@pytest.mark.parametrize("option", ["serviceAccountName", "kubeConfig", "template", "templateRef", "parametersFrom"])
def test_no_other_field_of_a_stack_is_an_option(option: str) -> None:
    assert FORM.find_options({"stack": {option: "anything"}}) == {}


def test_a_sensitive_value_is_read_where_it_is_named_and_never_where_it_is_stated() -> None:
    assert FORM.find_parameters({"size": 3, **NAMED}) == ({"size": 3}, {"password": {"name": "s", "key": "k"}})
    assert FORM.find_parameters({"password": "in clear"}) == ({}, {})
    assert FORM.make_settings({}, {"password": {"name": "s", "key": "k"}})["parametersFrom"] == [
        {"secretRef": {"name": "s"}, "key": "k", "parameter": "password"}
    ]


@pytest.mark.parametrize("spec", [None, [], "text", 7, {"stack": []}, {"stack": None}])
def test_a_spec_of_any_shape_is_accepted(spec: Any) -> None:
    assert FORM.find_options(spec) == {}
    assert FORM.find_parameters(spec) == ({}, {})
    assert make_forms().find_pin(spec) is None


def test_the_scale_is_the_parameter_or_its_default() -> None:
    assert FORM.find_replicas({"size": 4}) == 4
    assert FORM.find_replicas({}) == 2
    assert FORM.find_replicas({"size": True}) is None


def make_forms(**spec: Any) -> InstanceForms:
    """Revisions 1 to 3; the second completed its rollout."""
    content = instance_form.make_content({**SPEC, **spec})
    by_number = {number: instance_form.make_form("d", number, content) for number in (1, 2, 3)}
    return InstanceForms("d", by_number, current=2)


@pytest.mark.parametrize(
    ("last", "pin", "chosen", "mistake"),
    [
        pytest.param(None, None, 2, "", id="a new one gets the current one"),
        pytest.param(1, None, 1, "", id="one keeps its own"),
        pytest.param(1, 1, 1, "", id="pinned to its own"),
        pytest.param(1, 3, 3, "", id="pinned to a newer one"),
        pytest.param(3, 1, 3, "only keeps its revision", id="pinned to an older one"),
        pytest.param(None, 1, 2, "only keeps its revision", id="a new one pinned to an older one"),
        pytest.param(1, 9, 1, "has no revision 9 (1 to 3)", id="pinned to none"),
        pytest.param(7, None, 2, "", id="one whose own is gone"),
        pytest.param(1, True, 1, "", id="no number"),
    ],
)
def test_an_instance_keeps_its_revision_or_takes_a_newer_one(
    last: int | None, pin: Any, chosen: int, mistake: str
) -> None:
    forms, spec = make_forms(), {"stack": {"definitionRevision": pin}}

    form = forms.choose(spec, last)

    assert form.number == chosen
    assert mistake in forms.find_pin_mistake(spec, chosen) if mistake else not forms.find_pin_mistake(spec, chosen)


def test_a_pin_counts_for_nothing_where_it_is_final_or_below_the_minimum() -> None:
    spec = {"stack": {"definitionRevision": 2}}
    assert make_forms(final=["definitionRevision"]).choose(spec, 1).number == 1
    assert make_forms(final=["definitionRevision"]).find_pin(spec) is None
    assert make_forms(minimumRevision=3).choose(spec, 1).number == 1
    assert "newer one" in make_forms(minimumRevision=3).find_pin_mistake(spec, 1)


def test_mistakes_have_their_paths_in_the_instance_or_the_definition() -> None:
    error = InvalidDefinition(
        [
            Mistake(
                path="spec.parameters.size",
                message="must be at most 5; change the rule in spec.template.parameters.size",
            ),
            Mistake(path="spec.rollback.toRevision", message="is gone"),
            Mistake(path="spec.template.resources.page", message="is wrong"),
        ]
    )

    found = [str(each) for each in instance_form.translate(error, "sites.platform.example").mistakes]

    there = "StackDefinition sites.platform.example spec.template."
    assert found == [
        f"spec.size: must be at most 5; change the rule in {there}parameters.size",
        "spec.stack.rollback.toRevision: is gone",
        f"{there}resources.page: is wrong",
    ]


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"size": 3, **NAMED}, []),
        ({"size": 9, **NAMED}, ["spec.size"]),
        ({"gone": 1, **NAMED}, ["spec.gone"]),
        ({"size": "x"}, ["spec.size", "spec.password"]),
        ({"password": "in clear"}, ["spec.password"]),
        # Its objects are in another cluster, and cannot move.
        ({**NAMED, "stack": {"kubeConfig": {"secretRef": {"name": "x"}}}}, ["spec.stack.kubeConfig"]),
    ],
)
def test_what_does_not_fit_is_found(spec: Any, paths: list[str]) -> None:
    assert [each.path for each in judge(spec)] == paths


@pytest.mark.parametrize(
    ("size", "is_known", "paths"), [(4, True, ["spec.size"]), (9, True, []), (9, False, ["spec.size"]), (3, True, [])]
)
def test_an_instance_is_unfit_only_where_it_fitted_before(size: int, is_known: bool, paths: list[str]) -> None:
    stricter = {**SPEC["template"]["parameters"], "size": {"type": "integer", "maximum": 3}}  # type: ignore[index]
    spec = {**SPEC, "template": {"parameters": stricter, "resources": {}}}
    form = instance_form.make_form(FORM.definition, 2, instance_form.make_content(spec))
    work = instance_form.find_unfit(
        form, instance_form.read_rules(form), {"size": size, **NAMED}, own_form=FORM if is_known else None
    )
    assert [each.path for each in chunked_work.finish(work)] == paths
