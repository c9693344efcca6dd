"""Parameters from elsewhere: what counts, what is missing, and what a revision keeps of it."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from hearth.engine.definition import definition_sources, revision_builder, stored_definition
from hearth.engine.definition.definition_sources import SourceReader
from hearth.kube.cache import stack_cache
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.template.blueprint import Definition
from hearth.template.compiler import sensitivity
from support.units.blueprints import HASHER

SPEC: Object = {
    "parametersFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}, {"configMapRef": {"name": "c"}}]
}
PARAMETERS: Object = {"x": {"type": "string"}, "n": {"type": "integer", "default": 1}}


class Shelf:
    """As much of the port `Home` as reading sources takes."""

    def __init__(self, **data: Mapping[str, str] | int) -> None:
        self._data = data

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says; a number is the code of a refusal."""
        found = self._data.get(ref.name, 404)
        if isinstance(found, int):
            raise errors.ApiStatusError(code=found, status=None)
        return found


def encode(text: str | bytes) -> str:
    """As in a Secret."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def define(shelf: Shelf, parameters: Object | None = None, given: Object | None = None, **spec: Any) -> Definition:
    """The definition that these sources give."""
    template = {"parameters": parameters or PARAMETERS, "resources": {}}
    builder = revision_builder.RevisionBuilder(management_cluster=shelf, cluster=None, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that these tests use
    return asyncio.run(builder.read_spec("shop", {"template": template, "parameters": given or {}, **(spec or SPEC)}))


def test_the_later_source_counts_before_the_earlier() -> None:
    """And keys that are no parameters are passed over."""
    found = define(Shelf(a={"x": "a", "n": "1"}, b={"x": encode("b"), "z": "0"}, c={"n": "3"}))
    assert found.parameters == {"x": "b", "n": 3}
    assert [found.origins[name].place for name in ("x", "n")] == [
        "spec.parametersFrom[1] (secret/b key x)",
        "spec.parametersFrom[2] (configmap/c key n)",
    ]


def test_the_stack_itself_counts_before_all() -> None:
    """Even with null; and nothing is said of a source for it."""
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
    """Is reported with its place and what to do."""
    with pytest.raises(errors.SourceNotFound) as caught:
        define(shelf)
    assert str(caught.value) == expected


def test_an_optional_source_may_be_missing() -> None:
    """Not one that may not be read: it cannot be known what it holds."""
    optional = {"parametersFrom": [{"secretRef": {"name": "b", "optional": True}}]}
    assert define(Shelf(), {"n": {"default": 1}}, **optional).parameters == {}
    with pytest.raises(errors.SourceNotFound, match="cannot be read"):
        define(Shelf(b=403), {"n": {"default": 1}}, **optional)


def test_a_source_that_cannot_be_read_for_now_is_asked_again() -> None:
    """It is not said to be missing."""
    with pytest.raises(errors.ApiStatusError):
        define(Shelf(a=503, b={}, c={}))


def test_what_is_no_text_can_be_no_parameter() -> None:
    """Where it is no parameter it may be anything."""
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
    """What cannot be read stays text, for the check of values to tell."""
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
    """Not taken for text: no check of values would say why."""
    with pytest.raises(errors.InvalidDefinition) as caught:
        define(Shelf(a={}, b={"p": encode(text)}, c={}), {"p": {"type": "object"}})
    assert str(caught.value) == f"spec.parametersFrom[1] (secret/b key p): {expected}"


def test_all_sources_together_give_no_more_than_a_definition_may_hold() -> None:
    """Each of a hundred values may be as long as a Secret; all of them are held in memory."""
    names_ = [f"p{number}" for number in range(9)]
    with pytest.raises(errors.InvalidDefinition, match="gives 4500000 characters, but at most 4194304 are allowed"):
        define(Shelf(a=dict.fromkeys(names_, "x" * 500_000), b={}, c={}), {name: {} for name in names_})


@pytest.mark.parametrize("word", ["template", "parameters"])
def test_a_spec_that_is_nested_too_deeply_is_a_mistake(word: str) -> None:
    """Hashing and storing it raised, so that the Stack was never answered."""
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    builder = revision_builder.RevisionBuilder(management_cluster=Shelf(), cluster=None, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that these tests use
    spec = {"template": {"resources": {}}, "parameters": {}} | {word: {"x": deep}}
    with pytest.raises(errors.InvalidDefinition) as caught:
        asyncio.run(builder.read_spec("shop", spec))
    assert str(caught.value) == f"spec.{word}: is nested more than 100 levels deep; flatten it"


# ---------------------------------------------------------------- what a revision keeps

SENSITIVE: Object = {"x": {"type": "string", "sensitive": True}, "y": {"sensitive": True}, "n": {"default": 1}}


def stack(**parameters: Any) -> Any:
    """The Stack as it is now."""
    metadata = {"name": "shop", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    return stack_cache.parse_stack({"metadata": metadata, "spec": {"parameters": parameters}})


def restore(recorded: Object, shelf: Shelf, **live: Any) -> Definition:
    """The definition of a revision, years later."""
    return asyncio.run(
        stored_definition.from_stored(
            recorded, reader=SourceReader(shelf), stack=stack(**live), number=3, hashes=HASHER
        )  # type: ignore[arg-type]  # only the parts that these tests use
    )


def test_a_definition_without_secrets_is_kept_whole() -> None:
    """As it was before there were any, so that earlier hashes stay good."""
    definition = Definition(template={"resources": {}}, parameters={"a": 1})
    recorded = stored_definition.to_stored(definition, HASHER)
    assert recorded == {"template": {"resources": {}}, "parameters": {"a": 1}}
    assert stored_definition.hash_record(recorded, HASHER) == HASHER.hash([{"resources": {}}, {"a": 1}])


def test_of_a_secret_its_place_is_kept() -> None:
    """And what tells a change."""
    shelf = Shelf(a={"n": "2"}, b={"x": encode("sesame")}, c={})
    recorded = stored_definition.to_stored(define(shelf, SENSITIVE, {"y": "sesame"}), HASHER)
    kept = recorded["sensitive"]
    assert recorded["parameters"] == {"n": "2"}
    assert {name: entry["from"] for name, entry in kept.items()} == {"x": "Secret/b", "y": "spec.parameters"}
    assert kept["x"]["hash"] != kept["y"]["hash"], "equal values in two places look equal"
    assert "sesame" not in repr(recorded)


def test_a_changed_secret_is_another_definition() -> None:
    """So is one that comes from elsewhere; one that went back is the same again."""

    def hash_of(shelf: Shelf, **given: Any) -> str:
        builder = revision_builder.RevisionBuilder(management_cluster=shelf, cluster=None, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that these tests use
        return builder.hash(define(shelf, SENSITIVE, {"y": "1", **given}), stack())

    one = hash_of(Shelf(a={}, b={"x": encode("one")}, c={}))
    assert one == hash_of(Shelf(a={}, b={"x": encode("one")}, c={}))
    assert one != hash_of(Shelf(a={}, b={"x": encode("two")}, c={}))
    assert one != hash_of(Shelf(a={}, b={}, c={"x": "one"}))
    assert one != hash_of(Shelf(a={}, b={}, c={}), x="one")


def test_equal_secrets_of_two_stacks_have_different_hashes() -> None:
    """So the hash that one tenant reads off a revision tests no guess at another tenant's secret."""
    definition = define(Shelf(a={}, b={"x": encode("one")}, c={}), SENSITIVE, {"y": "1"})
    builder = revision_builder.RevisionBuilder(management_cluster=None, cluster=None, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that these tests use
    ours, theirs = stack(), dataclasses.replace(stack(), uid="other")
    assert builder.hash(definition, ours) == builder.hash(definition, ours)
    assert builder.hash(definition, ours) != builder.hash(definition, theirs)
    recorded = [stored_definition.to_stored(definition, HASHER.of_stack(each.uid)) for each in (ours, theirs)]
    assert recorded[0]["sensitive"]["x"]["hash"] != recorded[1]["sensitive"]["x"]["hash"]


def test_going_back_takes_the_secret_as_it_is_now() -> None:
    """And tells that it is another one."""
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
    """Is refused, with the place and what to do."""
    recorded = stored_definition.to_stored(
        define(Shelf(a={}, b={"x": encode("then")}, c={}), SENSITIVE, {"y": "own"}), HASHER
    )
    with pytest.raises(errors.SourceNotFound) as caught:
        restore(recorded, shelf, **live)
    assert str(caught.value) == expected


def test_sources_are_all_that_a_definition_is_read_from() -> None:
    """Each once."""
    spec = {**SPEC, "templateRef": {"name": "a"}}
    assert sorted(map(str, revision_builder.find_sources("shop", spec))) == ["configmap/a", "configmap/c", "secret/b"]
    assert definition_sources.find_parameter_sources("shop", {}) == ()
