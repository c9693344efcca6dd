"""What templates need beside CEL's own functions: JSON, YAML, digests, merged maps, sorted lists."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from hearth.template.blueprint import EvaluationError, Known
from hearth.template.cel import expressions

VALUES = {
    "params": {"labels": {"b": "2", "a": "1"}, "names": ["c", "a"], "mixed": ["a", 1], "none": None, "big": 1 << 60}
}
CASES: dict[str, Any] = {
    "toJson(params.labels)": '{"a":"1","b":"2"}',
    "toJson([1, 2.5, true, null, 'é\"'])": '[1,2.5,true,null,"é\\""]',
    "toJson(3u)": "3",
    "toJson(params.big)": "1152921504606846976",
    "toJson(b'ab')": '"YWI="',
    "toJson(duration('90s'))": '"90s"',
    "toJson(null)": "null",
    "toYaml({'z': params.names, 'a': {'x': 'true'}})": "a:\n  x: 'true'\nz:\n- c\n- a",
    "toYaml('yes')": "'yes'",
    "sha256('a')": hashlib.sha256(b"a").hexdigest(),
    "sha256(toJson(params.labels)) == sha256(toJson({'a': '1', 'b': '2'}))": True,
    "merge(params.labels, {'b': '3', 'c': '4'})": {"a": "1", "b": "3", "c": "4"},
    "merge({}, params.labels).a": "1",
    "sort(params.names)": ["a", "c"],
    "sort([3, 1.5, 2])": [1.5, 2, 3],
    "sort([])": [],
    "sum([1, 2, 3.5])": 6.5,
    "sum([])": 0,
    "int(sum(params.names.map(x, size(x))))": 2,
}
WRONG = {
    "sort(params.mixed)": "sort takes a list of texts or a list of numbers",
    "sort([true, false])": "sort takes a list of texts or a list of numbers",
    "sum(params.names)": "sum takes a list of numbers",
    "toJson(1.0 / 0.0)": "which is not a JSON number",
}


@pytest.mark.parametrize(("text", "expected"), CASES.items(), ids=CASES)
def test_values(text: str, expected: Any) -> None:
    """Equal inputs give the same text, even if their keys have another order."""
    assert expressions.bind(expressions.parse(text), path="p", constants=VALUES).evaluate({}) == Known(expected)


@pytest.mark.parametrize(("text", "words"), WRONG.items(), ids=WRONG)
def test_mistakes_are_named(text: str, words: str) -> None:
    """In a sentence of ours."""
    outcome = expressions.bind(expressions.parse(text), path="p", constants=VALUES).evaluate({})

    assert isinstance(outcome, EvaluationError)
    assert words in outcome.message
