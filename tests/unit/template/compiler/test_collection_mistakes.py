"""Mistakes in collections, found when the template is compiled."""

from __future__ import annotations

import pytest

from hearth.model import errors
from support.units.templates.collection_templates import (
    RESOURCES,
    compile_text,
    config,
    each_zone,
    find_mistakes,
    write,
)


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
            "can use only params, conditions and stack",
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
            "there is no member 'workers[c]'; 'workers' has b, a; name one of them",
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
            "takes keys from something sensitive",
            id="a sensitive map",
        ),
        pytest.param(
            config("{}", "forEach: params.secret, key: item"),
            "",
            "workers.key",
            "takes keys from something sensitive",
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
    """Each with its place, and the next step; no value of a sensitive parameter is among them."""
    [(found, text)] = find_mistakes(write(workers, more))
    assert found == f"{RESOURCES}.{path}"
    assert message in text
    assert "hidden" not in text


def test_one_name_for_all_members_is_one_mistake() -> None:
    """It says what to add to the name, and not once for each member."""
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
    """As far as parameters and the number of members say it; also in outputs. What is sensitive is not shown."""
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
    """What is there for one member is not there for another."""
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
    """What is there, or is read only if it is there, is no mistake."""
    assert find_mistakes(write(each_zone(), "  other: " + config(f'{{x: "${{{expression}}}"}}'))) == []


def test_few_members_stand_for_all_that_have_the_same_mistake() -> None:
    """A thousand lines would say no more."""
    template = write(config("{x: '${string(1 / 0 * item)}'}", "forEach: params.free"))
    assert len(find_mistakes(template, free=[1] * 1_000)) == 3


def test_a_collection_whose_list_is_wrong_causes_no_other_mistakes() -> None:
    """Who reads it, or depends on a member, may be right."""
    more = "  other: " + config("{x: '${workers[0].data.x}'}", "dependsOn: ['workers[zz]']")
    found = find_mistakes(write(config("{}", "forEach: params.zones, key: \"''\""), more))
    assert {path for path, _ in found} == {f"{RESOURCES}.workers.key"}


def test_a_definition_is_refused_in_all_its_collections_at_once() -> None:
    """As all mistakes are."""
    more = "  others: " + config("{}", "forEach: params.zones, key: \"'x'\"")
    with pytest.raises(errors.InvalidDefinition) as refusal:
        compile_text(write(config("{}", "forEach: params.zones, key: \"'X'\""), more))
    assert {each.path for each in refusal.value.mistakes} == {f"{RESOURCES}.workers.key", f"{RESOURCES}.others.key"}
