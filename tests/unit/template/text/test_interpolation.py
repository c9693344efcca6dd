"""Expressions are found at their place in a string, no matter what they contain; other uses of `${…}` are mistakes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.template.text import interpolation
from hearth.template.text.interpolation import ExpressionSource
from support.units.templates.invalid_templates import find_mistakes, in_resource

# Parts of a CEL expression that do not make its end ambiguous.
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
        pytest.param("", (), id="empty"),
        pytest.param("plain $ } { text", ("plain $ } { text",), id="lone signs"),
        pytest.param("${a.b}", (ExpressionSource("a.b"),), id="one"),
        pytest.param("${ a.b }", (ExpressionSource("a.b"),), id="white space around it"),
        pytest.param("x${a}y${b}z", ("x", ExpressionSource("a"), "y", ExpressionSource("b"), "z"), id="between text"),
        pytest.param("${a}${b}", (ExpressionSource("a"), ExpressionSource("b")), id="side by side"),
        pytest.param("${{'a': {'b': 1}}}", (ExpressionSource("{'a': {'b': 1}}"),), id="nested braces"),
        pytest.param("${'}'}", (ExpressionSource("'}'"),), id="a brace in a string"),
        pytest.param('${"\\"}"}', (ExpressionSource('"\\"}"'),), id="an escaped quote"),
        pytest.param("${r'\\'}", (ExpressionSource("r'\\'"),), id="a raw string knows no escape"),
        pytest.param("${'''it's }'''}", (ExpressionSource("'''it's }'''"),), id="three quotes"),
        pytest.param("${a // the } brace\n}", (ExpressionSource("a // the } brace"),), id="a brace in a comment"),
        pytest.param("${'http://x'}", (ExpressionSource("'http://x'"),), id="no comment in a string"),
        pytest.param("$${a}", ("${a}",), id="literal"),
        pytest.param("x$${a}${b}", ("x${a}", ExpressionSource("b")), id="literal beside an expression"),
        pytest.param("${a}$${b}", (ExpressionSource("a"), "${b}"), id="expression beside a literal"),
        pytest.param("$$${a}", ("$${a}",), id="a dollar before a literal"),
        pytest.param("$(HOME) $HOME", ("$(HOME) $HOME",), id="a shell's own"),
        pytest.param("${}", (ExpressionSource(""),), id="nothing between the braces"),
    ],
)
def test_parts(string: str, expected: tuple[str | ExpressionSource, ...]) -> None:
    assert interpolation.parse(string) == expected


@pytest.mark.parametrize("string", ["${a", "x ${'}", "${ {'a': 1}", "${a}${b", '${"}', "${'''}''"])
def test_a_missing_brace_is_reported_with_what_follows_the_opening(string: str) -> None:
    with pytest.raises(interpolation.UnterminatedExpression) as caught:
        interpolation.parse(string)
    assert caught.value.rest == string[string.rindex("${") :]


@given(st.lists(st.tuples(LITERALS, EXPRESSIONS), max_size=4), LITERALS)
def test_what_was_put_together_is_taken_apart(pairs: list[tuple[str, str]], last: str) -> None:
    string = "".join(
        f"{interpolation.escape(literal)}${{{expression}\n}}" for literal, expression in pairs
    ) + interpolation.escape(last)
    expected: list[str | ExpressionSource] = []
    for literal, expression in pairs:
        expected += [literal, ExpressionSource(expression.strip())]
    assert interpolation.parse(string) == tuple(part for part in (*expected, last) if part != "")


@given(st.text(st.sampled_from("$${}ab'"), max_size=20))
def test_an_escaped_text_means_itself(literal: str) -> None:
    assert "".join(str(part) for part in interpolation.parse(interpolation.escape(literal))) == literal


@given(st.text(max_size=40))
def test_a_string_without_marks_is_left_alone(string: str) -> None:
    if not interpolation.has_expressions(string):
        assert interpolation.parse(string) == ((string,) if string else ())


# ---------------------------------------------------------------- a `${…}` that is not an expression: the message
# suggests a correction

EXPANSIONS = (
    "VAR:-default", "VAR:=x", "VAR:?is not set", "VAR:+--flag", "VAR:0:3", "#array[@]", "array[@]", "array[*]", "!name@",
    "VAR%%.*", "VAR%.*", "VAR##*/", "VAR#v", "VAR^^", "VAR,,", "VAR@Q", "VAR//a/b", "@", "*", "?", "#", "$", "1:-x", "VAR:-it's",
)  # fmt: skip
INTERNALS = re.compile(
    r"EOF|parsetree|recognition|alternative|mismatched|extraneous|4294967295|yntax error|ERROR|<input>"
)


@pytest.mark.parametrize("text", EXPANSIONS)
def test_an_expansion_of_a_shell_is_to_be_written_with_two_dollars(text: str) -> None:
    resource = "{manifest: {apiVersion: v1, kind: ConfigMap, data: {run: %s}}}"
    said = find_mistakes(in_resource(resource % f'"echo ${{{text}}}"'))

    (message,) = [message for path, message in said if path.endswith(".data.run")]
    written = message.partition("write ")[2]
    assert written == f"$${{{text}}}" if "'" not in text else written.startswith("$${")
    assert find_mistakes(in_resource(resource % f'"echo {written}"')) == []
    assert interpolation.parse(f"echo {written}") == (f"echo {written[1:]}",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", "unexpected 'b' (at column 3 of `a b`)"),
        ("(params.x", "')' is missing at the end of the expression (at column 10 of `(params.x`)"),
        ("params.x +", "the expression ends too early (at column 11 of `params.x +`)"),
        ("a ? b", "the expression ends too early: ':' is missing (at column 6 of `a ? b`)"),
        ("if x", "'if' is a word of CEL (at column 1 of `if x`)"),
        ("a = b", "unexpected '=' (at column 3 of `a = b`)"),
        ("a; b", "unexpected ';' (at column 2 of `a; b`)"),
    ],
)
def test_the_first_break_is_named_in_plain_words(text: str, expected: str) -> None:
    resource = f'{{manifest: {{apiVersion: v1, kind: ConfigMap, data: {{run: "${{{text}}}"}}}}}}'

    said = [message for path, message in find_mistakes(in_resource(resource)) if path.endswith(".data.run")]

    assert said == [f"{expected}; write $${{ for a literal ${{"]


def test_a_rule_that_is_an_expression_by_itself_is_no_text() -> None:
    said = find_mistakes(in_resource("{when: 'params.count >', manifest: {apiVersion: v1, kind: ConfigMap}}"))

    assert [message for _, message in said] == ["the expression ends too early (at column 15 of `params.count >`)"]


@given(text=st.text(alphabet="ab1.:-+*/%#@!?^,;=~$&|<>()[]{}'\"\\ ", max_size=12))
def test_no_message_shows_the_parser(text: str) -> None:
    template = {
        "resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"run": f"${{{text}}}"}}}}
    }

    for _, message in find_mistakes(template):
        assert not INTERNALS.search(message.replace(text, "")), message
