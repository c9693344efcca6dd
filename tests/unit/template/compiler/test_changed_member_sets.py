"""Members that come and go at the end of a list, or with the size of a group, are compiled alone; see test_changed_members."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from hearth.model import chunked_work
from hearth.model.members import GroupSize
from hearth.template import resource_group
from hearth.template.blueprint import Blueprint, Definition
from hearth.template.compiler import changed_members, compiler, outlines
from hearth.template.compiler.changed_members import Inputs
from support.units import blueprints

KINDS = blueprints.ServedKinds(blueprints.CONFIG_MAP, blueprints.GADGET)
SIZE = outlines.LONG + 8


def config(data: Any, name: str | None = None, **words: Any) -> Any:
    """A ConfigMap."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
    return {"manifest": manifest if name is None else {**manifest, "metadata": {"name": name}}, **words}


def make_zones(count: int = SIZE) -> list[Any]:
    """Elements of some forty bytes."""
    return [{"name": f"zone-{number}", "size": number, "note": "some text"} for number in range(count)]


def compile_changed(definition: Definition, previous: Blueprint | None) -> Blueprint:
    """Compile with what is known of the previous blueprint."""
    outline = outlines.make(definition, stack=blueprints.STACK, place="1")
    inputs = Inputs(stack=blueprints.STACK, kinds=KINDS, outline=outline)
    return chunked_work.finish(changed_members.compile_in_pieces(definition, inputs, previous=previous))


def compile_only_changes(definition: Definition, previous: Blueprint) -> Blueprint | None:
    """The blueprint if it can be made from the difference; None if all must be compiled."""
    outline = outlines.make(definition, stack=blueprints.STACK, place="1")
    assert outline is not None
    inputs = Inputs(stack=blueprints.STACK, kinds=KINDS, outline=outline)
    return chunked_work.finish(changed_members.compile_changes(definition, outline, inputs, previous=previous))


def compile_all(definition: Definition) -> Blueprint:
    """From nothing."""
    return compiler.compile_template(definition, stack=blueprints.STACK, kinds=KINDS)


def assert_equal(found: Blueprint, wanted: Blueprint) -> None:
    """The same resources in the same order, and all else."""
    assert found == wanted
    assert list(found.resources) == list(wanted.resources)
    assert [each.index for each in found.resources.values()] == [each.index for each in wanted.resources.values()]


def make_definition(zones: list[Any], **others: Any) -> Definition:
    """A collection between what it requires and another resource."""
    workers = config(
        {"size": "${string(item.size)}", "base": "${base.data.a}"},
        forEach="params.zones",
        key="item.name",
        dependsOn=["names"],
    )
    resources = {
        "base": config({"a": "1"}),
        "names": config({"name": "${item}"}, forEach="['a', 'b']", key="item"),
        "workers": workers,
        "last": config({"a": "${base.data.a}"}, dependsOn=["names"]),
        **others,
    }
    return Definition(
        template={"parameters": {"zones": {"type": "array"}}, "resources": resources}, parameters={"zones": zones}
    )


NEW = {"name": "new", "size": 1}


@pytest.mark.parametrize(
    ("zones", "compiled"),
    [
        pytest.param([*make_zones(), NEW], 16, id="one more"),
        pytest.param([*make_zones(), *({**NEW, "name": f"new-{at}"} for at in range(40))], 48, id="many more"),
        pytest.param(make_zones(SIZE - 1), 16, id="one less"),
        pytest.param([*make_zones()[:-1], NEW], 16, id="another name"),
        pytest.param([make_zones()[1], make_zones()[0], *make_zones()[2:]], 16, id="another order"),
        pytest.param([NEW, *make_zones()[1:], {**NEW, "name": "zone-0"}], 32, id="moved to the end"),
    ],
)
def test_members_that_come_or_go_are_compiled_alone(zones: list[Any], compiled: int) -> None:
    """All others are the same, except for their places and dependents."""
    first = compile_changed(make_definition(make_zones()), None)
    definition = make_definition(zones)
    made = compile_only_changes(definition, first)
    assert made is not None
    assert_equal(made, compile_all(definition))
    others = [
        name
        for name, each in made.resources.items()
        if name.startswith("workers") and each.manifest is not getattr(first.resources.get(name), "manifest", None)
    ]
    assert len(others) <= compiled


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"after": config({"a": "${string(workers.size())}"})}, id="another resource reads all members"),
        pytest.param({"after": config({}, dependsOn=["workers"])}, id="another resource requires all members"),
        pytest.param(
            {"after": config({}, dependsOn=[f"workers[zone-{SIZE - 1}]"])}, id="it requires the one that goes"
        ),
    ],
)
def test_members_that_others_depend_on_are_compiled_from_nothing(others: Any) -> None:
    """A reference may then be wrong, or the limit of reads exceeded."""
    first = compile_changed(make_definition(make_zones(), **others), None)
    assert compile_only_changes(make_definition(make_zones(SIZE - 1), **others), first) is None
    changed = [{**make_zones()[0], "size": -1}, *make_zones()[1:]]
    assert compile_only_changes(make_definition(changed, **others), first) is not None


@pytest.mark.parametrize(
    ("others", "is_taken"),
    [
        pytest.param({"other": config({}, name="shop-workers-new")}, True, id="as the member is named"),
        pytest.param({"other": config({"name": "shop-workers-new"})}, False, id="the text is no name"),
        pytest.param({"workersNew": config({})}, True, id="as another resource is named"),
        pytest.param({"other": config({}, name="shop-workers-old")}, False, id="another name"),
    ],
)
def test_a_new_member_may_not_name_the_object_of_another_resource(others: Any, is_taken: bool) -> None:
    """The compilation from nothing reports that it does."""
    first = compile_changed(make_definition(make_zones(), **others), None)
    found = compile_only_changes(make_definition([*make_zones(), NEW], **others), first)
    assert (found is None) is is_taken


def make_group(size: GroupSize, *, surge: int = 0, name: str | None = None, rolling: Any = None) -> Definition:
    """A group in the form of a Stack."""
    member = config({"at": "${string(index)}", "text": "${params.text}"}, name=name)
    spec = {"template": member, "parameters": {"text": "a"}, "rollingUpdate": rolling}
    made = resource_group.make_spec({key: value for key, value in spec.items() if value is not None})
    return Definition(template=made["template"], parameters=made["parameters"], size=size, surge=surge)


@pytest.mark.parametrize(
    "name", [pytest.param(None, id="named by us"), pytest.param("web-${index}", id="named by the user")]
)
@pytest.mark.parametrize("seed", range(2))
def test_a_resized_group_is_compiled_as_from_nothing(seed: int, name: str | None) -> None:
    """For all sizes, removed indices and rolling updates."""
    chance = random.Random(seed)
    rolling = chance.choice([None, {"maxBatchSize": "10%", "minInService": 3}])
    size, surge = GroupSize(replicas=SIZE), 0
    previous = compile_changed(make_group(size, name=name, rolling=rolling), None)
    for _ in range(4):
        removed = tuple(sorted({*size.removed, *chance.sample(range(SIZE), chance.randrange(2))}))
        size = GroupSize(replicas=max(SIZE, size.replicas + chance.randrange(-9, 20)), removed=removed)
        surge = chance.choice([0, 0, 3])
        definition = make_group(size, surge=surge, name=name, rolling=rolling)
        made = compile_only_changes(definition, previous)
        assert made is not None
        assert_equal(made, compile_all(definition))
        previous = made


def test_a_group_with_another_template_is_compiled_from_nothing() -> None:
    """Although its size changed too."""
    first = compile_changed(make_group(GroupSize(replicas=SIZE)), None)
    other = dataclasses.replace(make_group(GroupSize(replicas=SIZE + 1)), parameters={"text": "b"})
    assert compile_only_changes(other, first) is None


def test_two_members_with_one_name_are_no_result() -> None:
    """A name that does not depend on the index is refused by the compilation from nothing."""
    first = compile_changed(make_definition(make_zones()), None)
    twin = [*make_zones(), {"name": "zone-3", "size": 1}]
    assert compile_only_changes(make_definition(twin), first) is None
