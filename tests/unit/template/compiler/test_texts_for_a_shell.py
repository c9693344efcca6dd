"""A `${…}` that is no expression, but something that a shell expands, or any other text: the message says what to write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.template.text import interpolation
from support.units.templates.invalid_templates import find_mistakes, in_resource

EXPANSIONS = (
    "VAR:-default", "VAR:=x", "VAR:?is not set", "VAR:+--flag", "VAR:0:3", "#array[@]", "array[@]", "array[*]", "!name@",
    "VAR%%.*", "VAR%.*", "VAR##*/", "VAR#v", "VAR^^", "VAR,,", "VAR@Q", "VAR//a/b", "@", "*", "?", "#", "$", "1:-x", "VAR:-it's",
)  # fmt: skip
INTERNALS = re.compile(
    r"EOF|parsetree|recognition|alternative|mismatched|extraneous|4294967295|yntax error|ERROR|<input>"
)


@pytest.mark.parametrize("text", EXPANSIONS)
def test_an_expansion_of_a_shell_is_to_be_written_with_two_dollars(text: str) -> None:
    """What the message says is accepted, and means the text of the shell."""
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
    """And nothing that only follows from it."""
    resource = f'{{manifest: {{apiVersion: v1, kind: ConfigMap, data: {{run: "${{{text}}}"}}}}}}'

    said = [message for path, message in find_mistakes(in_resource(resource)) if path.endswith(".data.run")]

    assert said == [f"{expected}; write $${{ for a literal ${{"]


def test_a_rule_that_is_an_expression_by_itself_is_no_text() -> None:
    """There is nothing to escape."""
    said = find_mistakes(in_resource("{when: 'params.count >', manifest: {apiVersion: v1, kind: ConfigMap}}"))

    assert [message for _, message in said] == ["the expression ends too early (at column 15 of `params.count >`)"]


@given(text=st.text(alphabet="ab1.:-+*/%#@!?^,;=~$&|<>()[]{}'\"\\ ", max_size=12))
def test_no_message_shows_the_parser(text: str) -> None:
    """For any text between the braces."""
    template = {
        "resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"run": f"${{{text}}}"}}}}
    }

    for _, message in find_mistakes(template):
        assert not INTERNALS.search(message.replace(text, "")), message
