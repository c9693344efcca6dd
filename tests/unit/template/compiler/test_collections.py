"""A resource with `forEach` becomes one resource for each element, and a list for other resources."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import errors
from hearth.model.object_list import ObjectList
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
    """The evaluated data of a ConfigMap."""
    outcome = blueprint.resources[name].manifest.evaluate(values)
    assert isinstance(outcome, Known), outcome
    return outcome.value["data"]


def test_a_member_has_its_element_position_and_key() -> None:
    blueprint = compile_text(write(each_zone("{size: '${string(item.size)}', at: 'no ${index}', key: '${key}'}")))
    assert list(blueprint.resources) == ["workers[b]", "workers[a]"]
    assert data_of(blueprint, "workers[b]") == {"size": "2", "at": "no 0", "key": "b"}
    assert data_of(blueprint, "workers[a]") == {"size": "1", "at": "no 1", "key": "a"}
    assert blueprint.collections["workers"].members == ("workers[b]", "workers[a]")
    assert all(each.path == f"{RESOURCES}.workers" for each in blueprint.resources.values())


def test_members_share_no_value_of_their_own() -> None:
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
    blueprint = compile_text(write(config("{}", f"forEach: {source}")), free=free)
    assert list(blueprint.resources) == [f"workers[{key}]" for key in expected]


def test_who_reads_a_collection_requires_all_of_it_at_once() -> None:
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
    more = "  all: " + config("{n: '${workers.map(each, each.metadata.name).join()}', f: '${workers[0].data.x}'}")
    blueprint = compile_text(write(each_zone(), more))
    objects = ObjectList([{"metadata": {"name": "b"}, "data": {"x": "1"}}, {"metadata": {"name": "a"}}])
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
    blueprint = compile_text(write(each_zone(), "  all: " + config(f'{{n: "${{{expression}}}"}}')))
    assert blueprint.reads["workers"] == expected


def test_in_its_own_rules_its_name_is_the_member() -> None:
    blueprint = compile_text(write(each_zone("{}", 'readyWhen: ["workers.data.x == key && index < 2"]')))
    [rule] = blueprint.resources["workers[a]"].ready_when
    assert blueprint.resources["workers[a]"].own_name == "workers"
    assert rule.evaluate({"workers": {"data": {"x": "a"}}}) == Known(value=True)
    assert rule.evaluate({"workers": {"data": {"x": "b"}}}) == Known(value=False)


@pytest.mark.parametrize("words", ["when: 'false', ", ""])
def test_a_collection_without_members_is_an_empty_list(words: str) -> None:
    more = "  all: " + config("{n: '${string(size(workers))}'}", "dependsOn: [workers]")
    blueprint = compile_text(write(each_zone("{}", words), more), zones=ZONES if words else [])
    assert data_of(blueprint, "all") == {"n": "0"}
    assert blueprint.resources["all"].requires == ()


def test_a_stated_key_keeps_each_member_when_the_list_is_reordered() -> None:
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
    more = "  zone: " + config("{n: '5'}") + "\n  other: " + config(f'{{x: "${{{expression}}}"}}')
    blueprint = compile_text(write(each_zone("{x: y}"), more))
    manifest, zone = blueprint.resources["other"].manifest, {"data": {"n": "5"}}
    found = manifest.evaluate({"workers": ObjectList(({"data": {"x": "1"}}, {"data": {"x": "2"}})), "zone": zone})
    assert isinstance(found, EvaluationError)
    assert found.path == f"{RESOURCES}.other.manifest.data.x"
    assert isinstance(manifest.evaluate({"workers": ObjectList(({"data": {}}, {"data": {}})), "zone": zone}), Pending)


def test_the_elements_of_a_sensitive_list_are_sensitive() -> None:
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
    secrets = "{forEach: params.zones, manifest: {apiVersion: v1, kind: Secret, data: {x: '${item.name}'}}}"
    blueprint = compile_text(write(secrets, outputs=f"{{found: {{value: '${{{expression}}}'}}}}"))
    objects = ObjectList([{"metadata": {"name": "a"}, "data": {"x": "y"}}] * 2)
    outcome = blueprint.outputs["found"].evaluate({"workers": objects})
    assert isinstance(outcome, Known)
    assert (outcome.value == redaction.SENSITIVE) is is_sensitive


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("workers", "more", "path", "message"),
    [
        pytest.param(
            each_zone("{x: '${item.sise}'}"),
            "",
            "workers.manifest.data.x",
            "there is no field 'sise' in params.zones[]; did you mean 'size'?",
            id="an unknown field of the element",
        ),
        pytest.param(
            each_zone("{x: '${item.size}'}"),
            "",
            "workers.manifest.data.x",
            "must be text, `item.size` gives an integer",
            id="a field of another type",
        ),
        pytest.param(
            each_zone("{x: '${key + index}'}"),
            "",
            "workers.manifest.data.x",
            "convert with string()",
            id="a position is a number",
        ),
        pytest.param(
            each_zone("{x: '${string(1 / (item.size - 1))}'}"),
            "",
            "workers.manifest.data.x",
            "member 'a': `string(1 / (item.size - 1))` fails: divide by zero",
            id="an expression that fails for one member",
        ),
        pytest.param(
            each_zone("{}", "when: item.size > 1"),
            "",
            "workers.when",
            "filter the list in forEach",
            id="when for a member",
        ),
        pytest.param(
            config("{}", "forEach: other.data"),
            "  other: " + config(),
            "workers.forEach",
            "can use only params, conditions, values and stack",
            id="a list that is not known beforehand",
        ),
        pytest.param(
            config("{}", "forEach: params.zones, key: other.data"),
            "  other: " + config(),
            "workers.key",
            "key can use only item, index, params",
            id="a key that is not known beforehand",
        ),
        pytest.param(
            config("{}", "forEach: \"'text'\""), "", "workers.forEach", "must give a list or a map", id="a text"
        ),
        pytest.param(config("{}", "forEach: [a]"), "", "workers.forEach", "must be an expression", id="a list itself"),
        pytest.param(
            config("{}", "forEach: params.free"),
            "",
            "workers.forEach",
            "must give a list or a map, gives null",
            id="nothing",
        ),
        pytest.param(
            config("{}", "forEach: params.zones, key: item.size"),
            "",
            "workers.key",
            "must give text",
            id="a key that is a number",
        ),
        pytest.param(
            config("{}", "forEach: params.zones, key: \"item.size > 1 ? 'A_b' : 'a'\""),
            "",
            "workers.key",
            "element 0 gives the text 'A_b', but a key has at most 40 lower-case letters",
            id="a malformed key",
        ),
        pytest.param(
            config("{}", "forEach: params.zones, key: \"'one'\""),
            "",
            "workers.key",
            "element 1 gives the text 'one', as element 0 does, but keys must be unique",
            id="the same key twice",
        ),
        pytest.param(config("{}", "key: \"'a'\""), "", "workers.key", "add forEach", id="a key alone"),
        pytest.param(
            each_zone(),
            "  other: " + config("{x: '${workers.data.x}'}"),
            "other.manifest.data.x",
            "'workers' is a list of objects, because it has forEach",
            id="a collection as one object",
        ),
        pytest.param(
            each_zone(),
            "  other: " + config("{x: '${plain[0].data.x}'}") + "\n  plain: " + config(),
            "other.manifest.data.x",
            "'plain' is one object, not a list",
            id="one object as a list",
        ),
        pytest.param(
            each_zone(),
            "  other: " + config("{x: '${workers.map(each, each.dada.x).join()}'}"),
            "other.manifest.data.x",
            "there is no field 'dada' in ConfigMap",
            id="an unknown field of a member",
        ),
        pytest.param(
            each_zone(),
            "  other: " + config("{}", "dependsOn: ['workers[c]']"),
            "other.dependsOn[0]",
            "there is no member 'workers[c]'; 'workers' has b, a; use one of them",
            id="a member that is not there",
        ),
        pytest.param(
            each_zone(),
            "  other: " + config("{x: 'the ${workers[2].metadata.name}'}"),
            "other.manifest.data.x",
            "there is no 'workers[2]': 'workers' has 2 members, at the positions 0 to 1; use one of them, or a condition",
            id="a position that is not there",
        ),
        pytest.param(
            each_zone(),
            "  other: " + config("{}", "readyWhen: ['workers[-1].data.x == other.data.x']"),
            "other.readyWhen[0]",
            "there is no 'workers[-1]'",
            id="a position before the first",
        ),
        pytest.param(
            each_zone(),
            "  other: " + config("{}", "dependsOn: ['plain[c]']") + "\n  plain: " + config(),
            "other.dependsOn[0]",
            "'plain' has no members",
            id="a member of one object",
        ),
        pytest.param(
            each_zone("{x: '${string(size(workers))}'}"),
            "",
            "workers",
            "requires itself: workers → workers",
            id="itself",
        ),
        pytest.param(each_zone(), "  key: " + config(), "key", "is the key of a member", id="a resource called key"),
        pytest.param(
            config("{}", "forEach: params.secrets"),
            "",
            "workers.forEach",
            "takes keys from a sensitive value",
            id="a sensitive map",
        ),
        pytest.param(
            config("{}", "forEach: params.secret, key: item"),
            "",
            "workers.key",
            "takes keys from a sensitive value",
            id="a sensitive key",
        ),
        pytest.param(
            "{forEach: params.secret, manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${item}'}}}",
            "",
            "workers.manifest.metadata.name",
            "names and kinds are not secret",
            id="a sensitive name",
        ),
        pytest.param(
            "{forEach: params.zones, manifest: {apiVersion: v1, kind: '${item.name}'}}",
            "",
            "workers.manifest.kind",
            "apiVersion and kind may use only params",
            id="a kind for each",
        ),
        pytest.param(
            each_zone(),
            "  workersA: " + config(),
            "workersA.manifest.metadata.name",
            "names configmap/shop-workers-a, which the resource 'workers[a]' also names",
            id="a resource with the name of a member's object",
        ),
    ],
)
def test_mistakes_are_found_before_anything_runs(workers: str, more: str, path: str, message: str) -> None:
    [(found, text)] = find_mistakes(write(workers, more))
    assert found == f"{RESOURCES}.{path}"
    assert message in text
    assert "hidden" not in text


def test_one_name_for_all_members_is_one_mistake() -> None:
    same = "{forEach: params.zones, manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: same}}}"
    [(found, text)] = find_mistakes(write(same), zones=[{"name": str(index)} for index in range(50)])
    assert found == f"{RESOURCES}.workers.manifest.metadata.name"
    assert text == (
        "member '1': names configmap/same, which the resource 'workers[0]' also names; add ${key}, or omit the name"
    )


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        pytest.param("workers[size(workers)].data.x", "'workers[size(workers)]', position 2: ", id="the number"),
        pytest.param("workers[workers.size()].data.x", "'workers[workers.size()]', position 2: ", id="as a method"),
        pytest.param("workers[size(workers) - 3].data.x", "position -1: ", id="before the first"),
        pytest.param("workers[params.zones[0].size].data.x", "position 2: ", id="a parameter"),
        pytest.param("workers[int(params.secret[2])].data.x", "'workers[int(params.secret[2])]': ", id="sensitive"),
        pytest.param("workers[{'a]': 5}['a]']].data.x", "position 5: ", id="brackets within a text"),
        pytest.param("workers[[0, 1, 2][2]].data.x + workers[0].data.x", "position 2: ", id="brackets within"),
    ],
)
def test_a_computed_position_that_is_not_there_is_found_before_anything_runs(expression: str, what: str) -> None:
    secret = ["hidden-one", "hidden-two", "7"]
    other = "  other: " + config(f'{{x: "${{{expression}}}"}}')
    [(path, text)] = find_mistakes(write(each_zone(), other), secret=secret)
    assert path == f"{RESOURCES}.other.manifest.data.x"
    assert text.startswith("there is no '")
    assert f"{what}'workers' has 2 members, at the positions 0 to 1; use one of them, or a condition" in text
    [(path, _)] = find_mistakes(write(each_zone(), outputs=f'{{o: {{value: "${{{expression}}}"}}}}'), secret=secret)
    assert path == "spec.template.outputs.o.value"


@pytest.mark.parametrize("expression", ["workers[index + 1].data.x", "workers[item.size].data.x"])
def test_a_position_beyond_the_last_for_some_members_alone(expression: str) -> None:
    more = "  others: " + config(f'{{x: "${{{expression}}}"}}', "forEach: params.zones, key: item.name")
    [(path, text)] = find_mistakes(write(each_zone(), more))
    assert (path, "position 2: " in text) == (f"{RESOURCES}.others.manifest.data.x", True)
    paired = "  others: " + config('{x: "${workers[index].data.x}"}', "forEach: params.zones, key: item.name")
    assert find_mistakes(write(each_zone("{x: y}"), paired)) == []


@pytest.mark.parametrize(
    "expression",
    [
        "workers[size(workers) - 1].metadata.name",
        "workers[params.zones[1].size].metadata.name",
        "params.zones.map(each, workers[each.size - 1].metadata.name).join()",
        "workers[1].metadata.name",
        "workers.size() > 2 ? workers[2].metadata.name : 'none'",
        "workers[?2].metadata.name.orValue('none')",
    ],
)
def test_a_position_that_may_be_missing_is_guarded(expression: str) -> None:
    assert find_mistakes(write(each_zone(), "  other: " + config(f'{{x: "${{{expression}}}"}}'))) == []


def test_few_members_stand_for_all_that_have_the_same_mistake() -> None:
    template = write(config("{x: '${string(1 / 0 * item)}'}", "forEach: params.free"))
    assert len(find_mistakes(template, free=[1] * 1_000)) == 3


def test_a_collection_whose_list_is_wrong_causes_no_other_mistakes() -> None:
    more = "  other: " + config("{x: '${workers[0].data.x}'}", "dependsOn: ['workers[zz]']")
    found = find_mistakes(write(config("{}", "forEach: params.zones, key: \"''\""), more))
    assert {path for path, _ in found} == {f"{RESOURCES}.workers.key"}


def test_a_definition_is_refused_in_all_its_collections_at_once() -> None:
    more = "  others: " + config("{}", "forEach: params.zones, key: \"'x'\"")
    with pytest.raises(errors.InvalidDefinition) as refusal:
        compile_text(write(config("{}", "forEach: params.zones, key: \"'X'\""), more))
    assert {each.path for each in refusal.value.mistakes} == {f"{RESOURCES}.workers.key", f"{RESOURCES}.others.key"}
