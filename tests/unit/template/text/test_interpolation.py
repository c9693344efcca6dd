"""Expressions are found where they stand in a string, regardless of what stands within them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.template.text import interpolation
from hearth.template.text.interpolation import ExpressionSource

# Pieces that a CEL expression may hold without its end being in doubt.
EXPRESSIONS = st.lists(
    st.sampled_from(
        [
            "a.b",
            "'}'",
            '"${"',
            "{'k': {'l': 1}}",
            "r'\\'",
            "'\\'}'",
            '"""}"\'"""',
            "`a}b`",
            " + ",
            "[1]",
            "b'}'",
            "// }\n",
            "?",
        ]
    ),
    min_size=1,
    max_size=6,
).map(" ".join)
LITERALS = st.text(st.sampled_from("ab {}'\"\\/`\n"), max_size=12)


@pytest.mark.parametrize(
    ("string", "expected"),
    [
        ("", ()),
        ("plain $ } { text", ("plain $ } { text",)),
        ("${a.b}", (ExpressionSource("a.b"),)),
        ("${ a.b }", (ExpressionSource("a.b"),)),
        ("x${a}y${b}z", ("x", ExpressionSource("a"), "y", ExpressionSource("b"), "z")),
        ("${a}${b}", (ExpressionSource("a"), ExpressionSource("b"))),
        ("${{'a': {'b': 1}}}", (ExpressionSource("{'a': {'b': 1}}"),)),
        ("${'}'}", (ExpressionSource("'}'"),)),
        ('${"\\"}"}', (ExpressionSource('"\\"}"'),)),
        ("${r'\\'}", (ExpressionSource("r'\\'"),)),
        ("${'''it's }'''}", (ExpressionSource("'''it's }'''"),)),
        ("${a // the } brace\n}", (ExpressionSource("a // the } brace"),)),
        ("${'http://x'}", (ExpressionSource("'http://x'"),)),
        ("$${a}", ("${a}",)),
        ("x$${a}${b}", ("x${a}", ExpressionSource("b"))),
        ("${a}$${b}", (ExpressionSource("a"), "${b}")),
        ("$$${a}", ("$${a}",)),
        ("$(HOME) $HOME", ("$(HOME) $HOME",)),
        ("${}", (ExpressionSource(""),)),
    ],
    ids=[
        "empty",
        "lone signs",
        "one",
        "white space around it",
        "between text",
        "side by side",
        "nested braces",
        "a brace in a string",
        "an escaped quote",
        "a raw string knows no escape",
        "three quotes",
        "a brace in a comment",
        "no comment in a string",
        "literal",
        "literal beside an expression",
        "expression beside a literal",
        "a dollar before a literal",
        "a shell's own",
        "nothing between the braces",
    ],
)
def test_parts(string: str, expected: tuple[str | ExpressionSource, ...]) -> None:
    """Literal texts and expressions, in order."""
    assert interpolation.parse(string) == expected


@pytest.mark.parametrize("string", ["${a", "x ${'}", "${ {'a': 1}", "${a}${b", '${"}', "${'''}''"])
def test_a_missing_brace_is_reported_with_what_follows_the_opening(string: str) -> None:
    """Also where only a string within the expression is open."""
    with pytest.raises(interpolation.UnterminatedExpression) as caught:
        interpolation.parse(string)
    assert caught.value.rest == string[string.rindex("${") :]


@given(st.lists(st.tuples(LITERALS, EXPRESSIONS), max_size=4), LITERALS)
def test_what_was_put_together_is_taken_apart(pairs: list[tuple[str, str]], last: str) -> None:
    """Literal texts come back as they were, expressions without the white space around them."""
    string = "".join(
        f"{interpolation.escape(literal)}${{{expression}\n}}" for literal, expression in pairs
    ) + interpolation.escape(last)
    expected: list[str | ExpressionSource] = []
    for literal, expression in pairs:
        expected += [literal, ExpressionSource(expression.strip())]
    assert interpolation.parse(string) == tuple(part for part in (*expected, last) if part != "")


@given(st.text(st.sampled_from("$${}ab'"), max_size=20))
def test_an_escaped_text_means_itself(literal: str) -> None:
    """Regardless of what dollars and braces it holds."""
    assert "".join(str(part) for part in interpolation.parse(interpolation.escape(literal))) == literal


@given(st.text(max_size=40))
def test_a_string_without_marks_is_left_alone(string: str) -> None:
    """The quick look and the thorough one agree."""
    if not interpolation.has_expressions(string):
        assert interpolation.parse(string) == ((string,) if string else ())
