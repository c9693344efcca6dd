"""The objects that a bare loop writes are those that the operator would."""

from __future__ import annotations

from bench.instruments import workload
from bench.instruments.workload import Workload
from hearth.model import names

SMALL = Workload(template=workload.make_small_template(), stacks=3)


def test_every_stack_has_its_four_children() -> None:
    """With names of their own, in the namespace that was asked for."""
    children = SMALL.make_children("here", value="one")

    assert SMALL.objects == 12
    assert len({child.path for child in children}) == 12
    assert {child.manifest["metadata"]["namespace"] for child in children} == {"here"}
    assert [kind.name for kind in SMALL.kinds] == ["ConfigMap", "ServiceAccount", "Role", "RoleBinding"]


def test_children_carry_the_labels_and_annotations_of_the_operator() -> None:
    """They are a good part of what the API server has to store."""
    binding = SMALL.make_children("here", value="one")[3].manifest
    metadata = binding["metadata"]

    assert binding["kind"] == "RoleBinding"
    assert metadata["labels"][names.LABEL_RESOURCE] == "binding"
    assert metadata["annotations"][names.ANNOTATION_REQUIRES] == "account/1,role/1"
    assert metadata["annotations"][names.ANNOTATION_HASH]
    assert binding["roleRef"]["name"] == "stack-0-role"


def test_a_change_of_the_parameter_changes_every_child() -> None:
    """One field each; names and paths stay."""
    first, second = SMALL.make_children("here", value="one"), SMALL.make_children("here", value="two")

    assert [child.path for child in first] == [child.path for child in second]
    assert all(one.manifest != two.manifest for one, two in zip(first, second, strict=True))


def test_the_users_change_leads_to_the_changed_children() -> None:
    """The patch says what `make_children` was given."""
    (stack,) = Workload(template=workload.make_flat_template(2), stacks=1).make_stacks("here")

    assert workload.with_value(stack, "two")["spec"]["parameters"] == workload.make_change("two")["spec"]["parameters"]


def test_a_flat_stack_has_as_many_config_maps_as_were_asked_for() -> None:
    """None of them waits for another."""
    flat = Workload(template=workload.make_flat_template(50), stacks=1)
    children = flat.make_children("here", value="one")

    assert flat.objects == len(children) == 50
    assert [kind.name for kind in flat.kinds] == ["ConfigMap"]
    assert {child.manifest["metadata"]["annotations"][names.ANNOTATION_REQUIRES] for child in children} == {""}
