"""The library of CEL is loaded when an expression names one of its functions, and only then."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from hearth.template.cel import cel_environment, expressions


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
    """By its name, or the prefix of its name, anywhere in the text."""
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
    """By their notation, or by the names of their functions."""
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
    """It takes memory that most operators never need."""
    program = f"from hearth.template.cel import expressions; expressions.parse({text!r}); {LOADED}"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert found.strip() == str(loaded)
