"""The library of CEL is loaded when an expression names one of its functions, and only then."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from hearth.template.cel import cel_environment, expressions

LOADED = "import sys; print('cel_expr_python.ext.ext_strings' in sys.modules)"


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
        ("'a\\nb'\n.upperAscii()", "A\nB"),
    ],
)
def test_every_function_of_the_library_is_found(text: str, expected: Any) -> None:
    """By its name, or the prefix of its name, anywhere in the text."""
    assert cel_environment.needs_library(text)
    assert expressions.run(expressions.parse(text), {}) == expected


@pytest.mark.parametrize(
    ("text", "is_loaded"),
    [
        pytest.param("a.b == 'x' ? size(a.c) : int(a.?d.orValue('1'))", False, id="none"),
        pytest.param("quantity(a.b).isGreaterThan(quantity('1'))", False, id="functions of Kubernetes"),
        pytest.param("a.joined + a.formatted", False, id="fields with longer names"),
        pytest.param("a.b.trim()", True, id="one"),
    ],
)
def test_the_library_is_loaded_only_for_its_functions(text: str, *, is_loaded: bool) -> None:
    """It takes memory that most operators never need."""
    program = f"from hearth.template.cel import expressions; expressions.parse({text!r}); {LOADED}"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert found.strip() == str(is_loaded)
