"""Hashes that are equal for equal meaning and worthless without the key."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.plan.ownership import keyed_hash

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
HASHER = keyed_hash.KeyedHasher(KEY)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)  # fmt: skip


def test_a_hash_names_its_key_and_algorithm() -> None:
    assert HASHER.hash({}).startswith("k")
    assert len(HASHER.hash({})) == len("k12345678:") + 32
    assert HASHER.hash({}) == HASHER.hash([]).split(":")[0] + ":" + HASHER.hash({}).split(":")[1]


def test_hashes_stay_the_same_from_release_to_release() -> None:
    assert HASHER.hash({"b": [1, "x", None], "a": True}) == "k2e91f3e9:195b8163a182cef03c1da62c05918d65"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, id="order of keys"),
        pytest.param({"a": 1.0}, {"a": 1}, id="a whole float, which the API server stores as an integer"),
        pytest.param([1e3, -0.0], [1000, 0], id="in a list"),
        pytest.param(2.0, 2, id="bare"),
        pytest.param({"a": 1e17}, {"a": 10**17}, id="with an exponent"),
        pytest.param({"v": "1.0", "a": (1, 2)}, {"v": "1.0", "a": [1, 2]}, id="a tuple"),
        pytest.param({"a": b"\x00\x01"}, {"a": "AAE="}, id="bytes, which Kubernetes writes in base 64"),
    ],
)
def test_equal_meaning_has_an_equal_hash(one: Any, other: Any) -> None:
    assert HASHER.hash(one) == HASHER.hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(1, "1", id="number and text"),
        pytest.param(1, True, id="number and boolean"),
        pytest.param(1.5, 1, id="a fraction"),
        pytest.param([1, 2], [2, 1], id="order of a list"),
        pytest.param({"a": None}, {}, id="null and absent"),
        pytest.param({"v": "1.0"}, {"v": "1"}, id="a text that looks like a number"),
        pytest.param({"a": {"b": 1}}, {"a": {}, "b": 1}, id="where it stands"),
    ],
)
def test_another_meaning_has_another_hash(one: Any, other: Any) -> None:
    assert HASHER.hash(one) != HASHER.hash(other)


@given(json_values)
def test_a_trip_through_json_changes_no_hash(value: Any) -> None:
    assert HASHER.hash(orjson.loads(orjson.dumps(value))) == HASHER.hash(value)


def test_another_key_makes_another_hash() -> None:
    other = keyed_hash.KeyedHasher(OTHER_KEY)
    assert other.hash("x").split(":")[1] != HASHER.hash("x").split(":")[1]
    assert other.hash("x") == keyed_hash.KeyedHasher(OTHER_KEY).hash("x")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(keyed_hash.KeyedHasher(OTHER_KEY).hash({}), id="of another key"),
        pytest.param("", id="none"),
        pytest.param("5d41402abc4b2a76b9719d911017c592", id="of another maker"),
        pytest.param(HASHER.hash({})[:-1], id="cut"),
    ],
)
def test_an_unknown_hash_says_nothing(text: str) -> None:
    assert HASHER.is_comparable(HASHER.hash({}))
    assert not HASHER.is_comparable(text)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes, found 3"):
        keyed_hash.KeyedHasher(b"abc")


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        HASHER.hash({"a": object()})


def test_equal_values_of_two_stacks_have_different_hashes() -> None:
    one, other = HASHER.of_stack("one"), HASHER.of_stack("other")
    assert one.hash("secret") != other.hash("secret") != HASHER.hash("secret")
    assert one.hash("secret") == HASHER.of_stack("one").hash("secret")
    assert HASHER.is_comparable(one.hash("secret"))


def test_a_signature_holds_for_its_purpose_and_value_alone() -> None:
    signature = HASHER.sign("identity", ["uid", 1])
    assert HASHER.is_signed("identity", ["uid", 1], signature)
    assert HASHER.of_stack("uid").is_signed("identity", ["uid", 1], signature)
    assert not HASHER.is_signed("revision", ["uid", 1], signature)
    assert not HASHER.is_signed("identity", ["uid", 2], signature)
    assert not HASHER.is_signed("identity", ["uid", 1], HASHER.hash(["identity", ["uid", 1]]))
    assert not HASHER.is_signed("identity", ["uid", 1], "é\ud800")
    assert not keyed_hash.KeyedHasher(OTHER_KEY).is_signed("identity", ["uid", 1], signature)


@given(st.tuples(st.text(), st.text() | json_values), st.tuples(st.text(), st.text() | json_values))
def test_no_two_purposes_and_values_are_signed_as_the_same_bytes(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    is_same = one[0] == other[0] and keyed_hash.canonical(one[1]) == keyed_hash.canonical(other[1])
    assert (keyed_hash.pack(*one) == keyed_hash.pack(*other)) is is_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("ab", "c"), ("a", "bc"), id="where the purpose ends"),
        pytest.param(("a", "b"), ("a", ["b"]), id="a text and a list"),
        pytest.param(("a", '["a",1]'), ("a", 1), id="a text that is JSON"),
        pytest.param(("", "1:ab"), ("a", "b"), id="a text that looks like a length"),
    ],
)
def test_what_looks_alike_has_another_signature(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    assert HASHER.sign(*one) != HASHER.sign(*other)
