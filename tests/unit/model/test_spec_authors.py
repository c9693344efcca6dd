"""The signed authors of a Stack's spec: which texts prove them, for which spec."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.model import limits, spec_authors
from hearth.plan.ownership import keyed_hash
from support.units.blueprints import HASHER

METADATA = {"namespace": "a", "name": "shop"}
SPEC: dict[str, Any] = {"template": {"resources": {}}, "parameters": {"size": 1.0}}
RAW = {"metadata": METADATA, "spec": SPEC}
TEXT = spec_authors.sign_authors(["alice", "bob"], RAW, signer=HASHER)
ANOTHER_KEY = keyed_hash.KeyedHasher(b"another key, long enough")


def read(text: object, metadata: Any = METADATA, spec: Any = SPEC) -> tuple[str, ...]:
    return spec_authors.read_authors(text, metadata, spec, signatures=HASHER)


def test_the_annotation_proves_the_authors_of_its_spec() -> None:
    assert read(TEXT) == ("alice", "bob")
    assert read(TEXT, spec={"parameters": {"size": 1}, "template": {"resources": {}}}) == ("alice", "bob")


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [
        pytest.param({"namespace": "b", "name": "shop"}, SPEC, id="in another namespace"),
        pytest.param({"namespace": "a", "name": "db"}, SPEC, id="on another Stack"),
        pytest.param(METADATA, {**SPEC, "paused": True}, id="with another spec"),
        pytest.param(METADATA, None, id="without a spec"),
        pytest.param({}, SPEC, id="without a name"),
    ],
)
def test_a_copy_proves_nothing(metadata: Any, spec: Any) -> None:
    assert read(TEXT, metadata, spec) == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="no annotation"),
        pytest.param("", id="an empty one"),
        pytest.param("alice", id="a name"),
        pytest.param("[" * 10_000, id="deep nesting"),
        pytest.param('{"users":["carol"]' + TEXT[TEXT.index(',"signature"') :], id="another user"),
        pytest.param('{"users":"alice","signature":""}', id="a text as users"),
        pytest.param('{"users":[1],"signature":"x"}', id="a number as user"),
        pytest.param('{"users":["alice"],"signature":5}', id="a number as signature"),
        pytest.param(orjson.dumps({"users": ["alice"]}).decode(), id="no signature"),
        pytest.param(spec_authors.sign_authors(["alice", "bob"], RAW, signer=ANOTHER_KEY), id="another key"),
        pytest.param(TEXT + " " * limits.AUTHORS_LENGTH, id="too long"),
    ],
)
def test_a_hostile_text_proves_nothing(text: object) -> None:
    assert read(text) == ()
