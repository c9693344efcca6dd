"""Any text as YAML: the result is JSON values within the bounds, or a YAML error with a position."""

from __future__ import annotations

import contextlib

import orjson
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.model import chunked_work
from hearth.model.errors import InvalidDefinition
from hearth.template.text import bounds, kubectl_yaml, template_source
from support.units import fuzzing

QUICK = settings(fuzzing.QUICK, max_examples=300, deadline=2000)
LONG = settings(fuzzing.LONG, max_examples=50_000, deadline=2000)
TOKENS = st.sampled_from(
    [
        *("a", "b: ", "- ", "? ", ": ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ", ", "'", '"', "|\n", ">-\n"),
        *("&x ", "*x", "&y ", "*y", "<<: ", "!!int ", "!!bool ", "!!float ", "!!binary ", "!!set ", "! ", "!foo "),
        *("---\n", "...\n", "%YAML 1.1\n", "%TAG ! x\n", "#c\n", "0x_", "0b1", "1e400", ".inf", "._", "08", "~", "y"),
        *(
            "9" * 400,
            "\x00",
            "\u2028",
            "\ud800",
            '"\\ud800"',
            "é",
            "\t",
            "${a}",
            "null",
            "2024-01-01",
            "0o7",
            "-0x1",
            "=",
            "@",
            "`",
        ),
    ]
)
TEXTS = st.lists(TOKENS, max_size=30).map("".join) | st.text(max_size=60)
SMALL = kubectl_yaml.Bounds(nodes=50, depth=6, size=500)


def check(text: str) -> None:
    """Read it with usual and with small bounds."""
    for limits in (kubectl_yaml.BOUNDS, SMALL):
        try:
            for document in kubectl_yaml.parse_documents(text, limits):
                assert bounds.find_excess(document.value, depth=limits.depth, nodes=limits.nodes) == ""
                orjson.dumps(document.value)
        except yaml.YAMLError as error:
            kubectl_yaml.describe(error).encode()
    with contextlib.suppress(InvalidDefinition):
        assert isinstance(chunked_work.finish(template_source.parse_in_pieces(text, place="(x)")), dict)


def check_agrees(text: str) -> None:
    """PyYAML reads our result with the same structure."""
    try:
        ours = [document.number for document in kubectl_yaml.parse_documents(text)]
    except yaml.YAMLError:
        return
    assert len(ours) <= len(list(yaml.compose_all(text, Loader=yaml.CSafeLoader)))


@given(TEXTS)
@QUICK
def test_any_text_is_read_or_refused(text: str) -> None:
    check(text)
    check_agrees(text)


@pytest.mark.soak
@given(TEXTS)
@LONG
def test_any_text_is_read_or_refused_for_long(text: str) -> None:
    check(text)


def test_the_key_of_a_merge_is_no_value() -> None:
    (document,) = kubectl_yaml.parse_documents("a: &a {b: 1}\nc: {<<: *a}")
    assert kubectl_yaml.Document(value={"a": {"b": 1}, "c": {"b": 1}}, number=1, line=1) == document
