"""A compilation with the previous blueprint has the same result, and shares every resource that did not change."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from hearth.model import chunked_work
from hearth.model.errors import InvalidDefinition
from hearth.model.members import GroupSize
from hearth.template import resource_group
from hearth.template.blueprint import Blueprint, Definition, Origin
from hearth.template.compiler import compiler
from support.units import blueprints

KINDS = blueprints.ServedKinds(blueprints.CONFIG_MAP)
SIZE = 20


def config(data: Any, **words: Any) -> Any:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}, **words}


TEMPLATE: dict[str, Any] = {
    "parameters": {
        "zones": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        "greeting": {"default": "hello"},
        "isLoud": {"type": "boolean", "default": False},
    },
    "conditions": {"loud": "params.isLoud"},
    "resources": {
        "base": config({"a": "${string(params.greeting)}"}),
        "workers": config(
            {"size": "${string(item.size)}", "at": "${index}", "base": "${base.data.a + string(item.share)}"},
            forEach="params.zones",
            key="item.name",
            readyWhen=["workers.data.size == string(item.size)"],
        ),
        "all": config({"sizes": "${workers.map(each, each.data.size).join()}"}, when="conditions.loud"),
    },
    "outputs": {"greeting": {"value": "${params.greeting}"}},
}


def make_zones(count: int = SIZE) -> list[Any]:
    return [{"name": f"zone-{number}", "size": number, "share": number / 2} for number in range(count)]


def compile_parameters(parameters: Any, template: Any = TEMPLATE, *, previous: Blueprint | None = None) -> Blueprint:
    """The blueprint. Nothing of the definition is the same object as before, as if it came from the API server."""
    template, parameters = orjson.loads(orjson.dumps([template, parameters]))
    return compile_it(Definition(template=template, parameters=parameters), previous)


def compile_it(definition: Definition, previous: Blueprint | None = None) -> Blueprint:
    pieces = compiler.compile_in_pieces(definition, stack=blueprints.STACK, kinds=KINDS, previous=previous)
    return chunked_work.finish(pieces)


def find_result(work: Callable[[], Blueprint]) -> Any:
    """A blueprint with the order of its resources, or the mistakes."""
    try:
        compiled = work()
    except InvalidDefinition as error:
        return [(each.path, each.message) for each in error.mistakes]
    return compiled, list(compiled.resources), list(compiled.collections), list(compiled.outputs)


def find_changed(before: Blueprint, after: Blueprint) -> list[str]:
    """The resources that are new or differ."""
    return [
        name
        for name, resource in after.resources.items()
        if name not in before.resources or before.resources[name].content is not resource.content
    ]


EDITS: dict[str, Callable[[random.Random, Any, Any, int], Any]] = {
    "size": lambda chance, _, all_, at: all_["zones"][at].update(size=chance.randrange(99)),
    "share": lambda chance, _, all_, at: all_["zones"][at].update(share=chance.choice([1, 1.0, True, 2.5])),
    "twin": lambda _, __, all_, at: all_["zones"][at].update(name=all_["zones"][0]["name"]),
    "bad": lambda chance, _, all_, at: all_["zones"].__setitem__(at, chance.choice([{"name": "Bad Name"}, {}, 7])),
    "new": lambda chance, _, all_, at: all_["zones"].insert(
        at, {"name": f"new-{chance.randrange(9999)}", "size": 1, "share": 1}
    ),
    "gone": lambda _, __, all_, at: all_["zones"].pop(at),
    "moved": lambda _, __, all_, at: all_["zones"].append(all_["zones"].pop(at)),
    "template": lambda chance, template, _, __: template["resources"]["workers"]["manifest"]["data"].update(
        new=f"${{item.size + {chance.randrange(9)}}} new"
    ),
    "greeting": lambda chance, _, all_, __: all_.update(greeting=chance.choice(["hello", 1, True])),
    "loud": lambda chance, _, all_, __: all_.update(isLoud=chance.choice([True, False])),
}
"""Changes of template and parameters, valid or not; the number is a position in the list."""


@pytest.mark.parametrize("seed", range(8))
def test_the_blueprint_is_that_of_a_compilation_from_nothing(seed: int) -> None:
    chance = random.Random(seed)
    template, parameters = copy.deepcopy(TEMPLATE), {"zones": make_zones()}
    previous = compile_parameters(parameters, template)
    for _ in range(6):
        other_template, others = copy.deepcopy((template, parameters))
        for _ in range(chance.choice([1, 1, 3])):
            EDITS[chance.choice(list(EDITS))](chance, other_template, others, chance.randrange(len(others["zones"])))
        found = find_result(lambda: compile_parameters(others, other_template, previous=previous))  # noqa: B023 -- called at once
        assert found == find_result(lambda: compile_parameters(others, other_template))  # noqa: B023 -- called at once
        if not isinstance(found, list):
            template, parameters, previous = other_template, others, found[0]


NEW = {"name": "new", "size": 1, "share": 1}


@pytest.mark.parametrize(
    ("zones", "changed"),
    [
        pytest.param(make_zones(), [], id="nothing"),
        pytest.param([*make_zones()[:-1], {**make_zones()[-1], "size": 99}], [f"zone-{SIZE - 1}"], id="an element"),
        pytest.param([*make_zones(), NEW], ["new"], id="one more"),
        pytest.param(make_zones(SIZE - 1), [], id="one less"),
        pytest.param([*make_zones(2)[::-1], *make_zones()[2:]], ["zone-1", "zone-0"], id="another position"),
    ],
)
def test_only_changed_members_differ(zones: list[Any], changed: list[str]) -> None:
    first = compile_parameters({"zones": make_zones()})
    after = compile_parameters({"zones": zones}, previous=first)
    assert find_changed(first, after) == [f"workers[{name}]" for name in changed]
    assert list(after.resources) == ["base", *(f"workers[{zone['name']}]" for zone in zones)]


def test_members_that_move_are_shared_if_they_do_not_read_their_position() -> None:
    template = copy.deepcopy(TEMPLATE)
    del template["resources"]["workers"]["manifest"]["data"]["at"]
    first = compile_parameters({"zones": make_zones()}, template)
    after = compile_parameters({"zones": [NEW, *make_zones()]}, template, previous=first)
    assert find_changed(first, after) == ["workers[new]"]
    assert after == compile_parameters({"zones": [NEW, *make_zones()]}, template)


def test_a_grown_group_shares_the_members_that_it_had() -> None:
    spec = resource_group.make_spec({"template": config({"at": "${string(index)}"}), "parameters": {}})
    small, large = (
        Definition(template=spec["template"], parameters=spec["parameters"], size=GroupSize(replicas=size))
        for size in (SIZE, SIZE + 1)
    )
    first = compile_it(small)
    after = compile_it(large, first)
    assert after == compile_it(large)
    assert len(find_changed(first, after)) == 1


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0, False)], ids=repr)
def test_values_of_another_type_are_a_change(before: Any, after: Any) -> None:
    """They are equal in Python, and expressions tell them apart."""
    template = {
        "parameters": {"value": {}},
        "resources": {"base": config({}), "reader": config({"a": "${base.metadata.name + string(params.value)}"})},
    }
    first = compile_parameters({"value": before}, template)
    assert find_changed(first, compile_parameters({"value": before}, template, previous=first)) == []
    assert find_changed(first, compile_parameters({"value": after}, template, previous=first)) == ["reader"]


def test_a_changed_sensitive_element_is_hidden() -> None:
    template: Any = {
        "parameters": {"tokens": {"type": "array"}},
        "resources": {"secret": config({"token": "${item.token}"}, forEach="params.tokens", key="string(index)")},
    }
    origins = {"tokens": Origin(kind="Secret", name="tokens", key="tokens", place="spec.parametersFrom[0]")}
    first, after = (
        Definition(template=template, parameters={"tokens": [{"token": token}]}, origins=origins)
        for token in ("a-long-token", "another-token")
    )
    compiled = compile_it(after, compile_it(first))
    assert compiled.sensitive_texts == compile_it(after).sensitive_texts
    assert "another-token" in compiled.sensitive_texts
    assert "a-long-token" not in compiled.sensitive_texts


def test_expressions_keep_only_the_latest_values() -> None:
    template = {
        "parameters": {"list": {}, "names": {}},
        "resources": {
            "base": config({}),
            "readers": config(
                {"a": "${base.metadata.name + string(params.list.size()) + item}"}, forEach="params.names"
            ),
        },
    }
    values, names = [{"a": "b"}] * 20_000, ["a", "b", "c", "d"]
    compiled: Blueprint | None = None
    for position in range(3):
        names[position] = "new"
        compiled = compile_parameters({"list": values, "names": names}, template, previous=compiled)
    assert compiled is not None
    expressions = [part for each in compiled.resources.values() for slot in each.manifest.slots for part in slot.parts]  # type: ignore[attr-defined]  # the compiler makes no other
    assert len(expressions) == 4
    assert len({id(each.constants["params"]["list"]) for each in expressions}) == 1


def test_resources_that_may_contain_large_values_are_compared_one_by_one() -> None:
    template = {
        "parameters": {"list": {}},
        "resources": {
            "base": config({}),
            "readers": config({"a": "${base.metadata.name + string(params.list.size())}"}, forEach="['a', 'b', 'c']"),
        },
    }
    first, after = (compile_parameters({"list": [{"a": 1}] * 1_000}, template) for _ in range(2))
    assert len(list(compiler.share(after.resources, first))) == 4
