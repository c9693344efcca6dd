"""A resource with `forEach` becomes one resource for each element, and a list for all others."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.text import redaction
from hearth.template.blueprint import Blueprint, EvaluationError, Known, Pending
from support.units.templates.collection_templates import (
    RESOURCES,
    ZONES,
    compile_text,
    config,
    each_zone,
    find_mistakes,
    write,
)


def data_of(blueprint: Blueprint, name: str, **values: Any) -> Any:
    """What the data of a ConfigMap comes to."""
    outcome = blueprint.resources[name].manifest.evaluate(values)
    assert isinstance(outcome, Known), outcome
    return outcome.value["data"]


def test_a_member_has_its_element_position_and_key() -> None:
    """Each by its name, in the order of the list."""
    blueprint = compile_text(write(each_zone("{size: '${string(item.size)}', at: 'no ${index}', key: '${key}'}")))
    assert list(blueprint.resources) == ["workers[b]", "workers[a]"]
    assert data_of(blueprint, "workers[b]") == {"size": "2", "at": "no 0", "key": "b"}
    assert data_of(blueprint, "workers[a]") == {"size": "1", "at": "no 1", "key": "a"}
    assert blueprint.collections["workers"].members == ("workers[b]", "workers[a]")
    assert all(each.path == f"{RESOURCES}.workers" for each in blueprint.resources.values())


def test_members_share_no_value_of_their_own() -> None:
    """The same expression in the same place means another value for each."""
    blueprint = compile_text(write(config("{x: '${item}'}", "forEach: \"['p', 'q']\"")))
    assert [data_of(blueprint, f"workers[{at}]") for at in range(2)] == [{"x": "p"}, {"x": "q"}]


@pytest.mark.parametrize(
    ("source", "free", "expected"),
    [
        pytest.param("params.free", ["x", "y"], ["0", "1"], id="a list: the position"),
        pytest.param("params.free", {"y": 1, "x": 2}, ["x", "y"], id="a map: its keys, sorted"),
        pytest.param("params.free", [], [], id="an empty list"),
        pytest.param("'params.free.filter(each, each > 1)'", [1, 2, 3], ["0", "1"], id="an expression"),
        pytest.param("'${params.free}'", [1], ["0"], id="written with ${}"),
        pytest.param("'[stack.name]'", None, ["0"], id="the stack"),
    ],
)
def test_what_the_keys_are(source: str, free: Any, expected: list[str]) -> None:
    """Without `key`, a list's positions or a map's keys."""
    blueprint = compile_text(write(config("{}", f"forEach: {source}")), free=free)
    assert list(blueprint.resources) == [f"workers[{key}]" for key in expected]


def test_who_reads_a_collection_requires_all_of_it_at_once() -> None:
    """One edge, however many members there are; the collection comes after its members and before its readers."""
    more = "\n".join(
        [
            "  all: " + config("{n: '${workers.map(each, each.metadata.name).join()}'}"),
            "  last: " + config("{}", "dependsOn: [workers]"),
            "  every: " + config("{}", "dependsOn: ['workers[*]']"),
            "  one: " + config("{}", "dependsOn: ['workers[a]']"),
        ]
    )
    blueprint = compile_text(write(each_zone(), more))
    requires = {name: each.requires for name, each in blueprint.resources.items()}
    assert requires["all"] == requires["last"] == requires["every"] == ("workers[*]",)
    assert requires["one"] == ("workers[a]",)
    assert blueprint.resources["workers[a]"].dependents == ("one", "workers[*]")
    assert blueprint.collections["workers"].dependents == ("all", "every", "last")
    indexes = [blueprint.resources[name].index for name in ("workers[a]", "workers[b]")]
    assert max(indexes) < blueprint.collections["workers"].index < blueprint.resources["all"].index


def test_a_reader_gets_the_objects_in_the_order_of_the_list() -> None:
    """It waits while one is missing, and fails where none can be."""
    more = "  all: " + config("{n: '${workers.map(each, each.metadata.name).join()}', f: '${workers[0].data.x}'}")
    blueprint = compile_text(write(each_zone(), more))
    objects = ({"metadata": {"name": "b"}, "data": {"x": "1"}}, {"metadata": {"name": "a"}})
    assert data_of(blueprint, "all", workers=objects) == {"n": "ba", "f": "1"}
    assert isinstance(blueprint.resources["all"].manifest.evaluate({"workers": None}), Pending)
    guarded = "  all: " + config('{n: "${size(workers) > 1 ? workers[2].data.x : string(1)}"}')
    beyond = compile_text(write(each_zone(), guarded))
    assert isinstance(beyond.resources["all"].manifest.evaluate({"workers": objects}), EvaluationError)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("string(size(workers))", set(), id="their number alone"),
        pytest.param("workers.map(each, each.data.x).join()", {("data", "x")}, id="a field of each"),
        pytest.param("workers[0].metadata.name", {("metadata", "name")}, id="a field of one"),
        pytest.param(
            "string(size(workers.filter(each, each.data.x == 'y')))",
            {("apiVersion",), ("kind",), ("metadata",), ("data",), ("immutable",)},
            id="whole objects, which a filter gives",
        ),
    ],
)
def test_only_what_is_read_of_each_member_is_kept(expression: str, expected: set[tuple[str, ...]]) -> None:
    """Thousands of whole objects would fill the memory."""
    blueprint = compile_text(write(each_zone(), "  all: " + config(f'{{n: "${{{expression}}}"}}')))
    assert blueprint.reads["workers"] == expected


def test_in_its_own_rules_its_name_is_the_member() -> None:
    """With the element, position and key."""
    blueprint = compile_text(write(each_zone("{}", 'readyWhen: ["workers.data.x == key && index < 2"]')))
    [rule] = blueprint.resources["workers[a]"].ready_when
    assert blueprint.resources["workers[a]"].own_name == "workers"
    assert rule.evaluate({"workers": {"data": {"x": "a"}}}) == Known(value=True)
    assert rule.evaluate({"workers": {"data": {"x": "b"}}}) == Known(value=False)


@pytest.mark.parametrize("words", ["when: 'false', ", ""])
def test_a_collection_without_members_is_an_empty_list(words: str) -> None:
    """Whether its list is empty or its `when` is false; who depends on it waits for nothing."""
    more = "  all: " + config("{n: '${string(size(workers))}'}", "dependsOn: [workers]")
    blueprint = compile_text(write(each_zone("{}", words), more), zones=ZONES if words else [])
    assert data_of(blueprint, "all") == {"n": "0"}
    assert blueprint.resources["all"].requires == ()


def test_a_stated_key_keeps_each_member_when_the_list_is_reordered() -> None:
    """Its manifest is the same, and so is all that names it."""
    before = compile_text(write(each_zone("{size: '${string(item.size)}'}")))
    after = compile_text(write(each_zone("{size: '${string(item.size)}'}")), zones=ZONES[::-1])
    for name in ("workers[a]", "workers[b]"):
        assert before.resources[name].constant == after.resources[name].constant


@pytest.mark.parametrize(
    "expression",
    [
        "workers[int(zone.data.n)].data.x",
        "size(workers) > 1 ? workers[int(zone.data.n)].data.x : ''",
        "[5].map(at, workers[at].data.x)[0]",
    ],
)
def test_a_position_that_follows_from_an_object_fails_once_it_is_known(expression: str) -> None:
    """A collection has no more members than now, so that nothing is waited for; a field that is missing still is."""
    more = "  zone: " + config("{n: '5'}") + "\n  other: " + config(f'{{x: "${{{expression}}}"}}')
    blueprint = compile_text(write(each_zone("{x: y}"), more))
    manifest, zone = blueprint.resources["other"].manifest, {"data": {"n": "5"}}
    found = manifest.evaluate({"workers": ({"data": {"x": "1"}}, {"data": {"x": "2"}}), "zone": zone})
    assert isinstance(found, EvaluationError)
    assert found.path == f"{RESOURCES}.other.manifest.data.x"
    assert isinstance(manifest.evaluate({"workers": ({"data": {}}, {"data": {}}), "zone": zone}), Pending)


def test_the_elements_of_a_sensitive_list_are_sensitive() -> None:
    """What contains them is not quoted, and neither is what fails on them."""
    blueprint = compile_text(write(config("{x: '${item}', y: z}", "forEach: params.secret")))
    assert blueprint.resources["workers[0]"].hidden is not None
    assert {"hidden-one", "hidden-two"} <= blueprint.sensitive_texts
    [(_, text)] = find_mistakes(write(config("{x: '${string(int(item))}'}", "forEach: '[params.secret[0]]'")))
    assert "hidden" not in text


@pytest.mark.parametrize(
    ("expression", "is_sensitive"),
    [
        ("workers.map(each, each.metadata.name)", False),
        ("size(workers)", False),
        ("workers[0].metadata.name", False),
        ("workers.map(each, each.data)", True),
        ("workers", True),
        ("workers.filter(each, has(each.data))", True),
    ],
)
def test_of_secrets_only_their_data_is_sensitive(expression: str, is_sensitive: bool) -> None:
    """Their names are not, as with a single one."""
    secrets = "{forEach: params.zones, manifest: {apiVersion: v1, kind: Secret, data: {x: '${item.name}'}}}"
    blueprint = compile_text(write(secrets, outputs=f"{{found: {{value: '${{{expression}}}'}}}}"))
    objects = ({"metadata": {"name": "a"}, "data": {"x": "y"}},) * 2
    outcome = blueprint.outputs["found"].evaluate({"workers": objects})
    assert isinstance(outcome, Known)
    assert (outcome.value == redaction.SENSITIVE) is is_sensitive
