"""When few elements of a definition change, only these are compiled, with the same result as a full compilation."""

from __future__ import annotations

import copy
import dataclasses
import random
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from hearth.model import chunked_work
from hearth.model.errors import InvalidDefinition
from hearth.model.members import GroupSize
from hearth.template import resource_group
from hearth.template.blueprint import Blueprint, Definition, Origin, StackIdentity
from hearth.template.compiler import changed_members, compiler, outlines
from hearth.template.compiler.changed_members import Inputs
from support.units import blueprints

KINDS = blueprints.ServedKinds(blueprints.CONFIG_MAP, blueprints.GADGET)
PLACE = "1 home"
SIZE = outlines.LONG + 8


def config(data: Any, name: str | None = None, **words: Any) -> Any:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
    return {"manifest": manifest if name is None else {**manifest, "metadata": {"name": name}}, **words}


ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "size": {"type": "integer"},
        "share": {"type": "number"},
        "note": {"type": ["string", "null"]},
    },
}
TEMPLATE: dict[str, Any] = {
    "parameters": {
        "zones": {"type": "array", "items": ITEM, "maxItems": SIZE + 20},
        "names": {"type": "array", "items": {"type": "string"}, "default": []},
        "greeting": {"type": "string", "default": "hello"},
        "isLoud": {"type": "boolean", "default": False},
    },
    "conditions": {"loud": "params.isLoud"},
    "resources": {
        "base": config({"a": "${params.greeting}"}),
        "workers": config(
            {
                "size": "${string(item.size)}",
                "share": "${string(item.share)}",
                "at": "${index} ${key}",
                "base": "${base.data.a}",
                "note": "${item.?note} of ${base.data.a} in ${stack.name}",
                "greeting": "${params.greeting}",
            },
            forEach="params.zones",
            key="item.name",
            readyWhen=["workers.data.size == string(item.size)"],
        ),
        "also": config({"name": "${item}"}, forEach="params.names", key="item"),
        "all": config({"sizes": "${workers.map(each, each.data.size).join()}"}, when="conditions.loud"),
        "last": config({"a": "1"}, dependsOn=["also"]),
    },
    "outputs": {"greeting": {"value": "${params.greeting}"}},
}


def make_zones(count: int = SIZE) -> list[Any]:
    """Elements of some forty bytes."""
    return [{"name": f"zone-{number}", "size": number, "share": number / 2} for number in range(count)]


def make_definition(template: Any, parameters: Any, **words: Any) -> Definition:
    """A definition as it comes from the API server: nothing in it is the same object as before."""
    return orjson_copy(Definition(template=template, parameters=parameters, **words))


def orjson_copy(definition: Definition) -> Definition:
    """The same definition in other objects."""
    template, parameters = orjson.loads(orjson.dumps([definition.template, definition.parameters]))
    return dataclasses.replace(definition, template=template, parameters=parameters)


def make_inputs(
    definition: Definition,
    *,
    stack: StackIdentity = blueprints.STACK,
    place: str = PLACE,
    previous: Blueprint | None = None,
) -> Inputs:
    """The inputs of the compiler. The outline is the same with and without a previous blueprint."""
    outline = chunked_work.finish(outlines.make(definition, stack=stack, place=place, previous=previous))
    assert outline == chunked_work.finish(outlines.make(definition, stack=stack, place=place))
    return Inputs(stack=stack, kinds=KINDS, outline=outline)


def compile_changed(definition: Definition, previous: Blueprint | None) -> Blueprint:
    """Compile with the previous blueprint."""
    return chunked_work.finish(
        changed_members.compile_in_pieces(definition, make_inputs(definition, previous=previous), previous=previous)
    )


def compile_only_changes(definition: Definition, previous: Blueprint, **others: Any) -> Blueprint | None:
    """The blueprint if it can be made from the difference; None if all must be compiled."""
    inputs = make_inputs(definition, previous=previous, **others)
    assert inputs.outline is not None
    return chunked_work.finish(changed_members.compile_changes(definition, inputs.outline, inputs, previous=previous))


def compile_all(definition: Definition) -> Blueprint:
    return compiler.compile_template(definition, stack=blueprints.STACK, kinds=KINDS)


def find_result(work: Callable[[], Blueprint]) -> Any:
    """A blueprint with the order of its resources, or the mistakes."""
    try:
        made = work()
    except InvalidDefinition as error:
        return [(each.path, each.message) for each in error.mistakes]
    return made, list(made.resources), list(made.collections), list(made.outputs)


def find_others(before: Blueprint, after: Blueprint) -> list[str]:
    """The resources that are other objects."""
    return [name for name, resource in after.resources.items() if resource is not before.resources.get(name)]


OTHER_RULES = (
    {"type": "array"},
    TEMPLATE["parameters"]["zones"],
    {"type": "array", "items": ITEM, "minItems": SIZE + 1},
)
NOT_ALLOWED: tuple[Any, ...] = ({"name": "Bad Name"}, {}, {"name": "x", "size": "1"}, 7, {"name": "n" * 30})
EDITS: dict[str, Callable[[random.Random, Any, Any, int], Any]] = {
    "size": lambda chance, _, all_, at: all_["zones"][at].update(size=chance.randrange(99)),
    "share": lambda chance, _, all_, at: all_["zones"][at].update(share=chance.choice([1, 1.0, 2.5, 1e3])),
    "note": lambda chance, _, all_, at: all_["zones"][at].update(note=chance.choice([None, "a note"])),
    "name": lambda chance, _, all_, at: all_["zones"][at].update(name=f"other-{chance.randrange(99)}"),
    "twin": lambda _, __, all_, at: all_["zones"][at].update(name=all_["zones"][0]["name"]),
    "bad": lambda chance, _, all_, at: all_["zones"].__setitem__(at, chance.choice(NOT_ALLOWED)),
    "new": lambda chance, _, all_, at: all_["zones"].insert(
        chance.choice([at, SIZE * 2]), {"name": f"new-{chance.randrange(9999)}", "size": 1, "share": 1}
    ),
    "gone": lambda chance, _, all_, at: all_["zones"].pop(chance.choice([at, -1])),
    "moved": lambda _, __, all_, at: all_["zones"].append(all_["zones"].pop(at)),
    "template": lambda chance, template, _, __: template["resources"]["workers"]["manifest"]["data"].update(
        new=f"${{item.size + {chance.randrange(9)}}} new"
    ),
    "rules": lambda chance, template, _, __: template["parameters"].update(zones=chance.choice(OTHER_RULES)),
    "greeting": lambda chance, _, all_, __: all_.update(greeting=chance.choice(["hello", "hi"])),
    "loud": lambda chance, _, all_, __: all_.update(isLoud=chance.choice([True, False])),
    "names": lambda chance, _, all_, __: all_.update(names=chance.sample(["a", "b", "c"], chance.randrange(3))),
}
"""Changes of template and parameters, sensible or not; the number is a position in the list."""


def edit(chance: random.Random, template: Any, parameters: Any) -> None:
    """One random change; every other one of an element."""
    name = chance.choice([*EDITS, *["size", "share", "note"] * 4])
    EDITS[name](chance, template, parameters, chance.randrange(len(parameters["zones"])))


@pytest.mark.parametrize("seed", range(4))
def test_the_blueprint_is_that_of_a_compilation_from_nothing(seed: int) -> None:
    chance = random.Random(seed)
    template, parameters = copy.deepcopy(TEMPLATE), {"zones": make_zones()}
    previous = compile_changed(make_definition(template, parameters), None)
    for _ in range(6):
        edited = copy.deepcopy((template, parameters))
        for _ in range(chance.choice([1, 1, 1, 3])):
            edit(chance, *edited)
        definition = make_definition(*edited)
        found = find_result(lambda: compile_changed(definition, previous))  # noqa: B023 -- called at once
        wanted = find_result(
            lambda: compile_all(orjson_copy(definition))  # noqa: B023
        )
        assert found == wanted
        if not isinstance(found, list):
            (template, parameters), previous = edited, found[0]


def change_size(zones: list[Any]) -> None:
    zones[77]["size"] = 9_999


@pytest.mark.parametrize(
    ("change", "names"),
    [
        pytest.param(change_size, ["workers[zone-77]"], id="an element"),
        pytest.param(lambda zones: zones[0].update(note="new"), ["workers[zone-0]"], id="a field that was not there"),
        pytest.param(
            lambda zones: [zones[at].update(size=1) for at in (3, SIZE - 1)],
            ["workers[zone-3]", f"workers[zone-{SIZE - 1}]"],
            id="two elements",
        ),
    ],
)
def test_only_members_of_changed_elements_are_compiled(change: Callable[[Any], Any], names: list[str]) -> None:
    zones = make_zones()
    for each in zones:
        each["note"] = None
    zones[0].pop("note")
    zones[0]["note"] = "old"
    first = compile_changed(make_definition(TEMPLATE, {"zones": zones}), None)
    change(zones)
    definition = make_definition(TEMPLATE, {"zones": zones})
    made = compile_only_changes(definition, first)
    assert made is not None
    assert find_others(first, made) == names
    assert made == compile_all(definition)


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"place": "2 home"}, id="another generation of kinds"),
        pytest.param({"stack": StackIdentity(name="shop", namespace="other", uid="stack-1")}, id="another namespace"),
        pytest.param({"stack": StackIdentity(name="shop", namespace="default", uid="stack-2")}, id="another Stack"),
    ],
)
def test_nothing_is_reused_for_another_stack_or_other_kinds(others: Any) -> None:
    zones = make_zones()
    first = compile_changed(make_definition(TEMPLATE, {"zones": zones}), None)
    change_size(zones)
    definition = make_definition(TEMPLATE, {"zones": zones})
    assert compile_only_changes(definition, first) is not None
    assert compile_only_changes(definition, first, **others) is None


def with_part(template: Any, *keys: str, value: Any) -> Any:
    """The template with another part."""
    copied = copy.deepcopy(template)
    place = copied
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return copied


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(
            with_part(TEMPLATE, "outputs", "count", value={"value": "${size(params.zones)}"}),
            id="an output reads the list",
        ),
        pytest.param(
            with_part(TEMPLATE, "resources", "base", "manifest", "data", "a", value="${params.zones[0].name}"),
            id="another resource reads an element",
        ),
        pytest.param(
            with_part(TEMPLATE, "conditions", "loud", value="params.zones.size() > 1"), id="a condition reads the list"
        ),
        pytest.param(
            with_part(TEMPLATE, "resources", "workers", "forEach", value="params.isLoud ? [] : params.zones"),
            id="a condition chooses the members",
        ),
        pytest.param(
            with_part(TEMPLATE, "resources", "workers", "manifest", "data", "first", value="${params.zones[0].name}"),
            id="every member reads one element",
        ),
        pytest.param(with_part(TEMPLATE, "parameters", "zones", "sensitive", value=True), id="the list is sensitive"),
        pytest.param(
            with_part(TEMPLATE, "parameters", "greeting", value={"sensitive": True}), id="something is sensitive"
        ),
    ],
)
def test_what_more_than_a_member_depends_on_is_compiled_from_nothing(template: Any) -> None:
    parameters: dict[str, Any] = {"zones": make_zones(), "greeting": "a long greeting"}
    if "sensitive" in template["parameters"]["zones"]:
        template["resources"]["workers"]["key"] = "string(index)"
    template["resources"]["workers"]["manifest"]["data"].pop("note")
    first = compile_changed(make_definition(template, parameters), None)
    change_size(parameters["zones"])
    definition = make_definition(template, parameters)
    assert compile_only_changes(definition, first) is None
    made = compile_changed(definition, first)
    assert made == compile_all(definition)


def test_a_changed_sensitive_element_is_hidden() -> None:
    template: Any = {
        "parameters": {"tokens": {"type": "array"}},
        "resources": {"secret": config({"token": "${item.token}"}, forEach="params.tokens", key="item.name")},
    }
    template["resources"]["secret"]["key"] = "string(index)"
    origin = {"tokens": Origin(kind="Secret", name="tokens", key="tokens", place="spec.parametersFrom[0]")}
    tokens = [{"token": f"a-long-token-number-{number}"} for number in range(SIZE)]
    first = compile_changed(make_definition(template, {"tokens": tokens}, origins=origin), None)
    assert "a-long-token-number-7" in first.sensitive_texts
    tokens[7]["token"] = "another-token"
    made = compile_changed(make_definition(template, {"tokens": tokens}, origins=origin), first)
    assert "another-token" in made.sensitive_texts
    assert "a-long-token-number-7" not in made.sensitive_texts


def test_a_blueprint_with_other_resources_is_no_base() -> None:
    zones = make_zones()
    first = compile_changed(make_definition(TEMPLATE, {"zones": zones}), None)
    change_size(zones)
    definition = make_definition(TEMPLATE, {"zones": zones})
    assert compile_only_changes(definition, first) is not None
    assert compile_only_changes(definition, dataclasses.replace(first, resources=dict(first.resources))) is None


def test_rules_that_would_take_too_long_from_nothing_are_not_avoided_by_many_changes() -> None:
    zones = make_zones()
    first = compile_changed(make_definition(TEMPLATE, {"zones": zones}), None)
    origin = first.compiled_from
    assert origin is not None
    tight = dataclasses.replace(first, compiled_from=dataclasses.replace(origin, steps_left=10))
    change_size(zones)
    definition = make_definition(TEMPLATE, {"zones": zones})
    made = compile_only_changes(definition, first)
    assert made is not None
    assert made.compiled_from is not None
    assert made.compiled_from.steps_left < origin.steps_left
    assert compile_only_changes(definition, tight) is None


def test_a_small_definition_keeps_no_outline() -> None:
    made = compile_changed(make_definition(TEMPLATE, {"zones": make_zones(20)}), None)
    assert made.compiled_from is None


def test_one_changed_element_of_5000_costs_a_fraction() -> None:
    zones = make_zones(5_000)
    template = with_part(TEMPLATE, "parameters", "zones", "maxItems", value=5_000)
    begun = time.thread_time()
    first = compile_changed(make_definition(template, {"zones": zones}), None)
    whole = time.thread_time() - begun
    change_size(zones)
    definition = make_definition(template, {"zones": zones})
    begun = time.thread_time()
    made = compile_changed(definition, first)
    assert time.thread_time() - begun < whole / 10
    assert find_others(first, made) == ["workers[zone-77]"]


def test_a_changed_element_that_gives_a_position_beyond_the_last_is_found() -> None:
    pair = config({"x": "${also[item.size].data.name}"}, forEach="params.zones", key="item.name")
    template = {**TEMPLATE, "resources": {"also": TEMPLATE["resources"]["also"], "pair": pair}}
    zones = [{**zone, "size": 0} for zone in make_zones()]
    before = compile_changed(make_definition(template, {"zones": zones, "names": ["a", "b"]}), None)
    zones[3]["size"] = 2
    changed = make_definition(template, {"zones": zones, "names": ["a", "b"]})
    assert compile_only_changes(changed, before) is None
    with pytest.raises(InvalidDefinition, match="position 2: 'also' has 2 members"):
        compile_changed(changed, before)


# ---------------------------------------------------------------- members that come and go


def assert_equal(found: Blueprint, wanted: Blueprint) -> None:
    """The same resources in the same order, and all else."""
    assert found == wanted
    assert list(found.resources) == list(wanted.resources)
    assert [each.index for each in found.resources.values()] == [each.index for each in wanted.resources.values()]


def make_surrounded(zones: list[Any], **others: Any) -> Definition:
    """A collection between its requirement and a resource that requires it."""
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
    first = compile_changed(make_surrounded(make_zones()), None)
    definition = make_surrounded(zones)
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
    first = compile_changed(make_surrounded(make_zones(), **others), None)
    assert compile_only_changes(make_surrounded(make_zones(SIZE - 1), **others), first) is None
    changed = [{**make_zones()[0], "size": -1}, *make_zones()[1:]]
    assert compile_only_changes(make_surrounded(changed, **others), first) is not None


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
    first = compile_changed(make_surrounded(make_zones(), **others), None)
    found = compile_only_changes(make_surrounded([*make_zones(), NEW], **others), first)
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
    first = compile_changed(make_group(GroupSize(replicas=SIZE)), None)
    other = dataclasses.replace(make_group(GroupSize(replicas=SIZE + 1)), parameters={"text": "b"})
    assert compile_only_changes(other, first) is None


def test_two_members_with_one_name_are_no_result() -> None:
    first = compile_changed(make_surrounded(make_zones()), None)
    twin = [*make_zones(), {"name": "zone-3", "size": 1}]
    assert compile_only_changes(make_surrounded(twin), first) is None
