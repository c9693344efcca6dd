"""A planner that continues with a changed blueprint decides like a new planner, but only looks at the changes."""

from __future__ import annotations

import copy
import random
import time
from typing import Any

import pytest

from hearth.model import chunked_work
from hearth.plan.environment import environment_rules
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.state.steps import Apply, CreatePart, DeletePart
from hearth.template.blueprint import Blueprint, Definition
from hearth.template.compiler import compiler
from support.units import blueprints, changed_children
from support.units.blueprints import World

KINDS = blueprints.ServedKinds(blueprints.CONFIG_MAP)
PARAMETERS = {"zones": {"type": "array"}, "names": {"type": "array", "default": []}}


def config(data: Any, **words: Any) -> Any:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}, **words}


RESOURCES: dict[str, Any] = {
    "base": config({"a": "1"}),
    "workers": config(
        {"size": "${string(item.size)}", "base": "${base.data.a}"}, forEach="params.zones", key="item.name"
    ),
    "all": config({"sizes": "${workers.map(each, each.data.size).join()}"}),
    "last": config({"a": "1"}, dependsOn=["workers", "all"]),
    "other": config({"a": "${all.data.sizes}"}),
}
ZONES = [{"name": f"z{number}", "size": number} for number in range(5)]


def compile_it(resources: Any, zones: Any, previous: Blueprint | None = None) -> Blueprint:
    """The blueprint, which shares unchanged parts with the previous one."""
    definition = Definition(template={"parameters": PARAMETERS, "resources": resources}, parameters={"zones": zones})
    pieces = compiler.compile_in_pieces(definition, stack=blueprints.STACK, kinds=KINDS, previous=previous)
    return chunked_work.finish(pieces)


def change(chance: random.Random) -> tuple[Any, Any]:
    """Resources and zones with one or two changed values."""
    resources, zones = copy.deepcopy(RESOURCES), copy.deepcopy(ZONES)
    for _ in range(chance.randrange(1, 3)):
        name = chance.choice(["base", "zone", "zone", "last", "all", "other"])
        if name == "zone":
            chance.choice(zones)["size"] = chance.randrange(100)
        else:
            resources[name]["manifest"]["data"]["b"] = str(chance.randrange(100))
    return resources, zones


@pytest.mark.parametrize("seed", range(20))
def test_it_decides_what_a_new_planner_would(seed: int) -> None:
    first = compile_it(RESOURCES, ZONES)
    world, planner = blueprints.settle(first)
    blueprint = compile_it(*change(random.Random(seed)), previous=first)
    changed = [name for name, resource in blueprint.resources.items() if resource is not first.resources[name]]
    assert planner.update_blueprint(blueprint) is bool(changed)
    if not changed:
        return
    assert not planner.is_complete
    fresh = blueprints.make_planner(blueprint)
    for _ in range(20):
        planned = world.refresh(planner)
        world.refresh(fresh)
        assert planner.ready_steps.keys() == fresh.ready_steps.keys()
        assert {name: status.state for name, status in planner.statuses.items()} == {
            name: status.state for name, status in fresh.statuses.items()
        }
        steps = [planner.take_step(key) for key in planned]
        for key in planned:
            fresh.take_step(key)
        for step in steps:
            world.carry_out(step)  # type: ignore[arg-type]  # nothing is deleted here
        if not planned:
            break
    for each in (planner, fresh):
        assert each.is_complete


FREE = {name: each for name, each in RESOURCES.items() if name in ("base", "workers")} | {
    "others": config({"b": "${base.data.a}"}, forEach="params.names", key="item"),
    "end": config({"b": "${base.data.a}"}, dependsOn=["others"]),
}
"""Nothing depends on the list of members of `workers`."""


def resize(chance: random.Random) -> Any:
    """Zones: some are new, deleted, moved or changed."""
    zones = copy.deepcopy(ZONES)
    for _ in range(chance.randrange(1, 3)):
        match chance.choice(["new", "gone", "moved", "changed"]):
            case "new":
                new = {"name": f"new{chance.randrange(1_000_000)}", "size": 1}
                zones.insert(chance.choice([0, len(zones)]), new)
            case "gone":
                zones.pop(chance.choice([0, -1]))
            case "moved":
                zones.append(zones.pop(0))
            case "changed":
                chance.choice(zones)["size"] = chance.randrange(100, 999)
    return zones


@pytest.mark.parametrize("seed", range(30))
def test_it_continues_with_other_members(seed: int) -> None:
    chance = random.Random(seed)
    first = compile_it(FREE, ZONES)
    world, planner = blueprints.settle(first)
    blueprint = compile_it(FREE, resize(chance), first)
    if not planner.update_blueprint(blueprint):
        before, after = ({name: each.manifest for name, each in some.resources.items()} for some in (first, blueprint))
        others = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        assert not others or len(others) > len(first.resources) / 2
        return
    assert not planner.is_ready
    assert not planner.is_complete
    fresh = blueprints.make_planner(blueprint)
    for _ in range(20):
        world.refresh(planner)
        world.refresh(fresh)
        assert planner.ready_steps.keys() == fresh.ready_steps.keys()
        assert {name: status.state for name, status in planner.statuses.items()} == {
            name: status.state for name, status in fresh.statuses.items()
        }
        assert {key: set(some) for key, some in planner.by_state.items()} == {
            key: set(some) for key, some in fresh.by_state.items()
        }
        steps = [planner.take_step(key) for key in list(planner.ready_steps)]
        for key in list(fresh.ready_steps):
            fresh.take_step(key)
        for step in steps:
            if isinstance(step, Apply):
                world.carry_out(step)
            elif step is not None and not isinstance(step, CreatePart | DeletePart):
                world.children = {
                    name: [each for each in some if each.uid != step.child.uid] for name, some in world.children.items()
                }
        if not steps:
            break
    for each in (planner, fresh):
        assert each.is_complete


@pytest.mark.parametrize(
    "zones",
    [
        pytest.param(ZONES, id="nothing changed"),
        pytest.param(ZONES[1:], id="a member is gone"),
        pytest.param([*ZONES, {"name": "new", "size": 1}], id="a member is new"),
        pytest.param(ZONES[::-1], id="another order"),
    ],
)
def test_with_members_that_others_read_another_planner_is_needed(zones: Any) -> None:
    first = compile_it(RESOURCES, ZONES)
    _, planner = blueprints.settle(first)
    assert not planner.update_blueprint(compile_it(RESOURCES, zones, first))
    assert planner.blueprint is first


@pytest.mark.parametrize("resources", [{"base": RESOURCES["base"]}, {**FREE, "new": config({})}], ids=["gone", "new"])
def test_with_other_resources_another_planner_is_needed(resources: Any) -> None:
    first = compile_it(FREE, ZONES)
    _, planner = blueprints.settle(first)
    resources = {**resources, "base": config({"a": "2"})}
    assert not planner.update_blueprint(compile_it(resources, [*ZONES, {"name": "new", "size": 1}], first))


def test_members_that_only_move_are_not_planned_again() -> None:
    first = compile_it(FREE, ZONES)
    world, planner = blueprints.settle(first)
    before = dict(planner.statuses)
    assert planner.update_blueprint(compile_it(FREE, [{"name": "new", "size": 1}, *ZONES], first))
    result = world.plan(planner)
    assert result.planned == ["workers[new]"]
    assert [name for name, status in planner.statuses.items() if before.get(name) is not status] == ["workers[new]"]


def test_the_first_member_of_a_collection_needs_another_planner() -> None:
    """The kind of the member might not be watched yet."""
    resources = {"base": RESOURCES["base"], "workers": FREE["workers"], "end": config({"a": "1"})}
    first = compile_it(resources, [])
    _, planner = blueprints.settle(first)
    assert not planner.update_blueprint(compile_it(resources, ZONES[:1], first))


def test_members_that_rules_may_name_need_another_planner() -> None:
    first = compile_it(FREE, ZONES)
    world, planner = blueprints.settle(first)
    rules = environment_rules.parse({"breakpoints": [{"resource": "workers[new]", "at": ["PreCreate"]}]})
    world.refresh(planner, environment=ActiveEnvironment(rules=rules))
    assert not planner.update_blueprint(compile_it(FREE, [*ZONES, {"name": "new", "size": 1}], first))
    assert planner.update_blueprint(compile_it(FREE, [{**ZONES[0], "size": 9}, *ZONES[1:]], first))


def test_while_anything_is_unfinished_another_planner_is_needed() -> None:
    first = compile_it(RESOURCES, ZONES)
    world, planner = World(), blueprints.make_planner(first)
    world.refresh(planner)
    changed = [{**ZONES[0], "size": 99}, *ZONES[1:]]
    assert not planner.update_blueprint(compile_it(RESOURCES, changed, first))


def test_one_changed_element_costs_the_same_however_many_there_are() -> None:
    zones = [{"name": f"z{number}", "size": number} for number in range(2_000)]
    resources = {key: each for key, each in RESOURCES.items() if key in ("base", "workers")}
    first = compile_it(resources, zones)
    world, planner = blueprints.settle(first)
    zones[77] = {"name": "z77", "size": -1}
    blueprint = compile_it(resources, zones, first)
    begun = time.thread_time()
    assert planner.update_blueprint(blueprint)
    result = world.plan(planner)
    assert result.planned == ["workers[z77]"]
    assert time.thread_time() - begun < 0.02


def test_a_value_that_all_members_read_costs_each_the_same_however_many_there_are() -> None:
    assert measure_changed_base(1_600) < 3 * measure_changed_base(200)


def measure_changed_base(count: int) -> float:
    """The CPU time per member to plan all members after a change of an object they read."""
    zones = [{"name": f"z{number}", "size": number} for number in range(count)]
    resources = {key: each for key, each in RESOURCES.items() if key in ("base", "workers")}
    world, planner = blueprints.settle(compile_it(resources, zones))
    base = planner.statuses["base"].child
    assert base is not None
    shown = {**base.fields, "data": {"a": "2"}}
    world.children["base"] = [changed_children.with_fields(base, shown, resource_version=base.resource_version + 1)]
    begun = time.thread_time()
    planned = world.refresh(planner, "base")
    assert len(planned) >= count
    return (time.thread_time() - begun) / count
