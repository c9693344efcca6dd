"""The functions of expressions: loaded on first use, Hearth's additions to CEL, and the page that documents all of
them.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from hearth.template.blueprint import EvaluationError, Known
from hearth.template.cel import cel_environment, expressions
from support import repository


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'abc'.charAt(1)", "b"),
        ("'%s!'.format(['a'])", "a!"),
        ("'abc'.indexOf('c')", 2),
        ("['a', 'b'].join('-')", "a-b"),
        ("'abca'.lastIndexOf('a')", 3),
        ("'ABC'.lowerAscii()", "abc"),
        ("strings.quote('a')", '"a"'),
        ("'abc'.replace('b', 'x')", "axc"),
        ("'abc'.reverse()", "cba"),
        ("'a,b'.split(',')", ["a", "b"]),
        ("'abc'.substring(1, 2)", "b"),
        ("' a '.trim()", "a"),
        ("'abc'.upperAscii()", "ABC"),
        ("math.greatest(1, 2)", 2),
        ("math.abs(-1)", 1),
        ("string(base64.decode('YQ=='))", "a"),
        ("cel.bind(x, 2, x + x)", 4),
        ("'a'\n.upperAscii // a comment\n ()", "A"),
    ],
)
def test_every_function_of_the_library_is_found(text: str, expected: Any) -> None:
    assert cel_environment.find_library(text) is cel_environment.Library.FULL
    assert expressions.run(expressions.parse(text), {}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': 1}.?a.orValue(2)", 1),
        ("optional.of(1).optMap(x, x + 1).orValue(3)", 2),
        ("optional.none().or(optional.of(2)).value()", 2),
        ("optional.of(1).hasValue()", True),
        ("optional.ofNonZeroValue(0).hasValue()", False),
        ("[?optional.of(1)]", [1]),
        ("has({'a': {}}.a.b)", False),
    ],
)
def test_optional_values_are_found(text: str, expected: Any) -> None:
    assert expressions.run(expressions.parse(text), {}) == expected


LOADED = (
    "import sys; print([name for name in ('optional', 'strings') if f'cel_expr_python.ext.ext_{name}' in sys.modules])"
)


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        pytest.param("a.b == 'x' && size(a.c) > int(a.d)", [], id="none"),
        pytest.param("quantity(a.b).isGreaterThan(quantity('1'))", [], id="functions of Kubernetes"),
        pytest.param("a.joined + a.value + a.format", [], id="fields with such names"),
        pytest.param("a.?b.orValue('1')", ["optional"], id="an optional value"),
        pytest.param("a.b.trim()", ["optional", "strings"], id="a function"),
    ],
)
def test_an_extension_is_loaded_only_for_its_functions(text: str, loaded: list[str]) -> None:
    program = f"from hearth.template.cel import expressions; expressions.parse({text!r}); {LOADED}"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert found.strip() == str(loaded)


# ---------------------------------------------------------------- functions that CEL does not have

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
    assert expressions.bind(expressions.parse(text), path="p", constants=VALUES).evaluate({}) == Known(expected)


@pytest.mark.parametrize(("text", "words"), WRONG.items(), ids=WRONG)
def test_mistakes_are_named(text: str, words: str) -> None:
    outcome = expressions.bind(expressions.parse(text), path="p", constants=VALUES).evaluate({})

    assert isinstance(outcome, EvaluationError)
    assert words in outcome.message


# ---------------------------------------------------------------- the page on expressions

PAGE = repository.DOCS / "language.md"
ROW = re.compile(r"^\| `(?P<text>[^`]+)` \| `(?P<value>[^`]+)` \|", re.MULTILINE)
EXAMPLES = [
    (found["text"], json.loads(found["value"]))
    for found in ROW.finditer(PAGE.read_text())
    if found["value"][0] in '"[{0123456789tf'
]


@pytest.mark.parametrize(("text", "value"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_each_example_gives_its_value(text: str, value: Any) -> None:
    assert expressions.bind(expressions.parse(text), path="p", constants={}).evaluate({}) == Known(value)


def test_each_function_of_ours_has_an_example() -> None:
    assert len(EXAMPLES) > 60
    assert [
        name for name in cel_environment.DATA_FUNCTIONS if not any(f"{name}(" in text for text, _ in EXAMPLES)
    ] == []
