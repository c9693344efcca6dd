"""Parameters and templates from other objects: precedence, missing or invalid sources, and the copy in the revision."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from hearth.engine.definition import definition_sources, revision_builder, stored_definition
from hearth.engine.definition.definition_sources import SourceReader
from hearth.engine.ports import ManagementCluster
from hearth.kube.cache import stack_cache
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, InvalidDefinition, SourceNotFound
from hearth.model.kinds import ObjectRef
from hearth.template.blueprint import Definition
from hearth.template.compiler import sensitivity
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.world import Address
from support.units.blueprints import HASHER

SPEC: Object = {
    "parametersFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}, {"configMapRef": {"name": "c"}}]
}
PARAMETERS: Object = {"x": {"type": "string"}, "n": {"type": "integer", "default": 1}}


class Shelf:
    """The part of the port `Home` that reads sources."""

    def __init__(self, **data: Mapping[str, str] | int) -> None:
        self._data = data

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """See the port; a number stands for a refusal with that code."""
        found = self._data.get(ref.name, 404)
        if isinstance(found, int):
            raise errors.ApiStatusError(code=found, status=None)
        return found


def encode(text: str | bytes) -> str:
    """Encode a text as in a Secret."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def define(shelf: Shelf, parameters: Object | None = None, given: Object | None = None, **spec: Any) -> Definition:
    """The definition from these sources."""
    template = {"parameters": parameters or PARAMETERS, "resources": {}}
    builder = revision_builder.RevisionBuilder(management_cluster=shelf, cluster=None, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that these tests use
    return asyncio.run(builder.read_spec("shop", {"template": template, "parameters": given or {}, **(spec or SPEC)}))


def test_the_later_source_counts_before_the_earlier() -> None:
    found = define(Shelf(a={"x": "a", "n": "1"}, b={"x": encode("b"), "z": "0"}, c={"n": "3"}))
    assert found.parameters == {"x": "b", "n": 3}
    assert [found.origins[name].place for name in ("x", "n")] == [
        "spec.parametersFrom[1] (secret/b key x)",
        "spec.parametersFrom[2] (configmap/c key n)",
    ]


class Unlisted(dict[str, str]):
    """Data that allows lookups by key but must not be listed."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError

    keys = items = __iter__  # type: ignore[assignment]  # neither of them may be called


def test_keys_that_are_no_parameters_cost_nothing() -> None:
    found = define(Shelf(a=Unlisted(x="a", n="1", other="2"), b={}, c={}))
    assert found.parameters == {"x": "a", "n": 1}


def test_the_stack_itself_counts_before_all() -> None:
    found = define(Shelf(a={}, b={"x": encode("b")}, c={}), given={"x": "own"})
    assert (found.parameters, found.origins) == ({"x": "own"}, {})


@pytest.mark.parametrize(
    ("shelf", "expected"),
    [
        pytest.param(
            Shelf(b={}),
            "spec.parametersFrom[0]: configmap/a does not exist in namespace shop; create it, or set optional: true\n"
            "spec.parametersFrom[2]: configmap/c does not exist in namespace shop; create it, or set optional: true",
            id="all that are missing at once",
        ),
        pytest.param(
            Shelf(a={}, b=403, c={}),
            "spec.parametersFrom[1]: secret/b cannot be read in namespace shop; allow the operator to get, list and watch it",
            id="no right to read it",
        ),
        pytest.param(
            Shelf(a={}, b={}, c={}),
            "spec.parameters.x: is missing, and no source has the key x: configmap/a, secret/b, configmap/c; "
            "add it to one of them, or set it here",
            id="a key that does not exist",
        ),
    ],
)
def test_what_is_missing(shelf: Shelf, expected: str) -> None:
    with pytest.raises(errors.SourceNotFound) as caught:
        define(shelf)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("shelf", "expected"),
    [
        pytest.param(
            Shelf(),
            "spec.x.secretKeyRef: secret/b does not exist in namespace shop; create it",
            id="no such Secret",
        ),
        pytest.param(
            Shelf(b=403),
            "spec.x.secretKeyRef: secret/b cannot be read in namespace shop; allow the operator to get, list and watch it",
            id="no right to read it",
        ),
        pytest.param(
            Shelf(b={"other": encode("1")}),
            "spec.x.secretKeyRef: secret/b has no key k; add it to the Secret, or specify another key",
            id="a key that does not exist",
        ),
    ],
)
def test_a_missing_value_of_an_instance_names_the_field_of_the_instance(shelf: Shelf, expected: str) -> None:
    entry = {"secretRef": {"name": "b"}, "key": "k", "parameter": "x"}
    with pytest.raises(errors.SourceNotFound) as caught:
        define(shelf, {"x": {}}, parametersFrom=[entry])
    assert str(caught.value) == expected


def test_an_optional_source_may_be_missing() -> None:
    optional: Object = {"parametersFrom": [{"secretRef": {"name": "b", "optional": True}}]}
    assert define(Shelf(), {"n": {"default": 1}}, **optional).parameters == {}
    with pytest.raises(errors.SourceNotFound, match="cannot be read"):
        define(Shelf(b=403), {"n": {"default": 1}}, **optional)


def test_a_source_that_cannot_be_read_for_now_is_asked_again() -> None:
    with pytest.raises(errors.ApiStatusError):
        define(Shelf(a=503, b={}, c={}))


def test_what_is_no_text_can_be_no_parameter() -> None:
    shelf = Shelf(a={}, b={"x": encode(b"\xff\xfe"), "y": encode(b"\xff")}, c={})
    with pytest.raises(errors.InvalidDefinition) as caught:
        define(shelf)
    assert (
        str(caught.value) == "spec.parametersFrom[1] (secret/b key x): is not UTF-8 text; only text can be a parameter"
    )


@pytest.mark.parametrize(
    ("rules", "text", "expected"),
    [
        ({"type": "integer"}, "3\n", 3),
        ({"type": "integer"}, "three", "three"),
        ({"type": "integer"}, "", ""),
        ({"type": "integer"}, "a: [", "a: ["),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "yes", True),
        ({"type": "array"}, "[80, 443]", [80, 443]),
        ({"type": "object"}, "a: 1\nb: x", {"a": 1, "b": "x"}),
        ({"type": "string"}, "3\n", "3\n"),
        ({}, "3", "3"),
    ],
)
def test_texts_become_what_the_parameter_takes(rules: Object, text: str, expected: Any) -> None:
    assert define(Shelf(a={"p": text}, b={}, c={}), {"p": rules}).parameters == {"p": expected}


BOMB = "\n".join(
    ["a0: &a0 [v,v,v,v,v,v,v,v,v,v]", *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOMB, "line 6, column 14: holds more than 250000 values, aliases expanded; split it"),
        ("[" * 400, "line 1, column 101: is nested more than 100 levels deep; flatten it"),
    ],
    ids=["aliases", "deep"],
)
def test_a_text_that_holds_too_much_is_refused_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(errors.InvalidDefinition) as caught:
        define(Shelf(a={}, b={"p": encode(text)}, c={}), {"p": {"type": "object"}})
    assert str(caught.value) == f"spec.parametersFrom[1] (secret/b key p): {expected}"


def test_all_sources_together_give_no_more_than_a_definition_may_hold() -> None:
    names_ = [f"p{number}" for number in range(9)]
    with pytest.raises(errors.InvalidDefinition, match="gives 4500000 characters, but at most 4194304 are allowed"):
        define(Shelf(a=dict.fromkeys(names_, "x" * 500_000), b={}, c={}), {name: {} for name in names_})


@pytest.mark.parametrize("word", ["template", "parameters"])
def test_a_spec_that_is_nested_too_deeply_is_a_mistake(word: str) -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    builder = revision_builder.RevisionBuilder(management_cluster=Shelf(), cluster=None, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that these tests use
    spec = {"template": {"resources": {}}, "parameters": {}} | {word: {"x": deep}}
    with pytest.raises(errors.InvalidDefinition) as caught:
        asyncio.run(builder.read_spec("shop", spec))
    assert str(caught.value) == f"spec.{word}: is nested more than 100 levels deep; flatten it"


# ---------------------------------------------------------------- contents of a revision

SENSITIVE: Object = {"x": {"type": "string", "sensitive": True}, "y": {"sensitive": True}, "n": {"default": 1}}


def stack(**parameters: Any) -> Any:
    metadata = {"name": "shop", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    return stack_cache.parse_stack({"metadata": metadata, "spec": {"parameters": parameters}})


def restore(recorded: Object, shelf: Shelf, **live: Any) -> Definition:
    """Read the definition from a stored revision."""
    return asyncio.run(
        stored_definition.from_stored(
            recorded,
            reader=SourceReader(shelf),  # type: ignore[arg-type]  # only the parts that these tests use
            stack=stack(**live),
            number=3,
            hashes=HASHER,
        )
    )


def test_a_definition_without_secrets_is_kept_whole() -> None:
    definition = Definition(template={"resources": {}}, parameters={"a": 1})
    recorded = stored_definition.to_stored(definition, HASHER)
    assert recorded == {"template": {"resources": {}}, "parameters": {"a": 1}}
    assert stored_definition.hash_record(recorded, HASHER) == HASHER.hash([{"resources": {}}, {"a": 1}])


def test_of_a_secret_its_place_is_kept() -> None:
    shelf = Shelf(a={"n": "2"}, b={"x": encode("sesame")}, c={})
    recorded = stored_definition.to_stored(define(shelf, SENSITIVE, {"y": "sesame"}), HASHER)
    kept = recorded["sensitive"]
    assert recorded["parameters"] == {"n": "2"}
    assert {name: entry["from"] for name, entry in kept.items()} == {"x": "Secret/b", "y": "spec.parameters"}
    assert kept["x"]["hash"] != kept["y"]["hash"], "equal values in two places look equal"
    assert "sesame" not in repr(recorded)


def test_a_changed_secret_is_another_definition() -> None:
    def hash_of(shelf: Shelf, **given: Any) -> str:
        builder = revision_builder.RevisionBuilder(management_cluster=shelf, cluster=None, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that these tests use
        return builder.hash(define(shelf, SENSITIVE, {"y": "1", **given}), stack())

    one = hash_of(Shelf(a={}, b={"x": encode("one")}, c={}))
    assert one == hash_of(Shelf(a={}, b={"x": encode("one")}, c={}))
    assert one != hash_of(Shelf(a={}, b={"x": encode("two")}, c={}))
    assert one != hash_of(Shelf(a={}, b={}, c={"x": "one"}))
    assert one != hash_of(Shelf(a={}, b={}, c={}), x="one")


def test_equal_secrets_of_two_stacks_have_different_hashes() -> None:
    definition = define(Shelf(a={}, b={"x": encode("one")}, c={}), SENSITIVE, {"y": "1"})
    builder = revision_builder.RevisionBuilder(management_cluster=None, cluster=None, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that these tests use
    ours, theirs = stack(), dataclasses.replace(stack(), uid="other")
    assert builder.hash(definition, ours) == builder.hash(definition, ours)
    assert builder.hash(definition, ours) != builder.hash(definition, theirs)
    recorded = [stored_definition.to_stored(definition, HASHER.of_stack(each.uid)) for each in (ours, theirs)]
    assert recorded[0]["sensitive"]["x"]["hash"] != recorded[1]["sensitive"]["x"]["hash"]


def test_going_back_takes_the_secret_as_it_is_now() -> None:
    shelf = Shelf(a={}, b={"x": encode("then")}, c={})
    definition = define(shelf, SENSITIVE, {"y": "own"})
    recorded = stored_definition.to_stored(definition, HASHER)
    same = restore(recorded, shelf, y="own")
    assert (same.parameters, same.refreshed) == (definition.parameters, ())
    assert stored_definition.to_stored(same, HASHER) == recorded
    renewed = restore(recorded, Shelf(b={"x": encode("now")}), y="other")
    assert (renewed.parameters, renewed.refreshed) == ({"x": "now", "y": "other"}, ("x", "y"))
    assert sensitivity.find_sensitive(renewed) == {"x", "y"}


@pytest.mark.parametrize(
    ("shelf", "live", "expected"),
    [
        pytest.param(Shelf(), {"y": 1}, "revision 3: secret/b does not exist in namespace shop; create it", id="gone"),
        pytest.param(
            Shelf(b={}, c={"x": "1"}), {"y": 1}, "revision 3: Secret/b no longer has the key x; add it", id="key gone"
        ),
        pytest.param(
            Shelf(b={"x": encode("a")}),
            {},
            "revision 3: the sensitive parameter y was not stored; set it in spec.parameters",
            id="no longer in the Stack",
        ),
    ],
)
def test_going_back_without_the_secret(shelf: Shelf, live: Object, expected: str) -> None:
    recorded = stored_definition.to_stored(
        define(Shelf(a={}, b={"x": encode("then")}, c={}), SENSITIVE, {"y": "own"}), HASHER
    )
    with pytest.raises(errors.SourceNotFound) as caught:
        restore(recorded, shelf, **live)
    assert str(caught.value) == expected


def test_sources_are_all_that_a_definition_is_read_from() -> None:
    spec = {**SPEC, "templateRef": {"name": "a"}}
    assert sorted(map(str, revision_builder.find_sources("shop", spec))) == ["configmap/a", "configmap/c", "secret/b"]
    assert definition_sources.find_parameter_sources("shop", {}) == ()


# ---------------------------------------------------------------- templates in ConfigMaps

WEB: Object = {"resources": {"web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}}}
DB: Object = {
    "parameters": {"size": {"type": "integer", "default": 1}},
    "resources": {"db": {"manifest": {"apiVersion": "v1", "kind": "Secret"}}},
}


def compress(value: Any) -> str:
    """Return the `binaryData` form of a value as JSON."""
    return base64.b64encode(gzip.compress(json.dumps(value).encode())).decode()


class TemplateShelf:
    """ConfigMaps of one namespace by name."""

    def __init__(self, **objects: Object) -> None:
        self._objects = objects

    def _find(self, ref: ObjectRef) -> Object:
        if ref.name not in self._objects:
            raise ApiStatusError(code=404, status={})
        return self._objects[ref.name]

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        return cast("Mapping[str, str]", self._find(ref).get("data") or {})

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        return cast("Mapping[str, str]", self._find(ref).get("binaryData") or {})


def read(shelf: TemplateShelf, spec: Object) -> tuple[Object, str]:
    """Return the template of a spec in namespace `shop`, and its location."""
    return asyncio.run(definition_sources.read_template(SourceReader(cast("ManagementCluster", shelf)), "shop", spec))


SHELF = TemplateShelf(
    web={"data": {"template.yaml": json.dumps(WEB)}, "binaryData": {"web.json.gz": compress(WEB)}},
    db={"binaryData": {"db.json.gz": compress(DB)}},
    broken={"binaryData": {"a.gz": base64.b64encode(b"no gzip").decode(), "b.gz": "%%%"}, "data": {"c.gz": "text"}},
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"template": WEB}, (WEB, "spec.template"), id="inline"),
        pytest.param({"templateRef": {"name": "web"}}, (WEB, "(configmap/web template.yaml)"), id="plain"),
        pytest.param(
            {"templateRef": {"name": "web", "key": "web.json.gz"}},
            (WEB, "(configmap/web web.json.gz)"),
            id="compressed",
        ),
        pytest.param(
            {"templateRefs": [{"name": "web"}, {"name": "db", "key": "db.json.gz"}]},
            (
                {"resources": {**WEB["resources"], **DB["resources"]}, "parameters": DB["parameters"]},
                "spec.templateRefs",
            ),
            id="united",
        ),
    ],
)
def test_a_template_is_read_from_its_sources(spec: Object, expected: tuple[Object, str]) -> None:
    assert read(SHELF, spec) == expected


def test_a_name_in_two_sources_is_a_mistake() -> None:
    with pytest.raises(InvalidDefinition) as caught:
        read(SHELF, {"templateRefs": [{"name": "web"}, {"name": "web", "key": "web.json.gz"}]})
    assert str(caught.value) == (
        "(configmap/web web.json.gz).resources.web: is also in spec.templateRefs[0] (configmap/web template.yaml); "
        "remove or rename one of them"
    )


def test_all_missing_sources_are_named_at_once() -> None:
    refs = [{"name": "web", "key": "x.yaml"}, {"name": "gone"}, {"name": "broken", "key": "c.gz"}]
    with pytest.raises(SourceNotFound) as caught:
        read(SHELF, {"templateRefs": refs})
    assert str(caught.value).splitlines() == [
        "spec.templateRefs[0].key: configmap/web has no key 'x.yaml' in data; existing keys: template.yaml",
        "spec.templateRefs[1]: configmap/gone does not exist in namespace shop; create it",
        "spec.templateRefs[2].key: configmap/broken has no key 'c.gz' in binaryData; existing keys: a.gz and b.gz",
    ]


@pytest.mark.parametrize("key", ["a.gz", "b.gz"])
def test_what_is_not_compressed_is_named(key: str) -> None:
    with pytest.raises(
        InvalidDefinition, match=rf"\(configmap/broken {key}\): is not text compressed by gzip \(.*gzip -9"
    ):
        read(SHELF, {"templateRef": {"name": "broken", "key": key}})


def test_a_bomb_is_not_inflated() -> None:
    bomb = base64.b64encode(gzip.compress(bytes(limits.REVISION_BYTES + 1))).decode()
    shelf = TemplateShelf(bomb={"binaryData": {"template.yaml.gz": bomb}})
    with pytest.raises(InvalidDefinition, match=f"inflates to more than {limits.REVISION_BYTES} bytes"):
        read(shelf, {"templateRef": {"name": "bomb", "key": "template.yaml.gz"}})


def test_bombs_are_not_inflated_together() -> None:
    half = base64.b64encode(gzip.compress(b"{}" + b" " * (limits.REVISION_BYTES // 2))).decode()
    shelf = TemplateShelf(
        bomb={"binaryData": {"template.yaml.gz": half}}, web={"data": {"template.yaml": json.dumps(WEB)}}
    )
    one = {"name": "bomb", "key": "template.yaml.gz"}
    assert read(shelf, {"templateRefs": [one, {"name": "web"}]}) == (WEB, "spec.templateRefs")
    with pytest.raises(InvalidDefinition) as caught:
        read(shelf, {"templateRefs": [one, {"name": "web"}, one]})
    assert "(configmap/bomb template.yaml.gz): is not text compressed by gzip" in str(caught.value)
    assert f"at most {limits.REVISION_BYTES} bytes with all others" in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param({"resources": []}, "resources: must be a mapping, found list", id="no mapping"),
        pytest.param({"resource": {}}, "resource: is not a section of a template", id="unknown part"),
    ],
)
def test_a_part_that_cannot_be_united_is_named(wrong: Object, message: str) -> None:
    shelf = TemplateShelf(
        web={"data": {"template.yaml": json.dumps(WEB)}}, wrong={"data": {"template.yaml": json.dumps(wrong)}}
    )
    with pytest.raises(InvalidDefinition, match=r"\(configmap/wrong template.yaml\)\." + message):
        read(shelf, {"templateRefs": [{"name": "web"}, {"name": "wrong"}]})


def test_all_sources_are_followed() -> None:
    spec = {"templateRefs": [{"name": "web"}, {"name": "db", "key": "db.json.gz"}]}
    found = definition_sources.find_template_sources("shop", spec)
    assert [(str(each.ref), each.key, each.field) for each in found] == [
        ("configmap/web", "template.yaml", "spec.templateRefs[0]"),
        ("configmap/db", "db.json.gz", "spec.templateRefs[1]"),
    ]


# ---------------------------------------------------------------- sources that change all the time

STACK: Object = stack_manifests.make_stack(
    {
        "adoptionPolicy": "Adopt",
        "parametersFrom": [{"configMapRef": {"name": "counter"}}],
        "template": {"parameters": {"count": {"type": "integer"}}, "resources": {}},
    }
)
COUNTER: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "counter", "namespace": "default"},
    "data": {"count": "0"},
}


def make_stack(name: str, count: str) -> Object:
    """A Stack of one ConfigMap of that name."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"count": count}}
    template = {**STACK["spec"]["template"], "resources": {"a": {"manifest": manifest}}}
    return {**STACK, "spec": {**STACK["spec"], "template": template}}


@fake_world.in_world
async def test_a_stack_whose_own_object_is_its_source_does_not_keep_the_operator_busy(world: FakeWorld) -> None:
    await world.user.create(COUNTER)
    await world.user.create(make_stack("counter", "${string(params.count + 1)}"))
    await world.start_controller()
    await asyncio.sleep(100.0)
    applied = world.traffic.count()["apply"]
    assert applied > limits.SOURCE_CHANGES
    assert applied <= limits.SOURCE_CHANGES + 100.0 / limits.SOURCE_CHANGES_EVERY + 2
    await world.user.delete(Address.of(STACK))
    await world.wait_rest()


@fake_world.in_world
async def test_of_too_many_changes_the_newest_takes_effect(world: FakeWorld) -> None:
    await world.user.create(COUNTER)
    await world.user.create(make_stack("copy", "${string(params.count)}"))
    await world.start_controller()
    await world.wait_rest()
    before = world.traffic.count()["revision"]
    for count in range(1, 51):
        await world.user.patch(Address.of(COUNTER), {"data": {"count": str(count)}})
        await asyncio.sleep(0.1)
    await world.wait_rest()
    copied = await world.user.find(Address.of({**COUNTER, "metadata": {**COUNTER["metadata"], "name": "copy"}}))
    assert copied is not None
    assert copied["data"] == {"count": "50"}
    assert world.traffic.count()["revision"] - before == limits.SOURCE_CHANGES + 1
